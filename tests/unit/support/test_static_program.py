"""Which program of a release tests take, and when they say that there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

sys.path.append(str(Path(__file__).resolve().parents[3]))  # tools/ is not installed

from tools.release import revision

import nodemanager
from support import static_program
from support.static_program import REQUIRED


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources, and a program that was built of them."""
    monkeypatch.delenv(REQUIRED, raising=False)
    (tmp_path / "src/nodemanager").mkdir(parents=True)
    (tmp_path / "dist").mkdir()
    (tmp_path / "src/nodemanager/main.py").write_text("new")
    built(tmp_path)
    return tmp_path


def built(root: Path) -> Path:
    program = root / f"dist/nodemanager-{nodemanager.__version__}-linux-arm"
    program.write_bytes(b"\x7fELF" + revision.of_tree(root).packed())
    return program


def test_one_of_these_sources_is_taken(root: Path) -> None:
    assert static_program.find("linux-arm", root) == built(root)


@pytest.mark.parametrize("required", [False, True])
def test_without_one_the_test_is_skipped_or_fails(
    root: Path, required: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if required:
        monkeypatch.setenv(REQUIRED, "1")
    with pytest.raises(
        Failed if required else Skipped, match="no static program in dist/: make release TARGETS=linux-arm64"
    ):
        static_program.find("linux-arm64", root)


def test_one_of_other_sources_is_not_taken(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "src/nodemanager/main.py").write_text("newer")
    with pytest.raises(Skipped, match="-linux-arm was built of other sources than these: make release"):
        static_program.find("linux-arm", root)
    monkeypatch.setenv(REQUIRED, "1")
    with pytest.raises(Failed, match="was built of other sources"):
        static_program.find("linux-arm", root)


def test_one_that_does_not_say_of_what_it_is_is_not_taken(root: Path) -> None:
    built(root).write_bytes(b"\x7fELF")
    with pytest.raises(Skipped, match="was built of other sources"):
        static_program.find("linux-arm", root)
