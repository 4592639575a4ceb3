"""Files that this process holds open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def held_open() -> set[tuple[str, str]]:
    """Return number and name of everything that is open."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them
            found.add((entry.name, str(entry.readlink())))
    return found


@contextlib.contextmanager
def none_left_open(below: Path) -> Iterator[None]:
    """Fail if something below a folder is open at the end that was not at the beginning."""
    before = held_open()
    yield
    left = {one for one in held_open() - before if one[1].startswith(str(below))}
    assert not left, f"left open: {sorted(left)}"
