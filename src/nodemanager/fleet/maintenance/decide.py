"""Which hosts of a run begin now, which wait and why, and whether the run has ended.

The operator carries it out; `plan`, `why` and `simulate` ask the same. Nothing is remembered from one call to
the next: all is in the objects.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.maintenance.nodemaintenance import DEFAULT_STOP_AFTER
from nodemanager.fleet.maintenance import budget, facts, progress
from nodemanager.fleet.maintenance.budget import BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, MaintenanceFacts
from nodemanager.fleet.maintenance.progress import HostStage, RunProgress
from nodemanager.fleet.maintenance.reasons import OWN_FAULT, Reason
from nodemanager.fleet.maintenance.states import STATES
from nodemanager.fleet.series import CANARIES

PATIENCE: Final = timedelta(days=7)
"""How long a run waits for hosts that cannot begin, after the last of the others has ended."""
_STUCK: Final = OWN_FAULT | {
    Reason.TIME_TOO_SHORT, Reason.BUDGET_SPENT, Reason.ZONE_BUDGET_SPENT, Reason.ZONES_BUSY,
    Reason.GROUP_BUDGET_SPENT, Reason.PARALLELISM, Reason.CANARIES_FIRST, Reason.EARLIER_GROUP,
}  # fmt: skip
"""Waits that may last for ever while no host of ours is in work: hosts that are away then are not away for
us."""


_TURN: Final = (_STUCK - OWN_FAULT) | {Reason.WINDOW_CLOSED, Reason.BACKING_OFF}
"""Waits that end as soon as other hosts, or the time, allow a host to begin."""


@dataclass(frozen=True, slots=True)
class HostStart:
    """A host whose visit begins now."""

    host: str
    attempt: int


@dataclass(frozen=True, slots=True)
class HostWait:
    """A host that waits."""

    host: str
    reason: Reason
    object: str = ""
    since: datetime | None = None
    """None: the objects do not tell since when."""
    next_check: datetime | None = None
    """When to look again; None: only when something happens."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why no further host begins until a person lets the run go on."""

    reason: Reason
    hosts: tuple[str, ...]

    @property
    def object(self) -> str:
        """The object to look at: the first host that failed."""
        more = f" and {len(self.hosts) - 1} more" if len(self.hosts) > 1 else ""
        return f"managednode/{self.hosts[0]}{more}" if self.hosts else ""


@dataclass(frozen=True, slots=True)
class MaintenanceDecision:
    """The result of one look: what happens now."""

    starts: tuple[HostStart, ...] = ()
    waits: tuple[HostWait, ...] = ()
    stops: tuple[Stop, ...] = ()
    outcome: str = ""
    """How the run has ended; empty = it has not."""
    progress: Mapping[str, RunProgress] = field(default_factory=dict)
    lonely: bool = False
    """Whether the only hosts left are those that cannot begin for reasons of their own."""

    def counts(self) -> Counter[HostStage]:
        """Return the number of hosts in each stage."""
        return Counter(one.stage for one in self.progress.values())

    def coming(self, most: int) -> list[str]:
        """Return the hosts that come next, in their order."""
        return list(itertools.islice((wait.host for wait in self.waits if wait.reason in _TURN), most))


def decide(known: MaintenanceFacts) -> MaintenanceDecision:
    """Return what happens to the hosts of a run now."""
    found = _progress(known)
    stops = _stops(known, found)
    starts: list[HostStart] = []
    waits: list[HostWait] = []
    for one in _begin(known, found, stops):
        starts.append(one) if isinstance(one, HostStart) else waits.append(one)
    lonely = not starts and bool(waits) and all(wait.reason in OWN_FAULT for wait in waits)
    stuck = not starts and all(wait.reason in _STUCK for wait in waits)
    outcome = "" if starts else _outcome(known, found, lonely=lonely, stuck=stuck, stopped=bool(stops))
    if outcome:
        for wait in waits:
            if found[wait.host].stage is HostStage.WAITING:
                found[wait.host] = RunProgress(HostStage.SKIPPED, reason=Reason.WAITED_TOO_LONG)
        waits = []
    return MaintenanceDecision(tuple(starts), tuple(waits), stops, outcome, found, lonely)


def _progress(known: MaintenanceFacts) -> dict[str, RunProgress]:
    """Return how far the hosts of a run are: all that were there when it began, and have not left since."""
    found: dict[str, RunProgress] = {}
    in_series = {host for group in known.groups for host in group.hosts}
    touched = set(known.tasks) | {host.name for host in known.hosts.values() if known.is_ours(host)}
    for name in (*(host for group in known.groups for host in group.hosts), *sorted(touched - in_series)):
        host = known.hosts.get(name)
        if host is not None and host.created > known.run.started_at:
            host = None  # the host was created anew since: work on the old one is no part of this run
        if host is None and name not in known.tasks:
            continue
        run, tasks = known.run, known.tasks.get(name, ())
        one = progress.of_host(host, run.id, tasks, known.spec.backoff_limit, run.retried_at)
        if host is None and not one.is_end:
            one = RunProgress(HostStage.SKIPPED, one.attempt, Reason.HOST_GONE)
        elif name not in in_series and one.stage is HostStage.WAITING:
            one = RunProgress(HostStage.SKIPPED, one.attempt, Reason.HOST_LEFT_SERIES)
        found[name] = one
    return found


def _stops(known: MaintenanceFacts, found: Mapping[str, RunProgress]) -> tuple[Stop, ...]:
    """Return why the run is stopped. Every look asks this again, however far the run is."""
    failed = tuple(name for name, one in found.items() if one.stage is HostStage.FAILED)
    most = known.spec.stop_after or DEFAULT_STOP_AFTER
    canaries = [
        name for group in known.groups if group.name == CANARIES for name in group.hosts if name in found
    ]
    # Canaries that are gone proved nothing: a person has to say that the run goes on.
    lost = bool(canaries) and known.run.retried_at is None and all(found[name].is_end for name in canaries)
    lost = lost and not any(found[name].stage is HostStage.SUCCEEDED for name in canaries)
    if (
        known.run.stopped
        or len(failed) >= most
        or any(name in canaries or found[name].stops for name in failed)
        or lost
    ):
        return (Stop(Reason.STOPPED, failed or tuple(canaries)),)
    return ()


def _begin(
    known: MaintenanceFacts, found: Mapping[str, RunProgress], stops: Sequence[Stop]
) -> Iterator[HostStart | HostWait]:
    """Yield a start or a wait for every host that has not ended."""
    general = _general(known, stops)
    room = budget.room(known)
    working = sum(one.stage is HostStage.RUNNING for one in found.values())
    before: Reason | None = None
    for group in known.groups:
        pending = False
        for name in group.hosts:
            one = found.get(name)
            if one is None or one.is_end:
                continue
            host = known.hosts[name]
            if one.stage is HostStage.RUNNING:
                pending = True
                yield _in_work(host)
                continue
            wait = general or _own(known, host, one)
            blocked = wait is not None and wait[0] in OWN_FAULT
            pending = pending or not blocked or group.name == CANARIES
            if wait is None:
                wait = _turn(known, name, before, room, working)
            if wait is not None:
                yield HostWait(name, wait[0], wait[1], known.run.started_at, wait[2])
                continue
            room.take(name)
            working += 1
            yield _asked(known, host) or HostStart(name, one.attempt)
        if pending and before is None:
            before = Reason.CANARIES_FIRST if group.name == CANARIES else Reason.EARLIER_GROUP
    for name, one in found.items():
        if one.stage is HostStage.RUNNING and name not in room.places:
            yield _in_work(known.hosts[name])


_Why = tuple[Reason, str, datetime | None]


def _general(known: MaintenanceFacts, stops: Sequence[Stop]) -> _Why | None:
    """Return why no host at all may be begun with."""
    now, window, run = known.now, known.window, known.run
    if run.ending is not None:
        return run.ending, "", None
    if stops:
        return Reason.STOPPED, stops[0].object, None
    if known.problem is not None:
        return *known.problem, None
    if known.spec.paused:
        return Reason.PAUSED, "", None
    if not known.approved:
        return Reason.NOT_APPROVED, "", None
    if not window.has_time(now, timedelta()):
        if window.open and window.closes_at is not None and now < window.closes_at:
            return Reason.TIME_TOO_SHORT, "", window.opens_at
        return Reason.WINDOW_CLOSED, "", window.opens_at
    return None


def _own(known: MaintenanceFacts, host: HostFacts, one: RunProgress) -> _Why | None:
    """Return why this host may not be begun with, whatever the others do."""
    unfit = facts.unfit(host)
    if unfit is not None:
        asked = host.node.protected if host.node is not None else None
        return *unfit, asked.until if asked is not None else None
    if one.retry_at is not None and known.now < one.retry_at:
        return Reason.BACKING_OFF, "", one.retry_at
    if not known.window.has_time(known.now, known.durations.expected(host.name)):
        return Reason.TIME_TOO_SHORT, "", known.window.opens_at
    return None


def _turn(
    known: MaintenanceFacts, name: str, before: Reason | None, room: BudgetRoom, working: int
) -> _Why | None:
    """Return why it is not this host's turn."""
    if before is not None:
        return before, "", None
    if known.spec.parallelism is not None and working >= known.spec.parallelism:
        return Reason.PARALLELISM, "", None
    refusal = room.refusal(name)
    return None if refusal is None else (refusal, room.spent_by, None)


def _asked(known: MaintenanceFacts, host: HostFacts) -> HostWait | None:
    """Return that a host waits for answers of its gates. It keeps its place: no other host is asked."""
    gate = host.health.failing_before
    return None if gate is None else HostWait(host.name, gate.reason, gate.said, known.run.started_at)


def _in_work(host: HostFacts) -> HostWait:
    claim = host.claim
    if not isinstance(claim, Claim):
        return HostWait(host.name, Reason.CLAIM_UNREADABLE, f"managednode/{host.name}")
    reason, about = STATES[claim.state].reason, f"nodetask/{claim.task}" if claim.task else ""
    if claim.state is State.PROVING and host.health.failing_after is not None:
        about = host.health.failing_after.said
    return HostWait(host.name, reason, about, claim.since, claim.expires)


def _outcome(
    known: MaintenanceFacts, found: Mapping[str, RunProgress], *, lonely: bool, stuck: bool, stopped: bool
) -> str:
    """Return how the run has ended; empty = it has not.

    One that is stopped waits for somebody, and so does one of which nobody can tell the hosts.
    """
    stages = {one.stage for one in found.values()}
    if HostStage.RUNNING in stages:
        return ""
    if known.run.ending is not None:
        return "Replaced" if known.run.ending is Reason.REPLACED else "Aborted"
    if stopped or not known.series_known:
        return ""
    if HostStage.WAITING in stages:
        ended = [one.ended for one in found.values() if one.ended is not None]
        last = max([known.run.started_at, *ended])
        never = not known.window.open and known.window.opens_at is None and known.problem is None
        patient = known.now - last < PATIENCE
        if not ((lonely and known.run.superseded) or ((stuck or never) and not patient)):
            return ""
    return "Failed" if HostStage.FAILED in stages else "Succeeded"
