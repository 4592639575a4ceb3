"""The facts for a decision about turns: hosts that ask, the sets that they ask for, and budgets."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from nodemanager.api.common import matching
from nodemanager.api.common.configset import ConfigSet, is_leaving
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.disruption import Budget
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.fleet.maintenance import budget
from nodemanager.fleet.maintenance.budget import BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.repairs import deciding, turns
from nodemanager.fleet.repairs.deciding import Budgets, DriftedHost, RepairDecision, RepairedSet
from nodemanager.fleet.series import HostGroup


@dataclass(frozen=True, slots=True)
class MaintenanceBudget:
    """A maintenance, as far as other workflows have to respect it."""

    name: str
    uid: str
    budget: Budget | None
    groups: Sequence[HostGroup]
    run: str = ""
    """The run that is under way; empty = there is none."""

    @property
    def running(self) -> bool:
        """Whether it has a run."""
        return bool(self.run)

    @property
    def object(self) -> str:
        """The name of its room."""
        return f"nodemaintenance/{self.name}"


@dataclass(frozen=True, slots=True)
class Around:
    """The objects of a namespace."""

    nodes: Sequence[ManagedNode]
    facts: Mapping[str, HostFacts]
    """Facts about all of the hosts, by name."""
    sets: Mapping[str, ConfigSet]
    maintenances: Sequence[MaintenanceBudget]
    """Maintenances that have a run, and those with operations of type realtime."""
    stopped: tuple[Reason, str] | None = None
    """Why no work at all may begin, and the object that says so."""


def decide(around: Around, now: datetime) -> RepairDecision:
    """Return which hosts have their turn, and why others wait."""
    asking = list(_asking(around, now))
    if not asking:
        return RepairDecision()
    away = budget.away_of(around.facts)
    asked = {one.config_set for one in asking} & around.sets.keys()
    sets = {
        name: _repaired(around.sets[name], around, now) for name in asked if not is_leaving(around.sets[name])
    }
    running = {one.object for one in around.maintenances if one.running}
    wanted = {one.room for one in sets.values()} | running
    rooms = {one.object: _room_of(one, around, away) for one in around.maintenances if one.object in wanted}
    askers: dict[str, set[str]] = defaultdict(set)
    for ask in asking:
        askers[ask.config_set].add(ask.facts.name)
    meant = {}
    for name, one in sets.items():
        if one.room not in rooms and not owner_of(around.sets[name]):  # else its maintenance is gone
            rooms[one.room] = _own_room(around.sets[name], askers[name] | away, around, away)
            meant[one.room] = functools.partial(_is_meant, around.sets[name])
    return deciding.decide(asking, sets, Budgets(rooms, running, meant), now, around.stopped)


def _asking(around: Around, now: datetime) -> Iterator[DriftedHost]:
    under_way = {(one.uid, one.run) for one in around.maintenances if one.running}
    for node in around.nodes:
        if node.status.left_drifts is None or (host := around.facts.get(node.metadata.name)) is None:
            continue
        claim = host.claim
        recorded = isinstance(claim, Claim) and (claim.uid, claim.run) in under_way
        for ask in turns.asks_of(node, now):
            yield DriftedHost(host, ask.config_set, ask.since, recorded)


def owner_of(config_set: ConfigSet) -> str:
    """Return the uid of the maintenance that made a set; empty = another program or person made it."""
    owners = config_set.metadata.owner_references
    return next((one.uid for one in owners if one.kind == NODE_MAINTENANCES.kind), "")


def _repaired(config_set: ConfigSet, around: Around, now: datetime) -> RepairedSet:
    owner, name = owner_of(config_set), f"configset/{config_set.metadata.name}"
    if owner:
        name = next((one.object for one in around.maintenances if one.uid == owner), "")
    return RepairedSet.at(name, config_set.spec.enforcement, now)


def _room_of(maintenance: MaintenanceBudget, around: Around, away: AbstractSet[str]) -> BudgetRoom:
    names = {name for name, one in around.sets.items() if owner_of(one) == maintenance.uid}
    ours = _is_for(lambda claim: claim.uid == maintenance.uid or claim.repairs in names)
    return budget.room_of(maintenance.budget, maintenance.groups, around.facts, away, ours)


def _own_room(
    config_set: ConfigSet, hosts: Iterable[str], around: Around, away: AbstractSet[str]
) -> BudgetRoom:
    """Return the room of a set that no maintenance owns: one of its hosts at a time.

    So it does not matter how many it is for, but only whether those that ask, or are away, are among them.
    """
    meant = [one for one in hosts if _is_meant(config_set, around.facts[one])]
    groups = [HostGroup(config_set.metadata.name, tuple(sorted(meant)))]
    ours = _is_for(lambda claim: claim.repairs == config_set.metadata.name)
    return budget.room_of(None, groups, around.facts, away, ours)


def _is_meant(config_set: ConfigSet, host: HostFacts) -> bool:
    return matching.matches(config_set, host.labels)


def _is_for(whom: Callable[[Claim], bool]) -> Callable[[HostFacts], bool]:
    return lambda host: isinstance(host.claim, Claim) and whom(host.claim)
