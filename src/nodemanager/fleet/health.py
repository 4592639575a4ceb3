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
from nodemanager.api.rights import operator_rights
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition
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
    """The Lease of the operator; None = there is none, or `unread` says why it could not be read."""


def unanswered(why: str) -> FleetHealth:
    """Return that the state of everything is unknown, because the API does not answer."""
    return FleetHealth(UNTOLD, [ObjectHealth(API, EVERYTHING, UNTOLD, "Unanswered", why)])


def judge(seen: FleetSnapshot, now: datetime) -> FleetHealth:
    """Judge the state of everything."""
    found = [ObjectHealth(kind, EVERYTHING, UNTOLD, "Unread", why) for kind, why in seen.unread]
    away = operator(seen.leader, now)
    if seen.hosts and OPERATOR not in dict(seen.unread):
        found += away
    found += [site(one, now) for one in seen.clusters]
    found += [host(one, judged=not away) for one in seen.hosts]
    found += [config_set(one) for one in seen.sets]
    found += [rollout(one) for one in seen.sets if one.status.rollout is not None]
    found += [maintenance(one) for one in seen.maintenances]
    return FleetHealth(max((one.state for one in found), key=ORDER.index, default=OK), found)


def operator(lease: Lease | None, now: datetime) -> list[ObjectHealth]:
    """Return an entry if no operator renews its Lease: then silent hosts are not noticed."""
    if lease is None:
        why = "nobody judges who is alive: no operator leads; hosts are shown as they said of themselves"
        return [ObjectHealth(OPERATOR, operator_rights.NAME, UNTOLD, "Absent", why)]
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


def host(one: ManagedNode, *, judged: bool) -> ObjectHealth:
    """Return how a host is; what a silent one said last counts for nothing.

    `judged` says whether somebody tells who is alive now. Where nobody does, or did not yet, all that is good
    may be long over: `Alive` stays as it was when the operator died.
    """
    kind, name, said = MANAGED_NODES.kind, one.metadata.name, one.status.conditions
    alive = conditions.get(said, node_conditions.ALIVE)
    if alive is not None and managednode.is_silent(one):
        return ObjectHealth(kind, name, UNTOLD, "Silent", alive.message, alive.last_transition_time)
    ready = conditions.get(said, conditions.READY)
    if ready is None:
        return ObjectHealth(kind, name, UNTOLD, "Unreported", "its agent has not reported yet")
    found = _as_said(one, ready)
    if found.state in (OK, UNDERWAY) and not (judged and conditions.is_true(said, node_conditions.ALIVE)):
        why = alive.message if judged and alive and alive.message else "nobody knows whether it is alive"
        why = f"{why}; it said {found.word} of itself{f': {found.message}' if found.message else ''}"
        return ObjectHealth(kind, name, UNTOLD, "Unjudged", why, found.since)
    return found


def _as_said(one: ManagedNode, ready: Condition) -> ObjectHealth:
    """Return how a host is by what its agent says."""
    kind, name = MANAGED_NODES.kind, one.metadata.name
    if managednode.is_held(one):
        held = conditions.get(one.status.conditions, node_conditions.HELD)
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
