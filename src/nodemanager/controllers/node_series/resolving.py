"""Keeps the status of every series equal to the hosts that it selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, is_silent
from nodemanager.api.maintenance.nodeseries import (
    NODE_SERIES,
    RESOLVED,
    NodeSeries,
    NodeSeriesStatus,
    SeriesGroup,
)
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.fleet import series
from nodemanager.fleet.maintenance.reasons import REMEDIES, Reason
from nodemanager.fleet.series import Members, NodeLabels
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult

SETTLE_SECONDS: Final = 2.0
"""Many hosts change at about the same time, so they are counted together."""
LOOK_SECONDS: Final = 60.0
"""The longest time between two counts of a series that selects by Nodes."""
MAX_GROUPS: Final = 100
MAX_NAMES: Final = 20
ALL: Final = "AllFound"
MISSING: Final = "NotFound"
NOBODY: Final = "NoHost"


@dataclass(frozen=True, slots=True)
class SeriesResolver:
    """Writes the status of series when it changes."""

    client: Client
    series: Cache[NodeSeries]
    nodes: Cache[ManagedNode]
    kubernetes: Cache[Node]
    now: Callable[[], datetime]

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Count the hosts of a series anew."""
        found = self.series.get(key)
        if found is None or found.metadata.deletion_timestamp:
            return None
        nodes = [node for node in self.nodes.values() if node.metadata.namespace == key.namespace]
        wanted = resolve(found, nodes, times.rfc3339(self.now()), self._cluster(found))
        await write_status(self.client, NODE_SERIES, found, found.status, wanted)
        # No event tells us that the right to read Nodes was removed.
        return ReconcileResult(LOOK_SECONDS) if found.spec.node_selector is not None else None

    def _cluster(self, found: NodeSeries) -> ClusterNodes:
        if found.spec.node_selector is None:
            return NO_CLUSTER
        labels = {one.metadata.name: one.metadata.labels for one in self.kubernetes.values()}
        return ClusterNodes(labels, self.kubernetes.refused)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of series."""
    caches = context.caches
    return SeriesResolver(
        context.client, caches.of(NODE_SERIES), caches.of(MANAGED_NODES), caches.of(NODES), context.now
    ).reconcile


def on_series(change: Change[NodeSeries], _caches: Caches) -> Iterator[Wake]:
    """Wake a series for a change of its spec, not of the status that we wrote."""
    if change.new is None:
        return
    if change.old is None or change.old.metadata.generation != change.new.metadata.generation:
        yield Wake(change.key)


def on_node(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake all series of a namespace in which a host came, went, got labels, fell silent or came back."""
    old, new = change.old, change.new
    if old is not None and new is not None and _counted_as(old) == _counted_as(new):
        return
    for one in caches.of(NODE_SERIES).values():
        if one.metadata.namespace == change.key.namespace:
            yield Wake(ObjectKey(one.metadata.namespace, one.metadata.name), SETTLE_SECONDS)


def on_kubernetes_node(change: Change[Node], caches: Caches) -> Iterator[Wake]:
    """Wake the series that select by Nodes, when a Node came, went or got labels."""
    old, new = change.old, change.new
    if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
        return
    for one in caches.of(NODE_SERIES).values():
        if one.spec.node_selector is not None:
            yield Wake(ObjectKey(one.metadata.namespace, one.metadata.name), SETTLE_SECONDS)


def _counted_as(node: ManagedNode) -> tuple[dict[str, str], bool]:
    return node.metadata.labels, is_silent(node)


class ClusterNodes(NamedTuple):
    """The known facts about the Kubernetes Nodes."""

    labels: NodeLabels = series.NO_NODES
    refused: str = ""
    """Why they cannot be read."""


NO_CLUSTER: Final = ClusterNodes()


def resolve(
    found: NodeSeries, nodes: Sequence[ManagedNode], now: str, cluster: ClusterNodes = NO_CLUSTER
) -> NodeSeriesStatus:
    """Return the status that follows from the hosts of a namespace; pure."""
    unknown = found.spec.node_selector is not None and cluster.refused
    members = Members(()) if unknown else series.members(found.spec, nodes, cluster.labels)
    meant = frozenset(members.hosts)
    generation = found.metadata.generation
    said = _unknown(cluster, generation) if unknown else _condition(members, generation)
    agentless, nodeless = members.left_out
    return NodeSeriesStatus(
        observed_generation=generation,
        hosts=len(meant),
        silent=sum(is_silent(node) for node in nodes if node.metadata.name in meant),
        groups=[SeriesGroup(group.name, len(group.hosts)) for group in members.groups[:MAX_GROUPS]],
        first=list(members.hosts[:MAX_NAMES]),
        not_found=list(members.not_found[:MAX_NAMES]),
        without_agent=len(agentless),
        first_without_agent=list(agentless[:MAX_NAMES]),
        without_node=len(nodeless),
        conditions=conditions.set_condition(found.status.conditions, said, now),
    )


def _unknown(cluster: ClusterNodes, generation: int) -> Condition:
    reason = Reason.NODE_LABELS_UNKNOWN
    message = f"which hosts nodeSelector chooses cannot be told: {cluster.refused}. {REMEDIES[reason]}"
    return Condition(
        type=RESOLVED, status=conditions.FALSE, reason=reason, message=message, observed_generation=generation
    )


def _condition(members: Members, generation: int) -> Condition:
    status, reason, message = conditions.TRUE, ALL, members.left_out.words(MAX_NAMES)
    if members.not_found:
        names = ", ".join(members.not_found[:MAX_NAMES])
        status, reason, message = conditions.FALSE, MISSING, f"there is no host {names}: correct spec.names"
    elif not members.groups:
        rest = f"; {message}" if message else ""
        status, reason = conditions.FALSE, NOBODY
        message = f"no host is chosen: correct the selectors{rest}"
    return Condition(
        type=RESOLVED, status=status, reason=reason, message=message, observed_generation=generation
    )
