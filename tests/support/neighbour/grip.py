"""What she still holds of files that were hers, for when they have become somebody else's."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
from collections import deque

GRIPS = 200
"""Descriptors, and as many mappings, that are held at a time; the oldest go first."""


class Grip:
    """Descriptors and mappings of files that were hers, to be written through later."""

    def __init__(self) -> None:
        self._opened: deque[int] = deque()
        self._mapped: deque[mmap.mmap] = deque(maxlen=GRIPS)

    def hold(self, path: str) -> None:
        opened = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        self._opened.append(opened)
        if len(self._opened) > GRIPS:
            os.close(self._opened.popleft())
        found = os.fstat(opened)
        if stat.S_ISREG(found.st_mode) and 0 < found.st_size <= mmap.PAGESIZE:
            mapped = mmap.mmap(opened, found.st_size)
            mapped[:1] = mapped[:1]  # dirty: what is written from now on changes no time stamp
            self._mapped.append(mapped)

    def lease(self) -> None:
        """Have whoever opens what was held last wait for us."""
        if self._opened:
            fcntl.fcntl(self._opened[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)

    def let_go(self) -> None:
        """Give back all leases."""
        for opened in self._opened:
            with contextlib.suppress(OSError):
                fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    def strike(self) -> int:
        """Write through everything."""
        done = 0
        for opened in self._opened:
            with contextlib.suppress(OSError):
                done += bool(os.pwrite(opened, b"MALLORY", 0))
        for mapped in self._mapped:
            with contextlib.suppress(ValueError, IndexError):
                mapped[:7] = b"MALLORY"
                done += 1
        return done
