"""One look at a maintenance: whether a run begins, and what happens in the run that is under way.

no run, something due    -> begins: write it into the status; hosts are begun with at the next look
a run                    -> decision: starts, waits, stops, or the outcome that ends it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from nodemanager.api.maintenance.operations import CRON, Operation
from nodemanager.fleet.maintenance import openings, runs
from nodemanager.fleet.maintenance.decide import MaintenanceDecision, decide
from nodemanager.fleet.maintenance.facts import MaintenanceFacts, Run
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import Moment, OperationJudgement, OperationMemory
from nodemanager.fleet.windows.calendar import Calendar


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What a maintenance remembers, and the time of the look."""

    operations: tuple[Operation, ...]
    memories: Mapping[str, OperationMemory]
    created: datetime
    calendar: Calendar
    view: WindowView | None = None
    """What the calendar allows now, if that is already known."""
    running: frozenset[str] = field(default_factory=frozenset)
    """The operations of the run that is under way."""


@dataclass(frozen=True, slots=True)
class MaintenanceLook:
    """What one look at a maintenance found."""

    window: WindowView
    judgements: tuple[OperationJudgement, ...]
    begins: Mapping[str, str] = field(default_factory=dict)
    """The run that begins now: what is due, by operation; empty = no run begins."""
    decision: MaintenanceDecision | None = None
    """The decision about the run that is under way; None = there is none."""
    reason: Reason | None = None
    """Why no run begins, if there is none."""


def look(upkeep: Upkeep, known: MaintenanceFacts | None, uid: str, now: datetime) -> MaintenanceLook:
    """Return what happens now. `known` is about the run under way; its window is filled in here."""
    view = upkeep.view or openings.view(upkeep.calendar, now)
    moment = Moment(now, uid, upkeep.created, upkeep.calendar, upkeep.running)
    if known is None:
        judgements = tuple(
            runs.judge(upkeep.operations, upkeep.memories, replace(moment, running=frozenset()))
        )
        return MaintenanceLook(view, judgements, runs.together(judgements), reason=_waits_for(judgements))
    known = replace(known, window=view)
    decision = decide(known)
    free = decision.lonely or bool(decision.outcome)
    judgements = tuple(
        runs.judge(
            upkeep.operations, upkeep.memories, replace(moment, running=frozenset()) if free else moment
        )
    )
    crons = {one.name for one in upkeep.operations if one.type == CRON}
    if decision.lonely and not decision.outcome and crons & runs.together(judgements).keys():
        decision = decide(replace(known, run=replace(known.run, superseded=True)))
    elif known.run.ending is None and any(one.replaces for one in judgements):
        decision = decide(replace(known, run=_replaced(known.run)))
    return MaintenanceLook(view, judgements, decision=decision)


def _replaced(run: Run) -> Run:
    return replace(run, ending=Reason.REPLACED)


def _waits_for(judgements: tuple[OperationJudgement, ...]) -> Reason | None:
    """Return why no operation is due; None if one is."""
    if any(one.due for one in judgements):
        return None
    reasons = [one.reason for one in judgements if one.reason is not Reason.NOTHING_DUE]
    return reasons[0] if reasons else Reason.NOTHING_DUE
