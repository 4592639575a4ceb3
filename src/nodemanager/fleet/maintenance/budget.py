"""How many hosts may be away at once: one ceiling over all causes, and ceilings per zone and per group.

Every host that is unavailable to its users counts, for any cause (`facts.unavailable`). So no visit is
begun while others are broken, and two maintenances of the same hosts share what there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from nodemanager.api.maintenance.disruption import Budget
from nodemanager.fleet.maintenance import facts
from nodemanager.fleet.maintenance.facts import HostFacts, MaintenanceFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.series import HostGroup


class BudgetPlace(NamedTuple):
    """In which zone and group a host is counted."""

    group: str
    zone: str = ""


def resolve(ceiling: int | str | None, total: int) -> int | None:
    """Return a ceiling as a number of hosts; None if there is none.

    A percentage is rounded down, so that it is never exceeded, but is at least 1: else a small fleet would
    never have maintenance.
    """
    if isinstance(ceiling, str):
        return max(1, total * int(ceiling.rstrip("%")) // 100)
    return ceiling


@dataclass(slots=True)
class BudgetRoom:
    """The room that a budget leaves. Call `take` for each host whose visit begins."""

    budget: Budget
    places: Mapping[str, BudgetPlace]
    """All hosts of the series."""
    spent_by: str = ""
    """The ConfigSet whose hosts on the way to its change fill the budget."""
    _all: int = 0
    _zones: Counter[str] = field(default_factory=Counter)
    _groups: Counter[str] = field(default_factory=Counter)
    _busy_zones: set[str] = field(default_factory=set)
    _sizes: Counter[str] = field(default_factory=Counter)
    _group_sizes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._sizes.update(place.zone for place in self.places.values())
        self._group_sizes.update(place.group for place in self.places.values())

    def count(self, away: Collection[str], working: Collection[str], elsewhere: int = 0) -> None:
        """Count hosts that are away or in work, and those in work that have left the series."""
        for host in away:
            self.take(host, works=host in working)
        self._all += elsewhere

    def take(self, host: str, *, works: bool = True) -> None:
        """Count one more host."""
        place = self.places[host]
        self._all += 1
        self._zones[place.zone] += 1
        self._groups[place.group] += 1
        if works:
            self._busy_zones.add(place.zone)

    def refusal(self, host: str) -> Reason | None:
        """Return why there is no room for a host; None if there is."""
        place, budget = self.places[host], self.budget
        most = resolve(budget.max_unavailable, len(self.places))
        if self._all >= (1 if most is None else most):
            return Reason.BUDGET_SPENT
        if budget.per_zone is not None:
            most = resolve(budget.per_zone.max_unavailable, self._sizes[place.zone])
            if most is not None and self._zones[place.zone] >= most:
                return Reason.ZONE_BUDGET_SPENT
            most = budget.per_zone.max_zones
            if most is not None and len(self._busy_zones | {place.zone}) > most:
                return Reason.ZONES_BUSY
        most = resolve(budget.per_group, self._group_sizes[place.group])
        if most is not None and self._groups[place.group] >= most:
            return Reason.GROUP_BUDGET_SPENT
        return None


def room(known: MaintenanceFacts) -> BudgetRoom:
    """Return what the budget of a run leaves: of its series, and of its hosts in work that have left that."""
    return room_of(known.spec.budget, known.groups, known.hosts, away_of(known.hosts), known.is_ours)


def away_of(hosts: Mapping[str, HostFacts]) -> frozenset[str]:
    """Return the hosts that are unavailable to their users, for any cause."""
    return frozenset(name for name, host in hosts.items() if facts.unavailable(host) is not None)


def room_of(
    budget: Budget | None,
    groups: Iterable[HostGroup],
    hosts: Mapping[str, HostFacts],
    away: AbstractSet[str],
    is_ours: Callable[[HostFacts], bool],
) -> BudgetRoom:
    """Return what a budget leaves: of hosts in groups, and of those in work for us that are in none."""
    budget = budget or Budget()
    label = budget.per_zone.label if budget.per_zone is not None else ""
    places: dict[str, BudgetPlace] = {}
    for group in groups:
        whole = BudgetPlace(group.name)  # without zones, one room for all hosts
        for name in group.hosts:
            if name in hosts:
                zone = hosts[name].labels.get(label, "") if label else ""
                places[name] = BudgetPlace(group.name, zone) if zone else whole
    changing = (hosts[name].changing for name in places)
    found = BudgetRoom(budget, places, next((f"configset/{one}" for one in changing if one), ""))
    working = {name for name in away if hosts[name].works}
    left = sum(is_ours(hosts[name]) for name in working if name not in places)
    found.count(places.keys() & away, working, left)
    return found
