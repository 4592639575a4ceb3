"""Keeps the watches on the host equal to the wanted ones, and tries failed ones again.

Passes say what to watch. But between two of them a limit may be raised, or a program may release what all
share (inotify instances, open files), and no event reports that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from nodemanager.agent.passes.host_state import HostState
from nodemanager.runtime.backoff import Backoff

RETRY: Final = Backoff(base=1.0, maximum=600.0)


@dataclass(eq=False)
class WatchRetry:
    """A part of the agent."""

    attempt: Callable[[], Awaitable[bool]]
    """Sets up the watches; False = one failed, and a later try may succeed."""
    host_state: HostState
    changed: Callable[[], None]
    """Called when the watches have changed although no pass has ended."""
    backoff: Backoff = RETRY
    name: str = "following of what is wanted"
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _lacking: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _failures: int = field(default=0, init=False)

    async def follow(self) -> None:
        """Watch what the last pass was about."""
        async with self._lock:
            if await self.attempt():
                self._lacking.clear()
                self._failures = 0
            else:
                self._failures += 1
                self._lacking.set()

    async def run(self) -> None:
        """Try failed watches again, ever less often, until cancelled."""
        while True:
            await self._lacking.wait()
            await asyncio.sleep(self.backoff.delay(self._failures))
            if self._lacking.is_set():
                await self._again()

    async def _again(self) -> None:
        before = self.host_state.shortfalls
        await self.follow()
        if self.host_state.shortfalls != before:
            self.changed()
