"""Of which sources a program is: the same for the same sources, and another one for others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.release import revision
from tools.release.revision import Revision

FILES = ("pyproject.toml", "src/nodemanager/cli/main.py", "tools/release/program.c", "docs/index.md")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Sources that are committed."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "First")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    argv = ["git", "-C", str(folder), *settings, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_a_clean_tree_is_its_commit(tree: Path) -> None:
    found = revision.of_tree(tree)
    assert (found.commit, found.state) == (git(tree, "rev-parse", "HEAD"), "clean")
    assert revision.of_tree(tree) == found


@pytest.mark.parametrize("name", ["src/nodemanager/cli/main.py", "src/nodemanager/new.py", "tools/release/x"])
def test_one_that_was_changed_says_so(tree: Path, name: str) -> None:
    before = revision.of_tree(tree)
    (tree / name).write_text("another")
    after = revision.of_tree(tree)
    assert (after.commit, after.state) == (before.commit, "modified")
    assert after.sources != before.sources


@pytest.mark.parametrize("name", ["docs/index.md", "SHA256SUMS", "src/nodemanager/cli/main.pyc"])
def test_what_decides_nothing_does_not_count(tree: Path, name: str) -> None:
    (tree / ".gitignore").write_text("*.pyc\n")
    before = revision.of_tree(tree)
    (tree / name).write_text("another")
    assert revision.of_tree(tree) == before


def test_a_name_counts_as_much_as_a_content(tree: Path) -> None:
    before = revision.digest(tree)
    (tree / "src/nodemanager/cli/main.py").rename(tree / "src/nodemanager/cli/moved.py")
    assert revision.digest(tree) != before


def test_sources_without_git_have_a_digest_only(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nothing"))
    assert revision.of_tree(tree) == Revision("unknown", "unknown", revision.digest(tree))


@pytest.mark.parametrize(
    "found", [Revision("ab" * 20, "clean", "cd" * 32), Revision("unknown", "unknown", "ef" * 32)]
)
def test_it_is_found_in_a_program(found: Revision, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF nodemanager-revision \0" + found.packed() + b"\0")
    assert revision.of_program(program) == found
    program.write_bytes(b"\x7fELF nodemanager-revision \0")
    assert revision.of_program(program) is None
