"""Fails where a folder of src/ has so many modules that nobody can survey it: `python -m tools.rooms`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

MOST: Final = 25
"""More is a drawer, not a room."""


def crowded(top: Path) -> dict[Path, int]:
    """Return the folders with too many modules, and how many these are."""
    folders = (path.parent for path in top.rglob("__init__.py"))
    counts = {one: sum(1 for each in one.glob("*.py") if each.name != "__init__.py") for one in folders}
    return {folder: count for folder, count in sorted(counts.items()) if count > MOST}


def main() -> None:
    """Say which folders are too full."""
    found = crowded(Path("src"))
    for folder, count in found.items():
        sys.stderr.write(f"{folder} has {count} modules, {MOST} are the most: make a room of some of them\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
