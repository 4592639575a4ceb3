"""Fails where nobody can survey the source: `python -m tools.rooms`.

A folder has so many modules that one can read their names, and the name of a public class means one class.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MOST: Final = 25
"""More is a drawer, not a room."""

SHARED: Final[Mapping[str, str]] = {
    "DeleteOptions": "Kubernetes' word: as the client sends it, and as the server reads it",
    "HostWatch": "the same idea: the Protocol of the one who listens, and the watch of the host",
    "Touched": "the same idea: the Protocol of the one who is told, and what the watch tells",
    "Unreachable": "the same idea in two trees of errors: no API, or no backend, took the request",
    "WriteOptions": "the same idea: as the client sends it, and as the server reads it",
}
"""Names that several public classes have, and why they may."""


def crowded(top: Path) -> dict[Path, int]:
    """Return the folders with too many modules, and how many these are."""
    folders = (path.parent for path in top.rglob("__init__.py"))
    counts = {one: sum(1 for each in one.glob("*.py") if each.name != "__init__.py") for one in folders}
    return {folder: count for folder, count in sorted(counts.items()) if count > MOST}


def shared(top: Path) -> dict[str, list[Path]]:
    """Return the names that several public classes have, and the modules where those are."""
    found: dict[str, list[Path]] = {}
    for path in sorted(top.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path)
    return {name: paths for name, paths in sorted(found.items()) if len(paths) > 1}


def misnamed(top: Path, allowed: Mapping[str, str]) -> list[str]:
    """Return what is wrong with names of classes, in words; what is allowed and not shared is wrong, too."""
    found = shared(top)
    return [
        *(
            f"{len(paths)} classes are called {name} ({', '.join(map(str, paths))}): say of each what it is,"
            " or in tools/rooms.py why they are the same"
            for name, paths in found.items()
            if name not in allowed
        ),
        *(
            f"no two classes are called {name}: take it out of tools/rooms.py"
            for name in allowed
            if name not in found
        ),
    ]


def main() -> None:
    """Say which folders are too full, and which names are shared."""
    top = Path("src")
    wrong = [
        *(
            f"{folder} has {count} modules, {MOST} are the most: make a room of some of them"
            for folder, count in crowded(top).items()
        ),
        *misnamed(top, SHARED),
    ]
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
