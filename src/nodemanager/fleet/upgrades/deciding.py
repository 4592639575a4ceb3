"""Which of the hosts that ask for an upgrade may begin, and why the others wait.

A call remembers nothing of earlier ones. The request of a host ends with its window, so that a slot
which it had to wait through is missed, as it is on a host that nobody decides for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nodemanager.fleet.maintenance import facts
from nodemanager.fleet.maintenance.budget import BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.upgrades.upgrade_tasks import run_of

SKEW: Final = timedelta(minutes=5)
"""How far the clock of a host may differ from ours."""
PLAUSIBLE: Final = timedelta(days=366)
"""How far away a slot, or the end of its window, may be; other times are ignored."""
_ENDS_BY_ITSELF: Final = frozenset((Reason.NODE_NOT_READY, Reason.NODE_CORDONED))
"""Reasons that do not prevent an upgrade: it may repair the first, and does not change the second."""


@dataclass(frozen=True, slots=True)
class AskingHost:
    """A host whose slot has come."""

    facts: HostFacts
    slot: datetime
    until: datetime
    group: str = ""
    held: bool = False
    """Whether a person holds it back from upgrades, and its agent has not heard of that yet."""
    used: bool = False
    """Whether there is a task for its slot that its status does not show yet."""


@dataclass(frozen=True, slots=True)
class UpgradeDecision:
    """Which hosts begin now, in this order, and which wait."""

    starts: tuple[AskingHost, ...] = ()
    waits: tuple[HostWait, ...] = ()


def decide(
    asking: Iterable[AskingHost],
    rooms: Sequence[tuple[str, BudgetRoom]],
    now: datetime,
    stopped: tuple[Reason, str] | None = None,
) -> UpgradeDecision:
    """Return whose turn it is. `rooms` are what the budgets of maintenances leave, with their names.

    `stopped` is why no host may begin, and the object that says so.
    """
    starts: list[AskingHost] = []
    waits: list[HostWait] = []
    groups: set[str] = set()
    for one in sorted(asking, key=lambda one: (one.slot, one.facts.name)):
        if _is_used(one):
            continue
        name, wait = one.facts.name, _own(one, now) or stopped
        if wait is None and one.group in groups:
            wait = Reason.GROUP_BUSY, f"lease/{one.group}"
        wait = wait or _refused(one.facts, rooms)
        if wait is not None:
            waits.append(HostWait(name, *wait, since=one.slot, next_check=one.until))
            continue
        starts.append(one)
        groups |= {one.group} - {""}
        for _, room in rooms:
            if name in room.places and facts.unavailable(one.facts) is None:
                room.take(name)
    return UpgradeDecision(tuple(starts), tuple(waits))


def is_plausible(slot: datetime, until: datetime, now: datetime) -> bool:
    """Tell whether the request of a host makes sense: a host can write any time into its status."""
    return abs(slot - now) <= PLAUSIBLE and abs(until - now) <= PLAUSIBLE


def _is_used(one: AskingHost) -> bool:
    """Tell whether its slot was begun before: it is tried only once."""
    claim = one.facts.claim
    begun = isinstance(claim, Claim) and claim.is_upgrade and claim.run == run_of(one.slot)
    return one.used or begun


def _own(one: AskingHost, now: datetime) -> tuple[Reason, str] | None:
    """Return why this host cannot begin, whatever the others do."""
    host, name = one.facts, f"managednode/{one.facts.name}"
    if host.health.alive is None:
        return Reason.HOST_WITHOUT_AGENT, name
    if not one.slot - SKEW <= now <= one.until + SKEW:
        return Reason.CLOCK_DIFFERS, name
    if _is_kept_cordoned(host):
        claim = host.claim
        return Reason.NODE_CORDONED, claim.object if isinstance(claim, Claim) else f"node/{host.name}"
    reason = facts.unavailable(host)
    if reason is Reason.HOST_CHANGING:
        return reason, f"configset/{host.changing}"
    if reason is not None and reason not in _ENDS_BY_ITSELF:
        return reason, host.claim.object if host.works and isinstance(host.claim, Claim) else name
    return (Reason.HOST_HELD, name) if host.health.held or one.held else None


def _is_kept_cordoned(host: HostFacts) -> bool:
    """Tell whether a Node stays cordoned for work of ours that has ended, other than an upgrade of its host.

    The state of such a host is unknown. Only the claim keeps the cordon, so the claim must not be replaced.
    """
    ours = host.node is not None and host.node.cordoned and host.node.ours
    claim = host.claim
    return ours and not host.works and not (isinstance(claim, Claim) and claim.uid == host.uid)


def _refused(host: HostFacts, rooms: Sequence[tuple[str, BudgetRoom]]) -> tuple[Reason, str] | None:
    """Return which budget has no room for a host; a host that is unavailable already needs no room."""
    if facts.unavailable(host) is not None:
        return None
    for name, room in rooms:
        reason = room.refusal(host.name) if host.name in room.places else None
        if reason is not None:
            return reason, f"nodemaintenance/{name}"
    return None
