"""What was touched since the last read: never larger than the number of resources, even in a storm."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from nodemanager.plan.resources import ResourceId


@dataclass(frozen=True, slots=True)
class Touched:
    """Resources that may have changed, and have to be looked at again."""

    resources: frozenset[ResourceId] = frozenset()
    everything: bool = False
    """Whether events were lost, so that it is unknown what changed."""
    inventory: bool = False
    """Whether facts about the host itself may have changed: interfaces, WireGuard, SSH host keys."""
    since: float = 0.0
    """`time.monotonic()` of the first event in it."""


class SettleTime(NamedTuple):
    """How long to wait for more of the same before a report, in seconds."""

    quiet: float = 0.0
    limit: float = 0.0
    """The limit since the first event, even if it does not become quiet."""


NOW: Final = SettleTime()


class Concern(NamedTuple):
    """What an event is about; there is one for every watched path, so it is as small as can be."""

    resources: tuple[ResourceId, ...] = ()
    inventory: bool = False


@dataclass(slots=True)
class _Waiting:
    first: float
    due: float


class Inbox:
    """Collects what is touched; made for one reader."""

    def __init__(self) -> None:
        self._resources: set[ResourceId] = set()
        self._inventory = False
        self._everything = False
        self._since = 0.0
        self._later: dict[Concern, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._filled = asyncio.Event()

    def add(self, concern: Concern, settle: SettleTime = NOW) -> None:
        """Take note of an event."""
        now = time.monotonic()
        if not settle.quiet:
            waiting = self._later.pop(concern, None)
            self._fill(concern, waiting.first if waiting else now)
        elif (known := self._later.get(concern)) is not None:
            known.due = min(now + settle.quiet, known.first + settle.limit)
        elif not self._resources.issuperset(concern.resources) or (concern.inventory and not self._inventory):
            self._later[concern] = waiting = _Waiting(now, now + settle.quiet)
            self._wake_at(waiting.due)

    def add_everything(self) -> None:
        """Take note that events were lost."""
        self._everything = True
        self._fill(Concern(), time.monotonic())

    async def take(self) -> Touched:
        """Wait until there is something, and return all of it."""
        await self._filled.wait()
        self._filled.clear()
        found = Touched(frozenset(self._resources), self._everything, self._inventory, self._since)
        self._resources.clear()
        self._inventory = self._everything = False
        return found

    def forget(self) -> None:
        """Forget the resources; changes that only the status shows are still reported."""
        self._resources.clear()

    def close(self) -> None:
        """Forget what waits."""
        if self._timer is not None:
            self._timer.cancel()
        self._later.clear()

    def _fill(self, concern: Concern, first: float) -> None:
        if not self._filled.is_set():
            self._since = first
            self._filled.set()
        self._since = min(self._since, first)
        self._resources.update(concern.resources)
        self._inventory |= concern.inventory

    def _wake_at(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0.0, due - time.monotonic())
        if self._timer is not None:
            if not self._timer.cancelled() and self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._ripen)

    def _ripen(self) -> None:
        self._timer = None
        now = time.monotonic()
        ripe = [concern for concern, waiting in self._later.items() if waiting.due <= now]
        for concern in ripe:
            self._fill(concern, self._later.pop(concern).first)
        if self._later:
            self._wake_at(min(waiting.due for waiting in self._later.values()))
