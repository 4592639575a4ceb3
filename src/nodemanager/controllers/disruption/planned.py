"""Announces planned maintenance on the Nodes of the hosts that come next in a run.

Programs with data on a Node hear of it before pods are asked to leave (KEP-5683). Conditions of others are
left alone. It needs no memory: the status of maintenances has the plan, and Nodes have what was announced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from nodemanager.api.maintenance.disruption import Disruption
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.client.patches import StrategicPatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.forgotten import SETTLE_SECONDS
from nodemanager.controllers.disruption.holding import CordonHolder, condition
from nodemanager.controllers.disruption.nodes import MAINTENANCE_PLANNED, NODES, Node
from nodemanager.controllers.registration import THE_ONE, Caches, ControllerContext, Wake
from nodemanager.kube import core, errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile


@dataclass(frozen=True, slots=True)
class PlannedMaintenance:
    """Looks at all Nodes when the next hosts of a run change."""

    client: Client
    nodes: Cache[Node]
    maintenances: Cache[NodeMaintenance]

    async def reconcile(self, _key: ObjectKey) -> None:
        """Write the announcements that are due, and remove the others."""
        if self.nodes.refused:
            return
        wanted = self._wanted()
        for node in self.nodes.values():
            name, said = node.metadata.name, node.planned
            holder = wanted.get(name)
            if holder is not None and not node.says(MAINTENANCE_PLANNED):
                await self._say(name, "it comes next", holder)
            elif holder is None and said and (author := await self._author(said)) is not None:
                await self._say(name, None, author)

    def _wanted(self) -> dict[str, CordonHolder]:
        """Return the maintenance that is planned for each Node."""
        found: dict[str, CordonHolder] = {}
        for one in self.maintenances.values():
            meta, plan = one.metadata, one.status.plan
            reboots = plan is not None and plan.disruption == "reboot"
            if (one.spec.disruption or Disruption()).cordons(may_reboot=reboots) and _runs(one):
                holder = CordonHolder(meta.namespace, meta.name, meta.uid)
                found |= {host: holder for host in one.status.next_hosts if host not in found}
        return found

    async def _author(self, said: str) -> CordonHolder | None:
        """Return the maintenance that we announced; None: another namespace's operator has to remove it."""
        namespace, _, name = said.partition(":")[0].partition("/")
        found = self.maintenances.get(ObjectKey(namespace, name))
        if found is None:
            try:
                await self.client.get(NODE_MAINTENANCES, name, namespace)
            except errors.NotFound:
                return CordonHolder(namespace, name, "")
            except errors.KubeError:
                return None
            return None  # the cache does not have it yet
        return CordonHolder(namespace, name, found.metadata.uid)

    async def _say(self, node: str, message: str | None, holder: CordonHolder) -> None:
        """Write the condition. Without the right, none is written: it is not essential."""
        body = StrategicPatch({"status": {"conditions": [condition(MAINTENANCE_PLANNED, message, holder)]}})
        with contextlib.suppress(errors.Forbidden, errors.NotFound):
            await self.client.patch(core.NODES, node, "", body, subresource="status")


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of all Nodes."""
    caches = context.caches
    return PlannedMaintenance(context.client, caches.of(NODES), caches.of(NODE_MAINTENANCES)).reconcile


def on_maintenance(change: Change[NodeMaintenance], _caches: Caches) -> Iterator[Wake]:
    """Look again when the next hosts of a maintenance change."""
    if _coming(change.old) != _coming(change.new):
        yield Wake(THE_ONE)


def on_node(change: Change[Node], _caches: Caches) -> Iterator[Wake]:
    """Look again when a Node's announcement changes."""
    before, after = (one.planned if one is not None else "" for one in (change.old, change.new))
    if before != after:
        yield Wake(THE_ONE, SETTLE_SECONDS)


def _runs(one: NodeMaintenance) -> bool:
    return one.status.run is not None and not one.metadata.deletion_timestamp


def _coming(one: NodeMaintenance | None) -> list[str]:
    return one.status.next_hosts if one is not None and _runs(one) else []
