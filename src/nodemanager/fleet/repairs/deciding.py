"""Which hosts may repair their drift now, and why the others wait.

A call remembers nothing of earlier ones. The operator carries the result out, and `why` asks the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common import enforcement
from nodemanager.api.common.enforcement import Enforcement
from nodemanager.fleet.maintenance import facts
from nodemanager.fleet.maintenance.budget import BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.repairs import turns

RETRY: Final = timedelta(minutes=10)
"""How long a host waits for another turn after one that did not help."""
SHORTEST: Final = timedelta(seconds=30)
"""How long a window must stay open for a turn: the host needs some time to hear of it."""


@dataclass(frozen=True, slots=True)
class DriftedHost:
    """A host on which something of a ConfigSet drifted."""

    facts: HostFacts
    config_set: str
    since: datetime
    """A time that the host reports, which may be anything."""
    recorded: bool = False
    """Whether its claim is the only record of how its visit in a current run ended."""


@dataclass(frozen=True, slots=True)
class RepairedSet:
    """A ConfigSet that hosts want to repair."""

    room: str
    """The name of the room of its budget."""
    is_open: bool = True
    closes: datetime | None = None
    """None: the window is shut, or it has no known end."""
    opens: datetime | None = None
    """When the window opens next; None: not known."""

    @classmethod
    def at(cls, room: str, window: Enforcement | None, now: datetime) -> RepairedSet:
        """Return a set with its window at a moment."""
        return cls(
            room,
            enforcement.is_open(window, now),
            enforcement.closes_at(window, now),
            enforcement.opens_at(window, now),
        )


@dataclass(frozen=True, slots=True)
class Budgets:
    """The room in all budgets."""

    rooms: Mapping[str, BudgetRoom]
    """What each budget leaves, by the object that has the budget."""
    running: AbstractSet[str] = frozenset()
    """Budgets of maintenances with a run: they hold for all hosts that these mean."""
    meant: Mapping[str, Callable[[HostFacts], bool]] = field(default_factory=dict)
    """For rooms that do not list all of their hosts: tells whether a host is in it."""

    def take(self, host: HostFacts) -> None:
        """Count one more host in every budget that covers it, for whatever reason its turn begins."""
        for name, room in self.rooms.items():
            if host.name in room.places:
                room.take(host.name)
            elif name in self.meant and self.meant[name](host):
                room.count((), (), elsewhere=1)


@dataclass(frozen=True, slots=True)
class RepairStart:
    """A host that has its turn now."""

    host: HostFacts
    config_set: str
    until: datetime


@dataclass(frozen=True, slots=True)
class RepairDecision:
    """Which hosts begin now, in this order, and which wait."""

    starts: tuple[RepairStart, ...] = ()
    waits: tuple[tuple[str, HostWait], ...] = ()
    """The reason for each wait, with its ConfigSet."""


def decide(
    asking: Iterable[DriftedHost],
    sets: Mapping[str, RepairedSet],
    budgets: Budgets,
    now: datetime,
    stopped: tuple[Reason, str] | None = None,
) -> RepairDecision:
    """Return whose turn it is; the host that waited longest comes first. `budgets` are used up by it.

    `stopped` is why no host may begin, and the object that says so.

    A host counts as waiting only since its last turn, for any set. One whose last turn did not help
    comes last. So no host can keep others from their turn by reporting an early time.
    """
    starts: list[RepairStart] = []
    waits: list[tuple[str, HostWait]] = []
    begun: set[str] = set()
    running = sorted(budgets.running)
    for one in sorted(asking, key=_place):
        name, found = one.facts.name, sets.get(one.config_set)
        wait = _own(one, found, now)
        if wait is None and stopped is not None:
            wait = *stopped, None
        if wait is None and name in begun:
            wait = Reason.HOST_BUSY, f"managednode/{name}", None
        if wait is None and found is not None:
            wait = _refused(name, (found.room, *running), budgets)
        if wait is not None or found is None:
            reason, about, check = wait or (Reason.CONFIG_SET_UNKNOWN, f"configset/{one.config_set}", None)
            waits.append((one.config_set, HostWait(name, reason, about, one.since, check)))
            continue
        until = now + turns.LONGEST
        until = until if found.closes is None else min(until, found.closes)
        starts.append(RepairStart(one.facts, one.config_set, until))
        begun.add(name)
        budgets.take(one.facts)
    return RepairDecision(tuple(starts), tuple(waits))


def _own(
    one: DriftedHost, found: RepairedSet | None, now: datetime
) -> tuple[Reason, str, datetime | None] | None:
    """Return why this host cannot begin, whatever the others do."""
    about = f"configset/{one.config_set}"
    if found is None:
        return Reason.CONFIG_SET_UNKNOWN, about, None
    if (unfit := facts.unfit(one.facts)) is not None:
        return *unfit, None
    if not found.is_open:
        return Reason.WINDOW_CLOSED, about, found.opens
    if found.closes is not None and found.closes - now < SHORTEST:
        return Reason.TIME_TOO_SHORT, about, found.opens
    claim = one.facts.claim
    if not isinstance(claim, Claim) or claim.state is State.DONE:
        return None
    if one.recorded:
        return Reason.HOST_BUSY, claim.object, None
    fresh = now < claim.since + RETRY
    if fresh and claim.is_upgrade:  # the host reads from this claim that its upgrade was given up
        return Reason.HOST_BUSY, claim.object, claim.since + RETRY
    if fresh and claim.repairs == one.config_set:
        reason = claim.reason or Reason.NOT_REPAIRED
        return reason, f"managednode/{one.facts.name}", claim.since + RETRY
    return None


def _place(one: DriftedHost) -> tuple[bool, datetime, str, str]:
    """Return the sort key of a host."""
    claim, since, in_vain = one.facts.claim, one.since, False
    if isinstance(claim, Claim) and claim.repairs:
        since, in_vain = max(since, claim.since), claim.state is State.HALTED
    return in_vain, since, one.facts.name, one.config_set


def _refused(host: str, names: Sequence[str], budgets: Budgets) -> tuple[Reason, str, datetime | None] | None:
    """Return which budget has no room for a host.

    The first budget, that of the set, must contain the host.
    """
    room = budgets.rooms.get(names[0])
    if room is None or host not in room.places:
        return Reason.CONFIG_SET_UNKNOWN, names[0], None
    for name in names:
        other = budgets.rooms.get(name)
        reason = other.refusal(host) if other is not None and host in other.places else None
        if reason is not None:
            return reason, name, None
    return None
