"""Has libc give memory back that is free.

glibc keeps a heap for each thread, and learns from the first large block that is freed to keep twice as much
free in every one of them. For an agent, which reads a lot when it starts and next to nothing from then on,
that is half a mebibyte for ever. It is set here, and not by variables such as MALLOC_ARENA_MAX: those would
be inherited by all programs that the agent starts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from nodemanager.native import libc

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Parameters of mallopt(3)."""
LARGE: Final = 1024 * 1024
"""Setting it prevents it from growing; with 128 KiB, the first value of glibc, a start takes 20 ms longer."""


def keep_little() -> bool:
    """Have one heap for all threads, which keeps little that is free; False where libc cannot be told.

    Before the first thread is started. One heap is no bottleneck: there is one interpreter lock, too.
    """
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGE), (_TRIM_THRESHOLD, LARGE))
    try:
        return all(libc.mallopt(option, value) for option, value in settings)
    except OSError:  # musl and FreeBSD have none, and need none
        return False


def settle() -> None:
    """Give back what only the start needed: for when there is nothing to do.

    What was imported is left out of the search for garbage (`gc.freeze`), and with it the garbage that
    imports made; that is looked for here, where nobody waits for it.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    for give_back in (_trim, libc.forget_program):
        _if_there_is(give_back)


def _trim() -> None:
    libc.malloc_trim(0)


def _if_there_is(call: Callable[[], None]) -> None:
    try:
        call()
    except OSError:  # each C library has its own
        return
