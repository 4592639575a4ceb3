"""The state of everything, from what the API says: one word for each object, and one for all. Pure.

    well      no action is needed
    underway  something is being done as it should be
    unknown   it cannot be known: a host is silent, nobody looked, or reading is not allowed
    unwell    a person has to look

The worst object decides the word for all. Unknown never counts as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodemanager.api.common import managednode, node_conditions
from nodemanager.api.common import rollout as rollouts
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.edge import edgecluster
from nodemanager.api.edge.edgecluster import (
    BOOTSTRAP,
    DEGRADED,
    EDGE_CLUSTERS,
    RECOVERING,
    UPGRADING,
    WELL,
    EdgeCluster,
)
from nodemanager.api.maintenance import maintenance_status
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.kube import conditions, times
from nodemanager.kube.core import Lease

OK: Final = "well"
UNDERWAY: Final = "underway"
UNTOLD: Final = "unknown"
UNWELL: Final = "unwell"
ORDER: Final = (OK, UNDERWAY, UNTOLD, UNWELL)
"""From best to worst."""
EVERYTHING: Final = "*"
"""The name that stands for all objects of a kind that cannot be read."""
ROLLOUT: Final = "Rollout"
OPERATOR: Final = "Operator"
API: Final = "API"
_SITE_STATES: Final = dict.fromkeys((BOOTSTRAP, UPGRADING, RECOVERING), UNDERWAY) | {
    **dict.fromkeys(WELL, OK), DEGRADED: UNWELL,
}  # fmt: skip
_ROLLOUT_STATES: Final = dict.fromkeys(rollouts.PHASES, UNDERWAY) | {
    rollouts.STABLE: OK, rollouts.PAUSED: UNWELL, rollouts.UNDOING: UNWELL, rollouts.UNDONE: UNWELL,
}  # fmt: skip
_MAINTENANCE_STATES: Final = dict.fromkeys(maintenance_status.PHASES, UNDERWAY) | {
    "Failed": UNWELL, "Stopped": UNWELL, "Succeeded": OK, "WaitingForSlot": OK,
}  # fmt: skip
_ON_ITS_WAY: Final = (node_conditions.APPLYING, node_conditions.WAITING)


@dataclass(frozen=True, slots=True)
class ObjectHealth:
    """The state of one object."""

    kind: str
    name: str
    state: str
    word: str = ""
    """The word of the object itself, such as its phase."""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """The state of everything."""

    state: str
    objects: list[ObjectHealth]

    def of(self, kind: str) -> list[ObjectHealth]:
        """Return the objects of a kind."""
        return [one for one in self.objects if one.kind == kind]


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """What was read."""

    clusters: Sequence[EdgeCluster] = ()
    hosts: Sequence[ManagedNode] = ()
    sets: Sequence[ConfigSet] = ()
    maintenances: Sequence[NodeMaintenance] = ()
    unread: Sequence[tuple[str, str]] = ()
    """Kinds that could not be read, each with the reason."""
    leader: Lease | None = None
    """The Lease of the operator; None = there is none, as in an installation without leader election."""


def unanswered(why: str) -> FleetHealth:
    """Return that the state of everything is unknown, because the API does not answer."""
    return FleetHealth(UNTOLD, [ObjectHealth(API, EVERYTHING, UNTOLD, "Unanswered", why)])


def judge(seen: FleetSnapshot, now: datetime) -> FleetHealth:
    """Judge the state of everything."""
    found = [ObjectHealth(kind, EVERYTHING, UNTOLD, "Unread", why) for kind, why in seen.unread]
    if seen.hosts and seen.leader is not None:
        found += operator(seen.leader, now)
    found += [site(one, now) for one in seen.clusters]
    found += [host(one) for one in seen.hosts]
    found += [config_set(one) for one in seen.sets]
    found += [rollout(one) for one in seen.sets if one.status.rollout is not None]
    found += [maintenance(one) for one in seen.maintenances]
    return FleetHealth(max((one.state for one in found), key=ORDER.index, default=OK), found)


def operator(lease: Lease, now: datetime) -> list[ObjectHealth]:
    """Return an entry if no operator renews its Lease: then nobody notices silent hosts."""
    renewed = times.parse(lease.spec.renew_time)
    if renewed is not None and abs(now - renewed) <= edgecluster.LOOKED:
        return []
    since = times.rfc3339(renewed) if renewed else ""
    why = f"no operator since {since or 'ever'}: nobody tells which hosts are silent"
    return [ObjectHealth(OPERATOR, lease.metadata.name, UNTOLD, "Silent", why, since)]


def site(one: EdgeCluster, now: datetime) -> ObjectHealth:
    """Judge an edge site; it is unknown if it was not looked at for too long."""
    status, name = one.status, one.metadata.name
    if status.observed_at is None:
        why = "nobody looked yet: does an operator run with --edge?"
        return ObjectHealth(EDGE_CLUSTERS.kind, name, UNTOLD, "Unlooked", why)
    if edgecluster.is_old(status, now):
        why = f"nobody looked since {status.observed_at}; it was {status.phase} then"
        return ObjectHealth(EDGE_CLUSTERS.kind, name, UNTOLD, "Stale", why, status.observed_at)
    state = _SITE_STATES.get(status.phase, UNTOLD)
    said = f"{status.message} ({status.reason})" if status.message else status.reason
    return ObjectHealth(EDGE_CLUSTERS.kind, name, state, status.phase, said, status.since or "")


def host(one: ManagedNode) -> ObjectHealth:
    """Judge a host; the last report of a silent host does not count."""
    kind, name, said = MANAGED_NODES.kind, one.metadata.name, one.status.conditions
    if managednode.is_silent(one):
        alive = conditions.get(said, node_conditions.ALIVE)
        why, since = (alive.message, alive.last_transition_time) if alive else ("", "")
        return ObjectHealth(kind, name, UNTOLD, "Silent", why, since)
    ready = conditions.get(said, conditions.READY)
    if ready is None:
        return ObjectHealth(kind, name, UNTOLD, "Unreported", "its agent has not reported yet")
    if managednode.is_held(one):
        held = conditions.get(said, node_conditions.HELD)
        return ObjectHealth(kind, name, UNDERWAY, "Held", held.message if held else "")
    states = {conditions.TRUE: OK, conditions.UNKNOWN: UNTOLD}
    state = UNDERWAY if ready.reason in _ON_ITS_WAY else states.get(ready.status, UNWELL)
    return ObjectHealth(kind, name, state, ready.reason, ready.message, ready.last_transition_time)


def config_set(one: ConfigSet) -> ObjectHealth:
    """Judge whether a set can be used at all; its progress on hosts is judged with these."""
    for bad in (node_conditions.CONFLICTED, "Invalid"):
        found = conditions.get(one.status.conditions, bad)
        if found is not None and found.status == conditions.TRUE:
            said = found.message, found.last_transition_time
            return ObjectHealth(CONFIG_SETS.kind, one.metadata.name, UNWELL, found.reason, *said)
    return ObjectHealth(CONFIG_SETS.kind, one.metadata.name, OK)


def rollout(one: ConfigSet) -> ObjectHealth:
    """Judge how a change of a set reaches its hosts."""
    status = one.status.rollout or rollouts.RolloutStatus()
    state = _ROLLOUT_STATES.get(status.phase, UNTOLD)
    return ObjectHealth(ROLLOUT, one.metadata.name, state, status.phase, status.message, status.since or "")


def maintenance(one: NodeMaintenance) -> ObjectHealth:
    """Judge a maintenance."""
    kind, name, status = NODE_MAINTENANCES.kind, one.metadata.name, one.status
    valid = conditions.get(status.conditions, maintenance_status.VALID)
    if valid is not None and valid.status == conditions.FALSE:
        return ObjectHealth(kind, name, UNWELL, valid.reason, valid.message, valid.last_transition_time)
    state = _MAINTENANCE_STATES.get(status.phase, UNTOLD)
    progress = conditions.get(status.conditions, maintenance_status.PROGRESSING)
    hosts = f"{status.hosts.text} hosts" if status.hosts and status.hosts.text else ""
    said = "; ".join(part for part in (hosts, progress.message if progress else "") if part)
    return ObjectHealth(
        kind, name, state, status.phase, said, progress.last_transition_time if progress else ""
    )
