"""Looks at links, bonds, DRBD and boot again and again, and reports changes in the status."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.edge import steps
from nodemanager.agent.requests import Requests
from nodemanager.agent.tasks.attempts import Exclusive, Performer
from nodemanager.agent.tasks.programs import Programs
from nodemanager.api.common.edge_state import DrbdResource, DrbdState, EdgeState
from nodemanager.api.common.managednode import ManagedNodeStatus
from nodemanager.host.edge import observing
from nodemanager.host.edge.bond_changes import BondChanges
from nodemanager.host.edge.drbd_events import DrbdEvents
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment
from nodemanager.kube import times
from nodemanager.runtime.manager import Manager

log = logging.getLogger(__name__)
PERIOD: Final = 10.0
"""Seconds between two looks."""
SPACING: Final = 1.0
"""The shortest time between two looks, for any caller."""
PROGRESS: Final = 60.0
"""How often the progress of a resync is reported."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class EdgeWatch:
    """The observed state, and the part of it that was worth reporting."""

    observe: Callable[[], Awaitable[EdgeState]]
    changed: Callable[[], None]
    """Called when the status has something new to report."""
    period: float = PERIOD
    spacing: float = SPACING
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _now
    told: EdgeState | None = None
    """The reported state."""
    _told_at: float = 0.0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The name in logs."""
        return "edge"

    @property
    def spoke(self) -> bool:
        """Whether there was a look."""
        return self.told is not None

    def look_soon(self) -> None:
        """Look again soon, because the host was changed."""
        self._wake.set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self._wake.clear()
            try:
                self.take(await self.observe())
            except OSError as error:
                log.warning("cannot look at links and DRBD: %s", error)
                self.take(EdgeState(error="the host could not be looked at; see the log of its agent"))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.period):
                    await self._wake.wait()
                    await asyncio.sleep(self.spacing)

    def take(self, seen: EdgeState) -> None:
        """Compare with the reported state; the progress of a resync is not reported for a while."""
        before = replace(self.told, changed_at=None) if self.told is not None else None
        if seen == before:
            return
        same = before is not None and steady(seen) == steady(before)
        if same and self.clock() - self._told_at < PROGRESS:
            return
        self._told_at = self.clock()
        since = self.told.changed_at if same and self.told is not None else times.rfc3339(self.now())
        self.told = replace(seen, changed_at=since)
        self.changed()

    def contribute(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        """Return the status with what was seen."""
        del now, generation
        return replace(found, edge=self.told)


def steady(state: EdgeState) -> EdgeState:
    """Return a state without the values that change all the time during a normal resync. Pure."""
    return state if state.drbd is None else replace(state, drbd=_steady(state.drbd))


def _steady(drbd: DrbdState) -> DrbdState:
    return replace(drbd, resources=[_settled(one) for one in drbd.resources])


def _settled(resource: DrbdResource) -> DrbdResource:
    peers = [
        replace(
            peer,
            volumes=[
                # Whether blocks are left, and not how many.
                replace(one, done=None, out_of_sync=one.out_of_sync and 1)
                for one in peer.volumes
            ],
        )
        for peer in resource.peers
    ]
    return replace(resource, peers=peers)


@dataclass(frozen=True, slots=True)
class EdgeHost:
    """The additional parts of an agent on a host of an edge site: looks, and steps of tasks."""

    host: ManagedHost
    watch: EdgeWatch
    changes: BondChanges

    def performers(self, programs: Programs, exclusive: Exclusive) -> dict[str, Performer]:
        """Return who carries out the steps of edge sites."""
        return steps.performers(self.host, self.changes, programs, exclusive, self.watch.look_soon)


def add(manager: Manager, host: ManagedHost, requests: Requests) -> EdgeHost:
    """Add what looks at a host of an edge site."""
    root, run = host.tree.root, host.converger.observer.run
    changes = BondChanges(Tree(root), host.state, run)

    async def observe() -> EdgeState:
        return replace(await observing.observe(root, run), bond_changes=changes.observe())

    watch = EdgeWatch(observe, requests.status_soon)
    events = DrbdEvents(root, environment.host_follower(root), watch.look_soon)
    manager.add(watch, events)
    return EdgeHost(host, watch, changes)
