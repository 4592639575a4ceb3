"""Follows a verify by events, because a connection may be lost and restored between two looks.

DRBD does not say that a verify was broken off. One that was leaves a resource connected and in sync, with
what differed resynced, or never compared. So the lines of events2, which come in order, have to say that it
went on from its beginning to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from nodemanager.host.base import Follower, HostError
from nodemanager.host.edge import drbd, drbd_events
from nodemanager.host.edge.drbd_events import DrbdEvent
from nodemanager.host.process.runner import RunError

VERIFYING: Final = ("VerifyS", "VerifyT")
_UNBROKEN: Final = (*VERIFYING, drbd.ESTABLISHED)
_TIMEOUT: Final = 30.0
Key = tuple[int, int]
"""The node and volume of a comparison."""


@dataclass(slots=True)
class Heard:
    """The events of a resource since listening began."""

    resource: str
    compared: frozenset[Key]
    broken: str = ""
    """Why the comparison does not count any more."""
    begun: set[Key] = field(default_factory=set)
    """Comparisons that are running."""
    over: set[Key] = field(default_factory=set)
    """Comparisons that reached their end."""
    _complete: bool = False
    """Whether all lines about the initial state were heard."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, line: bytes) -> None:
        """Take a line of events2."""
        event = drbd_events.parse(line)
        if event is None:
            return
        if (event.verb, event.kind) == ("exists", "-"):
            self._complete = True
        elif event.fields.get("name") == self.resource:
            self._take(event)
        else:
            return
        self._news.set()

    def _take(self, event: DrbdEvent) -> None:
        node, volume = (event.number(one) for one in ("peer-node-id", "volume"))
        if event.verb != "exists" and (why := self._harm(event, node, volume)):
            self.broken = self.broken or why
        if event.kind == "peer-device" and (state := event.fields.get("replication")):
            key = (node, volume)
            if state in VERIFYING:
                self.begin(key)
            elif state == drbd.ESTABLISHED and key in self.begun:
                self.over.add(key)

    def begin(self, key: Key) -> None:
        """Take it that something is being compared."""
        self.begun.add(key)
        self.over.discard(key)

    def forget(self, key: Key) -> None:
        """Forget what was heard so far: it belongs to an earlier verify."""
        self.begun.discard(key)
        self.over.discard(key)

    def _harm(self, event: DrbdEvent, node: int, volume: int) -> str:
        said, peer = event.fields, event.fields.get("conn-name") or f"node-{node}"
        if not self._concerns(event.kind, node, volume):
            return ""
        if event.verb == "destroy":
            return f"its {event.kind} was removed"
        if event.kind == "connection":
            state = said.get("connection", drbd.CONNECTED)
            return "" if state == drbd.CONNECTED else f"its connection to {peer} was {state}"
        if event.kind == "device":
            disk = said.get("disk", drbd.UP_TO_DATE)
            return "" if disk == drbd.UP_TO_DATE else f"the disk of volume {volume} was {disk}"
        if event.kind == "peer-device":
            state, disk = said.get("replication", drbd.ESTABLISHED), said.get("peer-disk", drbd.UP_TO_DATE)
            if state not in _UNBROKEN:
                return f"its replication to {peer} was {state}"
            return "" if disk == drbd.UP_TO_DATE else f"the disk of {peer} was {disk}"
        return ""

    def _concerns(self, kind: str, node: int, volume: int) -> bool:
        """Tell whether it is about what is compared; one path of several, or a tie-breaker, is not."""
        if kind == "connection":
            return any(one == node for one, _ in self.compared)
        if kind == "device":
            return any(one == volume for _, one in self.compared)
        return kind == "resource" or (kind == "peer-device" and (node, volume) in self.compared)

    def check(self) -> None:
        """Raise if what was compared counts no longer."""
        if self.broken:
            raise HostError(f"cannot verify {self.resource}: it was broken off, as {self.broken}")

    def ended(self, why: str) -> None:
        """Take note that events are no longer heard: the verify may have been broken off since."""
        self.broken = self.broken or why
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Wait until there is something new, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    async def listens(self) -> None:
        """Wait until nothing can happen unheard; raises HostError if that does not come to be."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                while not (self._complete or self.broken):
                    await self.wait(_TIMEOUT)
        self.check()
        if not self._complete:
            raise HostError(f"cannot verify {self.resource}: drbdsetup events2 does not say how it is")


@contextlib.asynccontextmanager
async def listening(follow: Follower, resource: str, compared: frozenset[Key]) -> AsyncIterator[Heard]:
    """Hear everything about a resource for as long as it is verified."""
    heard = Heard(resource, compared)
    following = asyncio.create_task(_follow(follow, heard))
    try:
        await heard.listens()
        yield heard
    finally:
        following.cancel()
        await asyncio.wait({following})


async def _follow(follow: Follower, heard: Heard) -> None:
    try:
        heard.ended(f"drbdsetup events2 ended with {await follow(drbd_events.EVENTS, heard.hear)}")
    except RunError as error:
        heard.ended(str(error))
