"""Looks at every site again and again, and writes its state: changes at once, else from time to time."""

from __future__ import annotations

import asyncio
import collections
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.edge.bridge_parts import Bridge
from nodemanager.api.edge.edgecluster import (
    DEGRADED,
    EDGE_CLUSTERS,
    HEARTBEATS,
    PHASES,
    UNKNOWN,
    EdgeCluster,
    EdgeClusterStatus,
    EdgeNode,
)
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES, EdgeProfile, EdgeProfileSpec
from nodemanager.api.maintenance.nodetask import ENDED, NODE_TASKS
from nodemanager.api.rights.host_rights import account_name
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.edge_clusters import node_reading, reading
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.fleet import lease_times
from nodemanager.fleet.edge import deciding, membership, node_details
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import UNREAD, AgentFacts, BridgeFacts, SignOfLife
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.heartbeats import Limits
from nodemanager.fleet.edge.node_details import KubernetesNodes
from nodemanager.fleet.edge.parts import SitePartFacts
from nodemanager.kube import selectors, times
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.go import durations
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult

log = logging.getLogger("nodemanager.operator")
LOOK: Final = "10s"
SHORTEST_LOOK: Final = 1.0
LONGEST_LOOK: Final = 60.0
"""Readers of a status count it as old after two minutes."""
WRITE_SECONDS: Final = 60.0
"""The time of the look is written at least this often."""
CHANGED: Final = "PhaseChanged"
PHASE_METRIC: Final = "nodemanager_edge_cluster_phase"
NODES_METRIC: Final = "nodemanager_edge_cluster_nodes"
LOOKED_METRIC: Final = "nodemanager_edge_cluster_observed_timestamp_seconds"
ReadParts = Callable[[Client, EdgeProfileSpec, str], Awaitable[SitePartFacts]]


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What the last look saw, with times to the second: the API gets them less often."""

    uid: str
    status: EdgeClusterStatus
    at: float
    """When that was, by the clock of the loop."""


class SiteWatcher:
    """Writes the status of sites."""

    def __init__(self, context: ControllerContext, read_parts: ReadParts) -> None:
        self._context, self._read_parts = context, read_parts
        self._clusters = context.caches.of(EDGE_CLUSTERS)
        self._last: dict[ObjectKey, _Remembered] = {}
        self._phases = context.metrics.gauge(
            PHASE_METRIC, "1 for the phase of an EdgeCluster.", ("name", "phase")
        )
        self._nodes = context.metrics.gauge(
            NODES_METRIC, "Nodes by their signs of life.", ("name", "heartbeat")
        )
        self._looked = context.metrics.gauge(
            LOOKED_METRIC,
            "When a site was last looked at.",
            ("name",),
        )

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Look at a site, write what has changed, and say when to look again."""
        cluster = self._clusters.get(key)
        if cluster is None or cluster.metadata.deletion_timestamp:
            self._forget(key)
            return None
        profile = self._context.caches.of(EDGE_PROFILES).get(ObjectKey("", cluster.spec.profile))
        began = asyncio.get_running_loop().time()
        site = await self._look(key, self._remembering(key, cluster), profile)
        now = self._context.now()
        wanted = deciding.decide(site, now)
        self._last[key] = _Remembered(cluster.metadata.uid, wanted, began)
        if _due(cluster.status, wanted, profile, now):
            written = await write_status(self._context.client, EDGE_CLUSTERS, cluster, cluster.status, wanted)
            if written and wanted.phase != cluster.status.phase:
                self._tell(cluster, wanted)
        self._measure(key, wanted, now)  # what could not be written is not shown elsewhere as if it were
        return ReconcileResult(pause(profile))

    def _remembering(self, key: ObjectKey, cluster: EdgeCluster) -> EdgeCluster:
        """Return a site with what the last look saw of it; the memory of another process is in the API."""
        last = self._last.get(key)
        if last is None or last.uid != cluster.metadata.uid:
            return cluster
        return msgspec.structs.replace(cluster, status=last.status)

    async def _look(self, key: ObjectKey, cluster: EdgeCluster, profile: EdgeProfile | None) -> Site:
        bridge = profile.spec.bridge if profile else None
        used = deciding.usable(cluster, profile, Findings(0))
        # Names in a profile that may not be used are not even asked for.
        if profile is None or not used:
            return Site(cluster, profile, self._agents(key, cluster))
        facts, seen, nodes = await asyncio.gather(  # so that who does not answer holds up nobody but itself
            self._bridge(bridge),
            self._read_parts(self._context.client, profile.spec, cluster.metadata.namespace),
            self._kubernetes(cluster, profile),
        )
        return Site(cluster, profile, self._agents(key, cluster), facts, seen, nodes)

    async def _bridge(self, bridge: Bridge | None) -> BridgeFacts:
        return await reading.read(self._context.client, bridge) if bridge is not None else UNREAD

    async def _kubernetes(self, cluster: EdgeCluster, profile: EdgeProfile) -> KubernetesNodes | None:
        """Return the Kubernetes Nodes of all known nodes; the next look asks for those of new ones."""
        if not profile.spec.topology.observe_nodes:
            return None
        names = {*cluster.spec.nodes, *(one.name for one in cluster.status.nodes)}
        names |= set() if profile.spec.bridge else self._hosts(cluster).keys()
        asked = membership.shown(names, cluster.spec.nodes, cluster.status)
        return await node_reading.read(self._context.client, asked)

    def _hosts(self, cluster: EdgeCluster) -> dict[str, ManagedNode]:
        chosen = cluster.spec.node_selector
        return {
            one.metadata.name: one
            for one in self._context.caches.of(MANAGED_NODES).values()
            if chosen is None or selectors.matches(chosen, one.metadata.labels)
        }

    def _agents(self, key: ObjectKey, cluster: EdgeCluster) -> AgentFacts:
        caches, hosts, last = self._context.caches, self._hosts(cluster), self._last.get(key)
        leases, space = caches.of(LEASES), cluster.metadata.namespace
        found = {name: leases.get(ObjectKey(space, account_name(name))) for name in hosts}
        beats = {name: _sign(one) for name, one in found.items() if one is not None}
        steady = not leases.interrupted and (last is None or leases.steady_since <= last.at)
        tasks = [one for one in caches.of(NODE_TASKS).values() if one.status.phase not in ENDED]
        counts = collections.Counter(one.spec.node_name for one in tasks)
        return AgentFacts(hosts, counts, node_details.work(tasks, hosts), beats, steady)

    def _tell(self, cluster: EdgeCluster, wanted: EdgeClusterStatus) -> None:
        before = cluster.status.phase or "new"
        text = f"{before} -> {wanted.phase}: {wanted.reason}" + (
            f": {wanted.message}" if wanted.message else ""
        )
        bad = wanted.phase in (DEGRADED, UNKNOWN)
        tell = self._context.events.warning if bad else self._context.events.normal
        tell(EDGE_CLUSTERS, cluster, CHANGED, text)
        log.log(logging.WARNING if bad else logging.INFO, "edge cluster %s: %s", cluster.metadata.name, text)

    def _measure(self, key: ObjectKey, wanted: EdgeClusterStatus, now: datetime) -> None:
        for phase in PHASES:
            self._phases.labels(key.name, phase).set(float(phase == wanted.phase))
        for life in HEARTBEATS:
            self._nodes.labels(key.name, life).set(sum(one.heartbeat == life for one in wanted.nodes))
        self._looked.labels(key.name).set(now.timestamp())

    def _forget(self, key: ObjectKey) -> None:
        self._last.pop(key, None)
        for family in (self._phases, self._nodes, self._looked):
            family.remove_matching(name=key.name)


def _sign(lease: Lease) -> SignOfLife:
    lasts = lease_times.believed(lease.spec.lease_duration_seconds)
    return SignOfLife(lease.spec.renew_time or "", timedelta(seconds=lasts))


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of sites."""
    from nodemanager.controllers.edge_clusters import part_reading  # with all backends, for sites only

    return SiteWatcher(context, part_reading.read).reconcile


def on_cluster(change: Change[EdgeCluster], _caches: Caches) -> Iterator[Wake]:
    """Wake a site for a new spec, not for the status that we wrote; and a deleted one, to forget it."""
    if (
        change.new is None
        or change.old is None
        or change.old.metadata.generation != change.new.metadata.generation
    ):
        yield Wake(change.key)


def on_profile(change: Change[EdgeProfile], caches: Caches) -> Iterator[Wake]:
    """Wake the sites of a profile."""
    for one in caches.of(EDGE_CLUSTERS).values():
        if one.spec.profile == change.key.name:
            yield Wake(ObjectKey(one.metadata.namespace, one.metadata.name))


def pause(profile: EdgeProfile | None) -> float:
    """Return how many seconds to wait for the next look."""
    rates = profile.spec.rates if profile else None
    asked = durations.parse(rates.look_every if rates and rates.look_every else LOOK)
    return min(LONGEST_LOOK, max(SHORTEST_LOOK, asked))


def _due(
    stored: EdgeClusterStatus, wanted: EdgeClusterStatus, profile: EdgeProfile | None, now: datetime
) -> bool:
    """Tell whether to write: something has changed, or our last status is about to be old."""
    if _news(stored) != _news(wanted):
        return True
    limits = Limits.of(profile.spec.thresholds if profile else None)
    last = times.parse(stored.observed_at)
    return last is None or abs((now - last).total_seconds()) >= min(
        WRITE_SECONDS, limits.age.total_seconds() / 2
    )


def _news(status: EdgeClusterStatus) -> EdgeClusterStatus:
    """Return a status without the values that change with every look."""
    nodes = [_steady(one) for one in status.nodes]
    inputs = [msgspec.structs.replace(one, changed_at=None, digest="") for one in status.inputs]
    events = [msgspec.structs.replace(one, at=None) for one in status.events]
    return msgspec.structs.replace(status, observed_at=None, nodes=nodes, inputs=inputs, events=events)


def _steady(node: EdgeNode) -> EdgeNode:
    report = node.report and msgspec.structs.replace(node.report, changed_at=None, digest="")
    return msgspec.structs.replace(
        node_details.steady(node), changed_at=None, digest="", agent_changed_at=None, agent_digest="",
        report=report,
    )  # fmt: skip
