"""Wakes a name after a time, without another event."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from nodemanager.runtime.queue import WorkQueue

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Ticker(Generic[K]):
    """A part that adds a name to a queue when it starts, and then every so many seconds."""

    queue: WorkQueue[K]
    key: K
    seconds: float

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"ticker of {self.queue.name} {self.key}"

    async def run(self) -> None:
        """Tick until cancelled; a name that still waits is not added twice."""
        while True:
            self.queue.add(self.key)
            await asyncio.sleep(self.seconds)
