"""Judges the hosts of a rollout, of one ConfigSet or of several that move together, and takes the next step.

With several sets, the worst one decides about a host: if it failed with one, it failed. So it counts
once, however many sets it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common import choosing
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import FAIL, RevisionRef, Rollout, RolloutStatus
from nodemanager.fleet.rollout import beginning, deciding, facts, host_views, widening, witness
from nodemanager.fleet.rollout.deciding import RolloutDecision
from nodemanager.fleet.rollout.facts import RolloutHost, RolloutProgress, RolloutQuestion
from nodemanager.fleet.rollout.host_views import HostView
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.remembering import HostMemory, Judged, RolloutPart
from nodemanager.fleet.rollout.witness import NOTHING, Witness
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectMeta

WORST: Final = (
    RolloutProgress.ABSENT,  # a host that answers about one set answers about all, except for old agents
    RolloutProgress.FAILED,
    RolloutProgress.LOST,
    RolloutProgress.UNPROVEN,
    RolloutProgress.PUT_OFF,
    RolloutProgress.HEALTHY,
)


PartsOf = Callable[[RolloutStatus], Sequence[RolloutPart]]
"""Returns the sets of a rollout in this state."""


def hosts_of(
    parts: Sequence[RolloutPart],
    nodes: Sequence[ManagedNode],
    *,
    known: Witness = NOTHING,
    now: datetime | None = None,
    on_silence: str = FAIL,
    memory: HostMemory | None = None,
) -> list[RolloutHost]:
    """Return the hosts that take part in a rollout, each once, by what they report of all its sets."""
    memory = memory or HostMemory()
    before, after = memory.begin(parts), dict[str, Judged]()
    asked = [
        facts.asking(name, status, witness=known, now=now, on_silence=on_silence) for name, status in parts
    ]
    found: list[RolloutHost] = []
    for node in nodes:
        name = node.metadata.name
        entry = before.hosts.get(name)
        if entry is not None and entry[0] is node:
            host = entry[1]
            if host is not None and not before.same_turns:
                turn = asked[0].turns.latest(host.position, canary=host.canary)
                entry = node, (host := host._replace(turn=turn))
            after[name] = entry
        else:
            view = host_views.view_of(node, now)
            host = _worst(asked, view)
            if view.lasts:
                after[name] = node, host
        if host is not None:
            found.append(host)
    memory.end(after)
    return found


def _worst(asked: Sequence[RolloutQuestion], view: HostView) -> RolloutHost | None:
    """Return how a host stands to the set with which it is worst; None = it takes part in none."""
    worst: RolloutHost | None = None
    change, position = "", 0
    for one in asked:
        known = position if change and one.change == change else None
        if (host := facts.of_host(one, view, known)) is None:
            continue
        change, position = one.change, host.position
        if worst is None or WORST.index(host.progress) < WORST.index(worst.progress):
            worst = host
    return worst


def go_on(
    rollout: Rollout, base: RolloutStatus, parts_of: PartsOf, nodes: Sequence[ManagedNode], look: RolloutLook
) -> RolloutDecision:
    """Return how far a rollout that continues from `base` may go."""
    seen, hosts = _judged(rollout, base, parts_of(base), nodes, look)
    remade = not hosts and any(
        facts.is_concerned(each.status, one) for each in parts_of(base) for one in nodes
    )
    if base.next is not None and remade and not beginning.is_stopped(base):
        base = beginning.started(
            base, base.next, look.now, newest(nodes, look.now)
        )  # all hosts are newer than that
        seen, hosts = _judged(rollout, base, parts_of(base), nodes, look)
    found = deciding.decide(rollout, base, hosts, look._replace(witness=seen))
    return found._replace(witness=seen)


def first_seen(
    config_set: ObjectMeta,
    old: RolloutStatus,
    current: RevisionRef,
    known: Sequence[RevisionRef],
    nodes: Sequence[ManagedNode],
) -> RolloutStatus:
    """Return the status with the stable revision of a set that has published none; `known` are older."""
    meant = [one for one in nodes if choosing.is_meant(current, one.metadata.labels)]
    if facts.had_by_all(config_set, current.digest, meant):
        return msgspec.structs.replace(old, stable=current)  # hosts had the set before there were revisions
    return msgspec.structs.replace(old, stable=facts.had_by_most(config_set.name, known, nodes))


def newest(nodes: Iterable[ManagedNode], now: datetime) -> datetime:
    """Return when the last host joined, by the clock of the API."""
    made = (times.parse(one.metadata.creation_timestamp) for one in nodes)
    return max((one for one in made if one is not None), default=now)


def _judged(
    rollout: Rollout,
    base: RolloutStatus,
    parts: Sequence[RolloutPart],
    nodes: Sequence[ManagedNode],
    look: RolloutLook,
) -> tuple[Witness, list[RolloutHost]]:
    """Return the hosts of a rollout, and what this process knows about them after the look."""
    known = witness.of(look.witness, base)
    if not widening.has_begun(base):  # during days of waiting for a window, troubles get old
        known = known._replace(calm=frozenset())
    silence, memory = rollout.on_silence, look.memory
    hosts = hosts_of(parts, nodes, known=known, now=look.now, on_silence=silence, memory=memory)
    if base.next is None:
        return known, hosts
    proven = [one.name for one in hosts if one.progress in (RolloutProgress.HEALTHY, RolloutProgress.PUT_OFF)]
    unproven = [one.name for one in hosts if one.progress is RolloutProgress.UNPROVEN]
    fresh = [one for one in nodes if one.metadata.name not in known.calm]
    return witness.after(known, proven, unproven, host_views.calm(fresh), look.now), hosts
