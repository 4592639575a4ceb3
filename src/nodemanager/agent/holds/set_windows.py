"""Knows which ConfigSets are not enforced now, with or without the API, and when that changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from nodemanager.api.common import enforcement
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.enforcement import Enforcement

NAP: Final = 30.0
"""How often to look at the clock: it may be set, and the host may sleep."""


class SetWindows:
    """The windows of a host's sets; also a part of the agent that notices when they open and shut."""

    name = "set windows"

    def __init__(
        self, changed: Callable[[], None], now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._changed = changed
        self._now = now
        self._windows: dict[str, Enforcement] = {}
        self._known: frozenset[str] = frozenset()
        self._wake = asyncio.Event()

    def heard(self, sets: Sequence[ConfigSet]) -> None:
        """Take note of what is declared now."""
        found = {one.metadata.name: one.spec.enforcement for one in sets if one.spec.enforcement is not None}
        if found != self._windows:
            self._windows = found
            self._wake.set()
        self._known = self.shut()

    def shut(self) -> frozenset[str]:
        """Return the names of the sets that are not enforced now."""
        if not self._windows:
            return frozenset()
        now = self._now()
        return frozenset(name for name, one in self._windows.items() if not enforcement.is_open(one, now))

    async def run(self) -> None:
        """Ask for a pass whenever a window has opened or closed, until cancelled."""
        while True:
            self._wake.clear()
            if (shut := self.shut()) != self._known:
                self._known = shut
                self._changed()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    def _pause(self) -> float | None:
        now = self._now()
        edge = enforcement.next_edge(self._windows.values(), now)
        return None if edge is None else max(0.01, min(NAP, (edge - now).total_seconds()))
