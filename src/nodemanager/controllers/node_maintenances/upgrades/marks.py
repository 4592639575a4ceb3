"""Has hosts know that we begin their upgrades: by marks that run out, each renewed at a time of its own."""

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
"""Hosts that are marked at one look: others wait for the next."""
REFUSED: Final = timedelta(hours=1)
"""For how long nobody tries again to mark a host that we may not mark."""


@dataclass(frozen=True, slots=True)
class UpgradeMarks:
    """Marks hosts with a schedule, where we may drain Nodes."""

    orders: Orders
    nodes: Cache[Node]
    _refused: dict[str, datetime] = field(default_factory=dict)
    """Until when hosts are left alone, by uid."""

    def may_drain(self) -> bool:
        """Tell whether we may: else hosts that can drain themselves would not be drained any more."""
        return not self.nodes.refused

    async def renew(self, hosts: Iterable[ManagedNode], now: datetime) -> bool:
        """Mark those that need it; tell whether some have to wait for the next look."""
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
            except (errors.Conflict, errors.NotFound):  # somebody else was faster: the next look
                continue
            except errors.Forbidden as error:  # perhaps everywhere: one try per look is enough
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
        """Return what a host is to be marked with, empty = nothing; None = it is as it should be."""
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
        # Its Node was drained until now: it goes on by itself only if it can see to that itself.
        return None if until is not None and until <= now else upgrade_tasks.mark(now, drains=True)
