"""Which operations of a maintenance are due, and which slots are skipped.

A one-shot is due until it has ended once under its runID. A slot of a cron operation counts if the window
was open at that moment; it may begin late for as long as startingDeadlineSeconds says, or else as long as
that opening lasts. All that is due together is one run: one visit of every host.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from typing import Final

import msgspec

from nodemanager.api import schedules
from nodemanager.api.maintenance.operations import CRON, FORBID, ONE_SHOT, REPLACE, Operation
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.api.schedules import Schedule
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.windows import wall_clock
from nodemanager.fleet.windows.calendar import Calendar, Opened

MANY: Final = 1000
"""How many slots are looked at one by one; if there are more, only the newest are."""
NEXT_OPENINGS: Final = 50
"""In how many openings the next slot is looked for."""
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class OperationMemory:
    """What the status remembers of an operation."""

    last_slot: datetime | None = None
    done: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A slot that was skipped."""

    slot: datetime
    reason: Reason


@dataclass(frozen=True, slots=True)
class OperationJudgement:
    """The verdict about one operation now."""

    operation: str
    due: str = ""
    """The slot or one-shot that is due; empty = none is."""
    last_slot: datetime | None = None
    """The last slot that is settled; the status remembers it."""
    skipped: tuple[Skipped, ...] = ()
    replaces: bool = False
    """Whether the run that is under way has to end after the hosts in work."""
    next_run: datetime | None = None
    reason: Reason = Reason.NOTHING_DUE


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment and the maintenance of a verdict."""

    now: datetime
    uid: str
    created: datetime
    calendar: Calendar
    running: frozenset[str] = field(default_factory=frozenset)
    """Operations of the run that is under way; empty = there is none."""

    @property
    def window(self) -> WindowSpec:
        """The maintenance window."""
        return self.calendar.spec


def judge(
    operations: Iterable[Operation], memories: Mapping[str, OperationMemory], moment: Moment
) -> list[OperationJudgement]:
    """Return what is due now, in the order of the operations; raise ValueError for what cannot be read."""
    found = []
    for operation in operations:
        memory = memories.get(operation.name, OperationMemory())
        if operation.type == CRON:
            found.append(_cron(operation, memory, moment))
        elif operation.type == ONE_SHOT:
            found.append(_one_shot(operation, memory, moment))
    return found


def together(judgements: Iterable[OperationJudgement]) -> dict[str, str]:
    """Return what makes up a run: what is due, by operation; empty = nothing is."""
    return {one.operation: one.due for one in judgements if one.due}


def run_id(uid: str, due: Mapping[str, str]) -> str:
    """Return the id of a run: the same for the same slots, so that a restarted operator finds it again."""
    said = msgspec.json.encode([uid, sorted(due.items())])
    return hashlib.sha256(said).hexdigest()[:16]


def one_shot_id(uid: str, operation: Operation) -> str:
    """Return the id by which a one-shot is remembered: its runID, or else what it does."""
    what: object = operation.run_id
    if not what:
        what = msgspec.to_builtins(msgspec.structs.replace(operation, suspend=False))
    said = msgspec.json.encode([uid, operation.name, bool(operation.run_id), what], order="sorted")
    return hashlib.sha256(said).hexdigest()[:16]


def has_ended(uid: str, operation: Operation, done: str) -> bool:
    """Tell whether the one-shot that has ended is the one that is declared now."""
    return done == one_shot_id(uid, operation)


def _one_shot(operation: Operation, memory: OperationMemory, moment: Moment) -> OperationJudgement:
    identity = one_shot_id(moment.uid, operation)
    if memory.done == identity or operation.name in moment.running:
        return OperationJudgement(operation.name)
    if operation.suspend:
        return OperationJudgement(operation.name, reason=Reason.SUSPENDED)
    opened = next(iter(moment.calendar.following(moment.now, 1)), None)
    if opened is None or opened.start > moment.now:
        begins = opened.start if opened is not None else None
        return OperationJudgement(operation.name, next_run=begins, reason=Reason.WINDOW_CLOSED)
    # Since when it is due, not now: else every look would write the wait anew.
    since = moment.created if moment.window.always else max(opened.start, moment.created)
    return OperationJudgement(operation.name, due=identity, next_run=since)


def _cron(operation: Operation, memory: OperationMemory, moment: Moment) -> OperationJudgement:
    schedule, zone = _parsed(operation.schedule), zone_of(operation, moment.window)
    since = max(memory.last_slot or moment.created, moment.created)
    next_run = _next(schedule, zone, moment)
    slots = _between(schedule, zone, since, moment.now)
    if not slots:
        return OperationJudgement(operation.name, last_slot=memory.last_slot, next_run=next_run)
    counted = list(_inside(slots, moment.calendar))
    outside = sorted(set(slots) - set(counted))
    skipped = [Skipped(slot, Reason.SLOT_OUTSIDE_WINDOW) for slot in outside]
    skipped += [Skipped(slot, Reason.SLOT_SUPERSEDED) for slot in counted[:-1]]
    made = OperationJudgement(operation.name, last_slot=slots[-1], skipped=tuple(skipped), next_run=next_run)
    if not counted:
        return made
    return _judged(operation, counted[-1], made, moment)


def _judged(
    operation: Operation, slot: datetime, made: OperationJudgement, moment: Moment
) -> OperationJudgement:
    """Return what becomes of the last slot that fell into an opening."""
    policy = operation.concurrency_policy or FORBID
    skipped = None
    if moment.now >= _latest(operation, slot, moment.calendar):
        skipped = Reason.SLOT_TOO_LATE
    elif operation.suspend:
        skipped = Reason.SUSPENDED
    elif operation.name in moment.running and policy == FORBID:
        skipped = Reason.SLOT_STILL_RUNNING
    if skipped is not None:
        return replace(made, skipped=(*made.skipped, Skipped(slot, skipped)))
    # A slot that is not settled is looked at again: it begins after the current run, or gets too late.
    open_still = replace(made, last_slot=slot - _SECOND)
    if moment.running:
        replaces = operation.name in moment.running and policy == REPLACE
        return replace(open_still, replaces=replaces, reason=Reason.HOST_BUSY)
    return replace(open_still, due=slot.isoformat(), next_run=slot)


def _latest(operation: Operation, slot: datetime, calendar: Calendar) -> datetime:
    """Return until when a slot may begin."""
    if operation.starting_deadline_seconds is not None:
        return slot + timedelta(seconds=operation.starting_deadline_seconds)
    opened = calendar.opened(slot)
    end = opened.end if opened is not None else slot
    return end or datetime.max.replace(tzinfo=slot.tzinfo)


def _between(schedule: Schedule, zone: tzinfo, since: datetime, now: datetime) -> list[datetime]:
    """Return the slots after a moment, until now; of very many, the newest."""
    while True:
        found: list[datetime] = []
        for slot in _slots(schedule, zone, since + _SECOND):
            if slot > now or len(found) > MANY:
                break
            found.append(slot)
        if len(found) <= MANY:
            return found
        since += (now - since) / 2


def _inside(slots: Iterable[datetime], calendar: Calendar) -> Iterator[datetime]:
    """Yield the slots at which a window is open. It asks once per opening, as there may be many slots."""
    opened: Opened | None = None
    for slot in slots:
        if opened is None or (opened.end is not None and slot >= opened.end):
            opened = next(iter(calendar.following(slot, 1)), None)
            if opened is None:
                return
        if slot >= opened.start:
            yield slot


def _slots(schedule: Schedule, zone: tzinfo, begin: datetime) -> Iterator[datetime]:
    while (slot := _first(schedule, begin, zone)) is not None:
        yield slot
        begin = slot + _SECOND


def _next(schedule: Schedule, zone: tzinfo, moment: Moment) -> datetime | None:
    """Return the next slot that falls into an opening; None if no such slot is known."""
    slot = _first(schedule, moment.now + _SECOND, zone)
    for opened in moment.calendar.following(moment.now, NEXT_OPENINGS):
        if slot is not None and slot < opened.start:
            slot = _first(schedule, opened.start, zone)
        if slot is None:
            return None
        if opened.end is None or slot < opened.end:
            return slot
    return None


# An operator looks at the same schedules again and again, and cron is slow to count.
_parsed: Final = functools.lru_cache(maxsize=256)(schedules.parse)


@functools.lru_cache(maxsize=4096)
def _first(schedule: Schedule, begin: datetime, zone: tzinfo) -> datetime | None:
    return schedule.first(begin, zone)


def zone_of(operation: Operation, window: WindowSpec) -> tzinfo:
    """Return the time zone of an operation's schedule."""
    zones: Sequence[str] = sorted({one.time_zone or window.time_zone for one in window.schedules})
    theirs = zones[0] if len(zones) == 1 else window.time_zone
    return wall_clock.zone(operation.time_zone or theirs or "UTC")
