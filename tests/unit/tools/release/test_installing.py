"""What is packed is what is in src, whatever an earlier build left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.release import program
from tools.release.sources import CannotBuild


def tree(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def test_the_same_modules_are_packed(tmp_path: Path) -> None:
    source = tree(tmp_path / "src", "cli/main.py", "py.typed")
    program.check_modules(tree(tmp_path / "site", "cli/main.py"), source)


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        (["cli/main.py", "cli/moved.py"], "nodemanager/cli/moved.py is installed, and not in src"),
        ([], "nodemanager/cli/main.py is in src, and was not installed"),
    ],
)
def test_a_module_of_another_commit_is_refused(tmp_path: Path, installed: list[str], said: str) -> None:
    site = tree(tmp_path / "site", "__init__.py", *installed)
    with pytest.raises(CannotBuild, match=said):
        program.check_modules(site, tree(tmp_path / "src", "__init__.py", "cli/main.py"))
