"""`tools/release/again.sh`: whether two builds of a commit are compared, and a difference is said."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[4] / "tools/release/again.sh"
MAKE = """#!/bin/sh
# Stands for make: -C FOLDER release TARGETS=... SIGNING_KEY= ARGS=--cache ...
mkdir -p "$2/dist" && cat "$2/source" >"$2/dist/nodemanager-0.1.0-linux-amd64"
echo " nodemanager-revision $(git -C "$2" rev-parse HEAD) clean" >>"$2/dist/nodemanager-0.1.0-linux-amd64"
echo "$*" >"$2/dist/SHA256SUMS"
cp "$2/dist/SHA256SUMS" "$SAID" && ls "${6##* }/archives" >>"$SAID"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Sources that are committed, and what a first build made of them."""
    root = tmp_path / "tree"
    (root / "tools/release").mkdir(parents=True)
    shutil.copy(TOOL, root / "tools/release/again.sh")
    (root / "source").write_text("a program")
    (root / ".gitignore").write_text("/dist/\n")
    for argv in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "First"]):
        settings = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(root), *settings, *argv], timeout=60, check=True)
    (root / "dist").mkdir()
    built(root, "a program")
    (tmp_path / "cache/nodemanager-release/archives").mkdir(parents=True)
    (tmp_path / "cache/nodemanager-release/archives/zlib.tar.gz").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/make").write_text(MAKE)
    (tmp_path / "bin/make").chmod(0o755)
    return root


def built(tree: Path, text: str, commit: str = "") -> None:
    """Put there what a first build made."""
    argv = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    head = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    program = tree / "dist/nodemanager-0.1.0-linux-amd64"
    program.write_text(f"{text} nodemanager-revision {commit or head} clean\n")


def again(tree: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    above = tree.parent
    environ = {
        **os.environ, "PATH": f"{above / 'bin'}:{os.environ['PATH']}", "SAID": str(above / "said"),
        "XDG_CACHE_HOME": str(above / "cache"), "TMPDIR": str(above),
    }  # fmt: skip
    argv = [str(tree / "tools/release/again.sh"), *targets]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_the_same_bytes_are_told_from_others(tree: Path) -> None:
    done = again(tree, "linux-amd64")
    assert (done.returncode, done.stdout) == (0, "the same bytes: linux-amd64\n"), done.stderr
    called, *archives = (tree.parent / "said").read_text().splitlines()
    assert " release TARGETS=linux-amd64 SIGNING_KEY= ARGS=--cache " in called
    assert archives == ["zlib.tar.gz"]
    built(tree, "another program")
    done = again(tree, "linux-amd64")
    assert done.returncode == 1
    assert done.stderr.endswith("these are not the same bytes: nodemanager-0.1.0-linux-amd64\n")
    assert not list(tree.parent.glob("tmp.*"))


@pytest.mark.parametrize("there", [True, False])
def test_without_any_archive_all_are_fetched_again(tree: Path, there: bool) -> None:
    archives = tree.parent / "cache/nodemanager-release/archives"
    (archives / "zlib.tar.gz").unlink()
    if not there:
        archives.rmdir()
    done = again(tree, "linux-amd64")
    assert (done.returncode, done.stdout) == (0, "the same bytes: linux-amd64\n"), done.stderr
    assert len((tree.parent / "said").read_text().splitlines()) == 1


def test_what_dist_lacks_or_has_of_another_commit_is_said_before_an_hour_of_building(tree: Path) -> None:
    built(tree, "a program", "f" * 40)
    done = again(tree, "linux-amd64")
    assert done.returncode == 1
    assert f"nodemanager-0.1.0-linux-amd64 is of commit {'f' * 40}, and this is" in done.stderr
    (tree / "dist/nodemanager-0.1.0-linux-amd64").write_text("older than the mark")
    assert "is of commit unknown, and this is" in again(tree, "linux-amd64").stderr
    (tree / "dist/nodemanager-0.1.0-linux-amd64").unlink()
    done = again(tree, "linux-amd64")
    assert (done.returncode, "dist/ has no program for linux-amd64: make release" in done.stderr) == (1, True)
    assert not (tree.parent / "said").exists()


def test_what_cannot_be_compared_is_not_built(tree: Path) -> None:
    assert "name targets, say linux-amd64" in again(tree).stderr
    (tree / "source").write_text("changed")
    done = again(tree, "linux-amd64")
    assert (done.returncode, "cannot build again: what is not committed would be missing" in done.stderr) == (
        1,
        True,
    )
    assert not (tree.parent / "said").exists()
