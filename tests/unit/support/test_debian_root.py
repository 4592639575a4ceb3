"""What test machines are made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import debian_packages, debian_root


@pytest.mark.parametrize(
    ("file", "text", "mirror"),
    [
        ("sources.list", "deb http://mirror.example/debian bookworm main\n", "http://mirror.example/debian"),
        ("sources.list", "deb [signed-by=/k] https://m.example/debian/ bookworm main\n", "https://m.example/debian"),
        ("sources.list.d/debian.sources", "Types: deb\nURIs: http://m.example/debian\nSuites: a\n", "http://m.example/debian"),
        ("sources.list.d/other.list", "deb https://packages.example/apt main\n", debian_root.DEFAULT_MIRROR),
        ("sources.list.d/debian.sources.bak", "URIs: http://o.example/debian\n", debian_root.DEFAULT_MIRROR),
    ],
)  # fmt: skip
def test_the_mirror_is_the_one_this_machine_uses(tmp_path: Path, file: str, text: str, mirror: str) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / file).write_text(text)
    assert debian_root.find_mirror(tmp_path) == mirror


def test_a_package_that_does_not_exist_is_missing() -> None:
    assert debian_packages.missing(("nodemanager-no-such-package",)) == ("nodemanager-no-such-package",)
