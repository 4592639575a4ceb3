"""Has libc give memory back that is free.

glibc keeps a heap for each thread, and learns from the first large block that is freed to keep twice as much
free in every one of them. For an agent, which reads a lot when it starts and next to nothing from then on,
that is half a mebibyte for ever. It is told here, and not by variables such as MALLOC_ARENA_MAX: those would
be inherited by whatever the agent starts.
"""

from __future__ import annotations

import sys
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Numbers of mallopt(3)."""
LARGE: Final = 1024 * 1024
"""That it is set keeps it from growing; at 128 KiB, with which glibc begins, a start takes 20 ms longer."""


def keep_little() -> bool:
    """Have one heap for all threads, which keeps little that is free; False where libc cannot be told.

    Before the first thread is started. One heap is no bottleneck: there is one interpreter lock, too.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # loaded anyway where files are watched

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and needs none
    if mallopt is None:
        return False
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGE), (_TRIM_THRESHOLD, LARGE))
    took = [mallopt(option, value) for option, value in settings]
    return took == [1] * len(settings)
