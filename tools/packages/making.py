"""What all formats need to make a package: a tree of files, texts to fill in, programs to run."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.packages.contents import CannotBuild, Files

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS: Final = 300.0
NO_COMMIT: Final = 315532800
"""1980: of an archive of the sources, which knows no day."""


def source_date_epoch() -> int:
    """Return the time of everything in a package."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    try:
        return int(run("git", "-C", str(ROOT), "log", "-1", "--format=%ct"))
    except CannotBuild:
        return NO_COMMIT


def maintainer() -> str:
    """Return who answers for a package."""
    name = os.environ.get("DEBFULLNAME", "nodemanager authors")
    return f"{name} <{os.environ.get('DEBEMAIL', 'nodemanager@packages.invalid')}>"


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in the place of @NAMES@."""
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], text)


def write_tree(files: Files, tree: Path) -> None:
    """Write files below a folder."""
    for path, (data, mode) in files.items():
        write(tree / path, data, mode)


def write(path: Path, data: bytes, mode: int) -> None:
    """Write one, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def settle(tree: Path, epoch: int) -> None:
    """Give every file the same time, and every folder the same mode."""
    for path in (*tree.rglob("*"), tree):
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (epoch, epoch))


def run(*argv: str, **variables: str) -> str:
    """Run a program, and return what it prints."""
    done = subprocess.run(  # noqa: S603 - an argv
        argv, env={**os.environ, **variables}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode != 0:
        raise CannotBuild(f"cannot build a package: {argv[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()
