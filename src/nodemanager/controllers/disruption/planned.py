"""Says on Nodes that maintenance is planned for them: those of the hosts that come next in a run.

Whoever keeps data on a Node hears of it before pods are asked to leave (KEP-5683). What others say there is
left alone. Nothing is remembered: the status of maintenances has what should be said, Nodes what is said.
"""

from __future__ import annotations

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
    """Looks at all Nodes when others come next."""

    client: Client
    nodes: Cache[Node]
    maintenances: Cache[NodeMaintenance]

    async def reconcile(self, _key: ObjectKey) -> None:
        """Say what is planned, and nothing that is not."""
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
        """Return for whom maintenance is planned, by Node."""
        found: dict[str, CordonHolder] = {}
        for one in self.maintenances.values():
            meta, plan = one.metadata, one.status.plan
            reboots = plan is not None and plan.disruption == "reboot"
            if (one.spec.disruption or Disruption()).cordons(may_reboot=reboots) and _runs(one):
                holder = CordonHolder(meta.namespace, meta.name, meta.uid)
                found |= {host: holder for host in one.status.next_hosts if host not in found}
        return found

    async def _author(self, said: str) -> CordonHolder | None:
        """Return for whom we said so; None: that is for the operator of another namespace to take back."""
        namespace, _, name = said.partition(":")[0].partition("/")
        found = self.maintenances.get(ObjectKey(namespace, name))
        if found is None:
            try:
                await self.client.get(NODE_MAINTENANCES, name, namespace)
            except errors.NotFound:
                return CordonHolder(namespace, name, "")
            except errors.KubeError:
                return None
            return None  # the cache has not heard of it yet
        return CordonHolder(namespace, name, found.metadata.uid)

    async def _say(self, node: str, message: str | None, holder: CordonHolder) -> None:
        """Write the condition. Without the right to, nothing is said: nobody depends on it."""
        body = StrategicPatch({"status": {"conditions": [condition(MAINTENANCE_PLANNED, message, holder)]}})
        try:
            await self.client.patch(core.NODES, node, "", body, subresource="status")
        except (errors.Forbidden, errors.NotFound):
            return


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of all Nodes."""
    caches = context.caches
    return PlannedMaintenance(context.client, caches.of(NODES), caches.of(NODE_MAINTENANCES)).reconcile


def on_maintenance(change: Change[NodeMaintenance], _caches: Caches) -> Iterator[Wake]:
    """Look again when others come next."""
    if (_coming(change.old) or _coming(change.new)) and _coming(change.old) != _coming(change.new):
        yield Wake(THE_ONE)


def on_node(change: Change[Node], _caches: Caches) -> Iterator[Wake]:
    """Look again when a Node says something else of what is planned."""
    before, after = (one.planned if one is not None else "" for one in (change.old, change.new))
    if before != after:
        yield Wake(THE_ONE, SETTLE_SECONDS)


def _runs(one: NodeMaintenance) -> bool:
    return one.status.run is not None and not one.metadata.deletion_timestamp


def _coming(one: NodeMaintenance | None) -> list[str]:
    return one.status.next_hosts if one is not None and _runs(one) else []
