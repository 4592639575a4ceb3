"""Writes the status of our ManagedNode: no other part does.

    passes, repairs, drifts --HostReport--+
    the host itself --------inspector-----+--> StatusWriter --> one patch of what is new, if anything is
    upgrades, token, ports, a twin, ...---+

Every part contributes what it knows when it is asked. Nothing counts as reported before the API has
acknowledged it, so conflicts, refusals and outages lose no news: the next write contains all of it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from nodemanager.agent.link.api_reachability import ApiReachability
from nodemanager.agent.report import heartbeat, status
from nodemanager.agent.report.host_inventory import HostInventory
from nodemanager.agent.report.host_report import HostReport
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.agent.requests import SETTLE_SECONDS, Requests
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.kube import errors
from nodemanager.runtime import controller

CONFLICTS: Final = 3
"""How often another writer may be faster before a write is delayed for a moment."""

Contribution = Callable[[ManagedNodeStatus, datetime, int], ManagedNodeStatus]
"""Returns the status with the contribution of one part, for a time and a generation of the ManagedNode."""


class Inspector(Protocol):
    """What looks at the host itself."""

    async def look(self, node: ManagedNode) -> HostInventory:
        """Return what is there now."""
        ...

    def close(self) -> None:
        """Give back what is held open."""
        ...


class EarlyPart(Protocol):
    """A part that does not depend on passes, and whose state is unknown until this process reports it."""

    @property
    def spoke(self) -> bool:
        """Whether there is something to tell, before anything else is."""
        ...

    def contribute(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        """Return the status with what is so now, and without what an earlier process said."""
        ...


async def _nothing() -> None:
    """Wait for nothing."""


@dataclass(eq=False, slots=True)
class StatusWriter:
    """Collects the contributions of all parts, and writes them to the API."""

    node: NodeObject
    reachability: ApiReachability
    requests: Requests
    host: HostReport
    inspector: Inspector
    others: Sequence[Contribution]
    now: Callable[[], datetime]
    settle: Callable[[], Awaitable[None]] = _nothing
    """Writes to disk what the status is about to show."""
    early: EarlyPart | None = None
    """Parts that are in every write, also before the end of the first pass."""
    _look: bool = False
    """Whether the host itself may differ from what the status shows."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the status is written: at the end of a pass, or on request in between."""

    def request(self, *, look: bool = False) -> None:
        """Ask for the status to be written in a moment; after another `look` at the host, if that changed."""
        self._look = self._look or look
        self.requests.status_soon()

    async def answer(self) -> None:
        """Do what was asked for in a request."""
        await self.host.host_state.save()
        await self.write()

    async def write(self, *, look: bool = False) -> bool:
        """Write what is new in the status, and tell whether the API knows everything now.

        While the API is away, what is owed to it is kept, and the pass that begins when it is back tells it.
        Raises what the API answers otherwise, or Retry where others keep writing: try again.
        """
        self._look = self._look or look
        async with self._lock:
            if self._offline():
                self.host.keep()
                return False
            try:
                await self._write()
            except errors.KubeError:
                self.host.keep()
                if not self._offline():
                    raise
                return False
            return True

    def _offline(self) -> bool:
        """Tell whether the API is not to be asked for anything now; any request may change that."""
        return self.reachability.offline

    async def _write(self) -> None:
        if self.host.empty and not (self.early is not None and self.early.spoke):
            return
        await self.settle()
        look, self._look = self._look and self.host.over, False
        try:
            node = await self.node.ensure()
            self.host.adopt(node.status.drift)
            inventory = await self.inspector.look(node) if look else None
            for _ in range(CONFLICTS):
                if await self._attempt(node, inventory):
                    return
                node = await self.node.ensure()
            if not await self._attempt(node, inventory):
                raise controller.Retry(SETTLE_SECONDS, "somebody else wrote the ManagedNode meanwhile")
        except BaseException:
            self._look = self._look or look  # what was seen was not told
            raise

    async def _attempt(self, node: ManagedNode, inventory: HostInventory | None) -> bool:
        """Write the status, unless somebody else wrote the object since we read it."""
        done = self.host.now()
        found = self._status(node, inventory, done)
        await self.host.host_state.save()  # what is told now is no news to the next process
        try:
            await self.node.write_status(node, found)
        except errors.Conflict:
            return False
        self.host.written(node.status, done)
        return True

    def _status(
        self, node: ManagedNode, inventory: HostInventory | None, done: status.Pass | None
    ) -> ManagedNodeStatus:
        now, generation, found = self.now(), self.host.generation, node.status
        if inventory is not None:
            found = status.of_host(found, inventory, heartbeat.lease_name(self.node.key.name), generation)
        found = self.host.contribute(found, done, now)
        if self.early is not None:
            found = self.early.contribute(found, now, generation)
        if self.host.over:  # before the first pass is over, half of a status would be taken for the whole
            for contribute in self.others:
                found = contribute(found, now, generation)
        return found

    def local(self) -> ManagedNodeStatus:
        """Return how the host stands as far as we know, whether or not the API could be told."""
        return self.host.local(self.node.known(), self.now())
