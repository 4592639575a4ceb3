"""Room for the machines of one run: they share the kernel, and so what root may have of inotify in it.

Each machine with systemd takes seven instances or so, and 128 is the limit of Debian: the one that comes last
does not boot, and says nothing. A real host has its kernel for itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

LIMIT: Final = Path("/proc/sys/fs/inotify/max_user_instances")
INSTANCES: Final = 1024
_BEFORE: Final = pytest.StashKey[int]()


def make(stash: pytest.Stash, limit: Path = LIMIT) -> None:
    """Raise the limit for as long as this run takes, where it is lower; one process of a run does so."""
    before = int(limit.read_text())
    if before >= INSTANCES:
        return
    try:
        limit.write_text(f"{INSTANCES}\n")
    except OSError as error:
        said = f"cannot boot many hosts at once: {limit} is {before}, and cannot be raised: {error.strerror}"
        remedy = f"run sysctl fs.inotify.max_user_instances={INSTANCES} where these settings can be changed"
        raise pytest.UsageError(f"{said}; {remedy}") from error
    stash[_BEFORE] = before


def give_back(stash: pytest.Stash, limit: Path = LIMIT) -> None:
    """Put it back, unless somebody else has changed it meanwhile."""
    before = stash.get(_BEFORE, None)
    if before is not None and int(limit.read_text()) == INSTANCES:
        limit.write_text(f"{before}\n")
