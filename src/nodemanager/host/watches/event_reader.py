"""Reads events when there are some: at once while they are few, and in ever larger gulps in a storm."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

PAUSE: Final = 0.002
"""Seconds between two reads in a row, because the kernel merges repeated events."""
BURST: Final = 8
"""How many reads may follow each other without a pause."""
COSTLY: Final = 0.001
RATIO: Final = 2.0
"""After a longer read, the pause grows with its time, so that it uses a third of a core at most."""
LONGEST: Final = 0.1


CHUNK: Final = 64 * 1024
MAX_CHUNKS: Final = 16
"""Read at a time at most; that is about what the kernel queues by default."""


def chunks(descriptor: int) -> Iterator[bytes]:
    """Yield what can be read now, without waiting for more; raises OSError."""
    for _ in range(MAX_CHUNKS):
        try:
            yield os.read(descriptor, CHUNK)
        except BlockingIOError:
            return


class EventReader:
    """Calls `drain` whenever a descriptor has something to read, and not too often."""

    def __init__(self, descriptor: int, drain: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._drain = drain
        self._loop = asyncio.get_running_loop()
        self._heat = 0.0
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Read no more; before the descriptor is closed."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)

    def _listen(self) -> None:
        self._timer = None
        self._loop.add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        began, worked = self._loop.time(), time.thread_time()
        self._drain()
        spent = time.thread_time() - worked  # not of the clock: others may have had the core meanwhile
        self._heat = max(0.0, self._heat - (began - self._last) / PAUSE) + 1.0
        self._last = began
        pause = min(spent * RATIO, LONGEST) if spent > COSTLY else 0.0
        if self._heat > BURST:
            pause = max(pause, PAUSE)
        if pause:
            self._loop.remove_reader(self._descriptor)
            self._timer = self._loop.call_later(pause, self._listen)
