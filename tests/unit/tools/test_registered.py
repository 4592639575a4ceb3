"""What nobody registered is named, with the file to edit."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_everything_of_ours_is_registered() -> None:
    from tools import registered

    assert registered.forgotten(ROOT) == []


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("api/garden/kinds.py", "garden/kinds.py is not in the registry: add its KINDS in src/"),
        ("controllers/audits/__init__.py", "ENTRIES in src/nodemanager/controllers/assembly.py"),
    ],
)  # fmt: skip
def test_what_is_not_is_named(tmp_path: Path, file: str, said: str) -> None:
    from tools import registered

    path = tmp_path / "src/nodemanager" / file
    path.parent.mkdir(parents=True)
    path.touch()
    [line] = registered.forgotten(tmp_path)
    assert said in line
