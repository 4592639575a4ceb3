"""Marks hosts whose upgrades we begin: marks expire, and each is renewed at its own time."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodetask import UPGRADES
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache

log = logging.getLogger("nodemanager.operator")
MARKS: Final = 100
"""How many hosts one look marks: others wait for the next look."""
REFUSED: Final = timedelta(hours=1)
"""How long to wait after a refusal before we try again to mark a host."""


@dataclass(frozen=True, slots=True)
class UpgradeMarks:
    """Marks hosts with a schedule, where we may drain Nodes."""

    orders: Orders
    nodes: Cache[Node]
    _refused: dict[str, datetime] = field(default_factory=dict)
    """Until when hosts are not tried again, by uid."""

    def may_drain(self) -> bool:
        """Tell whether we may drain Nodes: else hosts that can do it themselves would lose their drain."""
        return not self.nodes.refused

    async def renew(self, hosts: Iterable[ManagedNode], now: datetime) -> bool:
        """Mark the hosts that need it; tell whether some have to wait for the next look."""
        tries = 0
        for host in hosts:
            uid = host.metadata.uid
            mark = self._wanted(host, now)
            if mark is None or now < self._refused.get(uid, now):
                continue
            if tries == MARKS:
                return True
            tries += 1
            try:
                await self.orders.mark(host, mark)
                self._refused.pop(uid, None)
            except (errors.Conflict, errors.NotFound):
                pass  # another writer was faster: the next look
            except errors.Forbidden as error:  # perhaps for all hosts: one try per look is enough
                self._refused[uid] = now + REFUSED
                log.warning(
                    "cannot mark host %s, which begins its upgrades itself until we can: %s; install the"
                    " admission policies and Roles of this version",
                    host.metadata.name, error,
                )  # fmt: skip
                return False
            except errors.KubeError as error:
                log.warning("cannot mark host %s: %s", host.metadata.name, error)
        return False

    def _wanted(self, host: ManagedNode, now: datetime) -> str | None:
        """Return the wanted mark of a host, empty = none; None = the mark is right."""
        notes, upgrade = host.metadata.annotations, host.spec.upgrade
        until, drained = upgrade_tasks.marked_until(notes), upgrade_tasks.was_drained(notes)
        if upgrade is None or not upgrade.schedule:
            return "" if UPGRADES in notes else None
        if self.may_drain():
            drains = self.nodes.get(ObjectKey("", host.metadata.name)) is not None
            soon = until is None or until - now < upgrade_tasks.renewed_before(host.metadata.uid)
            stays = not soon and (drained or not drains)
            return None if stays else upgrade_tasks.mark(now + upgrade_tasks.MARKED, drains=drains)
        if UPGRADES not in notes:
            return None
        if not drained:
            return ""
        # Its Node was drained until now: the host upgrades by itself only if it can drain the Node itself.
        return None if until is not None and until <= now else upgrade_tasks.mark(now, drains=True)
