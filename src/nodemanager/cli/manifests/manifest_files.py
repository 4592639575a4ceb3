"""Which files hold manifests, and what is in them; without a word about what that means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nodemanager.kube.manifests import ManifestError

SUFFIXES: Final = (".yaml", ".yml", ".json")


def files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that hold manifests."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(one for one in path.iterdir() if one.suffix in SUFFIXES and one.is_file())
        elif path.exists():
            found.append(path)
        else:  # exit code 1, not the 2 of wrong usage: for a plan, that one means "something would change"
            raise ManifestError(f"cannot find manifests: there is no {path}")
    if not found:
        names = ", ".join(map(str, paths))
        where = f"no {' or '.join(SUFFIXES)} files in {names}"
        raise ManifestError(f"cannot find manifests: {where}; folders below are read only if they are named")
    return found


def text(path: Path) -> str:
    """Return what is in a file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(f"cannot read {path}: it is not UTF-8 text") from error
