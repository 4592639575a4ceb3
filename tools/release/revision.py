"""Of which sources a program is: packed into it, shown by `nodemanager version`, looked for by tests.

All of it follows from the sources and their commit, and nothing from the day or the machine: two builds of
one commit are the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release.sources import CannotBuild

ROOT: Final = Path(__file__).resolve().parents[2]
NAME: Final = "REVISION"
"""A data file of the package nodemanager, as `tools/release/boot.py` reads it."""
WHAT: Final = (
    "pyproject.toml", "requirements/release.txt", "requirements/runtime.txt", "src/nodemanager",
    "tools/release",
)  # fmt: skip
"""What decides the bytes of a program; other changes leave it as it is."""
UNKNOWN: Final = "unknown"
_MARK: Final = b"nodemanager-revision "
_TEXT: Final = re.compile(_MARK + rb"([0-9a-f]{40,64}|unknown) (clean|modified|unknown) ([0-9a-f]{64})\n")


@dataclass(frozen=True, slots=True)
class Revision:
    """The sources of a program."""

    commit: str
    """Of git; `unknown` where the sources are in none."""
    state: str
    """Whether they are those of the commit: clean, modified or unknown."""
    sources: str
    """The SHA-256 of the files themselves, whatever git says."""

    def packed(self) -> bytes:
        """Return it as it is in a program."""
        return _MARK + f"{self.commit} {self.state} {self.sources}\n".encode()


def of_tree(root: Path = ROOT) -> Revision:
    """Return the revision of a tree of sources."""
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=all", "--", *WHAT)
    if commit is None or changed is None:
        return Revision(UNKNOWN, UNKNOWN, digest(root))
    return Revision(commit, "modified" if changed else "clean", digest(root))


def of_program(path: Path) -> Revision | None:
    """Return the revision of a program, for whatever processor it is; None = it is older than this mark."""
    found = _TEXT.search(path.read_bytes())
    return None if found is None else Revision(*(each.decode() for each in found.groups()))


def check(programs: Iterable[Path], begun: Revision, now: Revision) -> None:
    """Raise unless programs are of the sources that their build began with, and these are still here."""
    for path in programs:
        found = of_program(path)
        if found != begun:
            other = f"commit {found.commit[:12]}" if found is not None else "nobody knows what"
            raise CannotBuild(
                f"cannot release {path}: it is of {other}, and not of the {begun.state} sources that are"
                " here: something else was packed meanwhile; build again"
            )
    if now.sources != begun.sources:
        raise CannotBuild(
            "cannot release: the sources have changed meanwhile; leave them as they are while they are"
            " built, and build again"
        )


def digest(root: Path) -> str:
    """Return the SHA-256 of all files that decide the bytes of a program, and of their names."""
    found = hashlib.sha256()
    for path in _files(root):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for name in WHAT:
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix != ".pyc":
                yield path


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git says; None where there is none, or no commit."""
    try:
        done = subprocess.run(  # noqa: S603 - an argv
            ["/usr/bin/env", "git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
