"""What the status of a maintenance remembers and says; pure. Its size does not depend on the fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.maintenance.maintenance_status import (
    COMPLETE,
    MAX_REASONS,
    PROGRESSING,
    VALID,
    EndedRun,
    HostCounts,
    NodeMaintenanceStatus,
    OperationState,
    PlanState,
    RunState,
    WaitReason,
    WindowState,
)
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_ABORT,
    ANNOTATION_RETRY,
    DEFAULT_HISTORY,
    NodeMaintenance,
)
from nodemanager.api.maintenance.operations import ONE_SHOT
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.realtime_sets import RealtimeKept
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.decide import Decision, Run, Wait
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import Look
from nodemanager.fleet.maintenance.progress import Stage
from nodemanager.fleet.maintenance.reasons import Reason, remedy
from nodemanager.fleet.maintenance.runs import Judgement, Memory
from nodemanager.kube import conditions, times, wording
from nodemanager.kube.conditions import Condition

REALTIME_KEPT: Final = "RealtimeKept"
"""Condition type: what operations of type realtime declare is enforced. Absent where there are none."""
KEPT: Final = "Kept"
NOT_KEPT: Final = "NotKept"
GOOD: Final = "Good"
FAILED: Final = "Failed"
SUCCEEDED: Final = "Succeeded"
SHOWN: Final = 5
_WHOLE: Final = (Reason.PAUSED, Reason.NOT_APPROVED, Reason.WINDOW_CLOSED)
_PHASES: Final = {
    Reason.PAUSED: "Paused",
    Reason.NOT_APPROVED: "WaitingForApproval",
    Reason.WINDOW_CLOSED: "WaitingForWindow",
}


def memories(status: NodeMaintenanceStatus) -> dict[str, Memory]:
    """Return what is remembered of operations."""
    return {one.name: Memory(_moment(one.last_slot), one.done) for one in status.operations}


def run_of(maintenance: NodeMaintenance) -> Run | None:
    """Return the run that is under way."""
    run = maintenance.status.run
    if run is None or not run.started_at:
        return None
    notes = maintenance.metadata.annotations
    ending: Reason | None = None
    if maintenance.metadata.deletion_timestamp:
        ending = Reason.DELETED
    elif notes.get(ANNOTATION_ABORT) == run.id:
        ending = Reason.ABORTED
    elif run.replaced:
        ending = Reason.REPLACED
    return Run(
        run.id,
        datetime.fromisoformat(run.started_at),
        retried_at=_moment(run.retried_at),
        stopped=run.stopped_at is not None,
        ending=ending,
    )


def retried(maintenance: NodeMaintenance, now: datetime) -> RunState | None:
    """Return the run under way, if somebody has just had it go on in spite of failures."""
    run = maintenance.status.run
    if run is None or maintenance.metadata.annotations.get(ANNOTATION_RETRY) != run.id:
        return None
    # To the microsecond: what failed in the same second was before.
    return msgspec.structs.replace(run, retried_at=times.rfc3339_micro(now), stopped_at=None)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def began(uid: str, due: Mapping[str, str], now: datetime) -> RunState:
    """Return a run that begins now."""
    return RunState(
        id=runs.run_id(uid, due),
        operations=list(due),
        started_at=times.rfc3339(now),
        slots=dict(due),
    )


def kept(run: RunState, look: Look, now: datetime) -> RunState:
    """Return a run that goes on, and remembers that it was stopped, or is being replaced."""
    changes: dict[str, object] = {}
    if look.decision is not None and look.decision.stops and run.stopped_at is None:
        changes["stopped_at"] = times.rfc3339(now)
    if any(one.replaces for one in look.judgements):
        changes["replaced"] = True
    return msgspec.structs.replace(run, **changes)


@dataclass(frozen=True, slots=True)
class Record:
    """All that a status is made of."""

    maintenance: NodeMaintenance
    look: Look
    run: RunState | None
    """The run that is under way after this look."""
    ended: EndedRun | None
    """One that has just ended."""
    problem: Problem | None
    plan: PlanState | None
    now: datetime
    realtime: RealtimeKept | None = None


class News(NamedTuple):
    """Something that people are told."""

    reason: str
    message: str
    bad: bool = False


def news(old: NodeMaintenanceStatus, new: NodeMaintenanceStatus) -> list[News]:
    """Return what a new status has to tell that the old one had not."""
    found: list[News] = []
    if new.run is not None and (old.run is None or old.run.id != new.run.id):
        hosts = f" on {wording.plural(new.plan.hosts, 'host')}" if new.plan is not None else ""
        found.append(News("RunStarted", f"run {new.run.id} of {', '.join(new.run.operations)}{hosts}"))
    if new.phase != old.phase and new.phase == "Stopped":
        progressing = conditions.get(new.conditions, PROGRESSING)
        found.append(News("RunStopped", progressing.message if progressing is not None else "", bad=True))
    if new.history and (not old.history or old.history[0].id != new.history[0].id):
        ended = new.history[0]
        text = ended.hosts.text if ended.hosts is not None else ""
        good = ended.outcome == SUCCEEDED
        found.append(News(f"Run{ended.outcome}", f"run {ended.id}: {text} hosts are done", bad=not good))
    found += _shown_conditions(old.conditions, new.conditions)
    return found


def _shown_conditions(old: Sequence[Condition], new: Sequence[Condition]) -> Iterable[News]:
    for kind in (VALID, REALTIME_KEPT):
        before, after = conditions.get(old, kind), conditions.get(new, kind)
        known = before is not None and after is not None and before.message == after.message
        if after is not None and after.status == conditions.FALSE and not known:
            yield News(after.reason, after.message, bad=True)


def status_of(record: Record) -> NodeMaintenanceStatus:
    """Return the status after a look."""
    old, maintenance = record.maintenance.status, record.maintenance
    decision = record.look.decision
    history = _history(record)
    operations = [_operation(record, judged) for judged in record.look.judgements]
    counts = host_counts(decision) if decision is not None else old.hosts
    nexts = [one.next_run for one in operations if one.next_run]
    waits = decision.waits if decision is not None and not decision.outcome else ()
    made = msgspec.structs.replace(
        old,
        observed_generation=maintenance.metadata.generation,
        window=_window(record.look.window),
        hosts=counts,
        next_run=min(nexts) if nexts else None,
        operations=operations,
        run=record.run,
        waiting=waiting(waits, maintenance.metadata.name),
        history=history,
        plan=record.plan,
    )
    phase = _phase(record, made)
    made = msgspec.structs.replace(made, phase=phase)
    return msgspec.structs.replace(made, conditions=_conditions(record, made))


def host_counts(decision: Decision) -> HostCounts:
    """Return how many hosts of a run are how far."""
    found = decision.counts()
    total, done = sum(found.values()), found[Stage.SUCCEEDED]
    return HostCounts(
        total=total, waiting=found[Stage.WAITING], running=found[Stage.RUNNING], succeeded=done,
        failed=found[Stage.FAILED], skipped=found[Stage.SKIPPED], text=f"{done}/{total}",
    )  # fmt: skip


def waiting(waits: Iterable[Wait], name: str) -> list[WaitReason]:
    """Return why hosts wait, one entry for each reason and object, those of most hosts first."""
    by_reason: dict[Reason, list[Wait]] = {}
    for wait in waits:
        by_reason.setdefault(wait.reason, []).append(wait)
    ordered = sorted(by_reason.items(), key=lambda one: (-len(one[1]), one[0]))
    return [_reason(reason, found, name) for reason, found in ordered[:MAX_REASONS]]


def _reason(reason: Reason, found: Sequence[Wait], name: str) -> WaitReason:
    objects = {wait.object for wait in found}
    about = objects.pop()[:320] if len(objects) == 1 else ""
    checks = [wait.next_check for wait in found if wait.next_check is not None]
    since = [wait.since for wait in found if wait.since is not None]
    return WaitReason(
        reason=reason,
        hosts=len(found),
        first=[wait.host for wait in found[:SHOWN]],
        object=about,
        since=times.rfc3339(min(since)) if since else None,
        next_check=times.rfc3339(min(checks)) if checks else None,
        remedy=remedy(reason, name, found[0].host if len(found) == 1 else "", about),
    )


def _window(view: WindowView) -> WindowState:
    opens = times.rfc3339(view.opens_at) if view.opens_at else None
    closes = times.rfc3339(view.closes_at) if view.closes_at else None
    text = f"open until {closes}" if closes else "open" if view.open else opens or "shut"
    return WindowState(open=view.open, opens_at=opens, closes_at=closes, text=text)


def _operation(record: Record, judged: Judgement) -> OperationState:
    old = next(
        (one for one in record.maintenance.status.operations if one.name == judged.operation), None
    ) or OperationState(name=judged.operation)
    run, ended = record.run, record.ended
    slot = times.rfc3339(judged.last_slot) if judged.last_slot else old.last_slot
    changes: dict[str, object] = {
        "last_slot": slot,
        "next_run": times.rfc3339(judged.next_run) if judged.next_run else None,
        "active": run is not None and judged.operation in run.operations,
        "skipped": old.skipped + sum(_is_news(old, one.slot) for one in judged.skipped),
    }
    if judged.skipped:
        changes["skipped_reason"] = judged.skipped[-1].reason.value
    before = record.maintenance.status.run
    if run is not None and before is None and judged.operation in run.operations:  # it begins with this
        changes["last_run"] = run.started_at
        if (due := run.slots.get(judged.operation)) and _is_slot(record, judged.operation):
            changes["last_slot"] = times.rfc3339(datetime.fromisoformat(due))
    if ended is not None and before is not None and ended.outcome != "Replaced":
        due = before.slots.get(judged.operation)
        if due and not _is_slot(record, judged.operation):
            changes |= {"done": due, "next_run": None}
    return msgspec.structs.replace(old, **changes)


def _is_news(old: OperationState, slot: datetime) -> bool:
    return old.last_slot is None or slot > datetime.fromisoformat(old.last_slot)


def _is_slot(record: Record, operation: str) -> bool:
    found = next((one for one in record.maintenance.spec.operations if one.name == operation), None)
    return found is not None and found.type != ONE_SHOT


def _history(record: Record) -> list[EndedRun]:
    """Return the runs that have ended, the newest first, as many as are wanted of each."""
    spec, old = record.maintenance.spec, record.maintenance.status.history
    found = [record.ended, *old] if record.ended is not None else list(old)
    room = {
        True: DEFAULT_HISTORY if (good := spec.successful_runs_history_limit) is None else good,
        False: DEFAULT_HISTORY if (bad := spec.failed_runs_history_limit) is None else bad,
    }
    kept: list[EndedRun] = []
    for one in found:
        well = one.outcome == SUCCEEDED
        if room[well] > 0:
            room[well] -= 1
            kept.append(one)
    return kept


def _phase(record: Record, made: NodeMaintenanceStatus) -> str:
    look, decision = record.look, record.look.decision
    if record.run is not None:
        if decision is None:
            return "Running"
        if decision.stops:
            return "Stopped"
        if decision.counts()[Stage.RUNNING] or decision.starts:
            return "Running"
        reasons = {wait.reason for wait in decision.waits}
        return next((_PHASES[one] for one in _WHOLE if one in reasons), "Running")
    pending = [one for one in look.judgements if one.next_run is not None or one.due]
    if not pending and made.operations and all(one.done or one.last_slot for one in made.operations):
        outcome = record.ended.outcome if record.ended is not None else _last_outcome(record)
        return "Succeeded" if outcome == SUCCEEDED else "Failed"
    if record.problem is not None:
        return "Pending"
    return "WaitingForWindow" if look.reason is Reason.WINDOW_CLOSED else "WaitingForSlot"


def _last_outcome(record: Record) -> str:
    status = record.maintenance.status
    if status.phase in ("Succeeded", "Failed"):
        return status.phase
    return status.history[0].outcome if status.history else SUCCEEDED


def _conditions(record: Record, made: NodeMaintenanceStatus) -> list[Condition]:
    found = list(record.maintenance.status.conditions)
    for said in _said(record, made):
        dated = msgspec.structs.replace(said, observed_generation=record.maintenance.metadata.generation)
        found = conditions.set_condition(found, dated, times.rfc3339(record.now))
    return found


def _said(record: Record, made: NodeMaintenanceStatus) -> Iterable[Condition]:
    problem = record.problem
    if problem is not None:
        yield Condition(type=VALID, status=conditions.FALSE, reason=problem.reason, message=problem.message)
    else:
        yield Condition(type=VALID, status=conditions.TRUE, reason=GOOD)
    runs_now = made.phase == "Running"
    reason = made.waiting[0].reason if made.waiting else made.phase
    message = made.waiting[0].remedy if made.waiting else ""
    if made.phase == "Stopped" and record.look.decision is not None:
        reason, message = Reason.STOPPED, _stop_text(record.look.decision, record.maintenance.metadata.name)
    yield Condition(
        type=PROGRESSING,
        status=conditions.TRUE if runs_now else conditions.FALSE,
        reason=reason,
        message=message,
    )
    done = made.phase == "Succeeded"
    yield Condition(
        type=COMPLETE, status=conditions.TRUE if done else conditions.FALSE, reason=made.phase or "Pending"
    )
    if record.realtime is not None:
        yield _realtime(record.realtime)


def _stop_text(decision: Decision, name: str) -> str:
    """Return why a run has stopped, also if no host is left that waits for it, and what has it go on."""
    failed = wording.plural(decision.counts()[Stage.FAILED], "host")
    return f"{failed} failed: {decision.stops[0].object}. {remedy(Reason.STOPPED, name)}"


def _realtime(kept: RealtimeKept) -> Condition:
    """Return whether operations of type realtime have become ConfigSets."""
    if kept.problems:
        said = "; ".join(kept.problems)
        return Condition(
            type=REALTIME_KEPT, status=conditions.FALSE, reason=NOT_KEPT, message=wording.shorten(said, 1024)
        )
    named = ", ".join(kept.sets[:SHOWN])
    return Condition(
        type=REALTIME_KEPT, status=conditions.TRUE, reason=KEPT, message=f"see ConfigSet {named}"
    )


def ended(run: RunState, decision: Decision, now: datetime) -> EndedRun:
    """Return a run that has ended."""
    return EndedRun(
        id=run.id, operations=run.operations, outcome=decision.outcome, started_at=run.started_at,
        ended_at=times.rfc3339(now), hosts=host_counts(decision),
    )  # fmt: skip
