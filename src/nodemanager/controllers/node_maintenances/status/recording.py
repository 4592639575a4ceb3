"""The status of a maintenance. Pure. Its size does not depend on the fleet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.maintenance.maintenance_status import (
    MAX_ESCALATED,
    MAX_NEXT,
    MAX_REASONS,
    PROGRESSING,
    VALID,
    EndedRun,
    EscalatedHosts,
    HostCounts,
    NodeMaintenanceStatus,
    OperationState,
    PlanState,
    RefusedApproval,
    RunState,
    WaitReason,
    WindowState,
)
from nodemanager.api.maintenance.nodemaintenance import DEFAULT_HISTORY, NodeMaintenance
from nodemanager.api.maintenance.notifications import DRIFT_ESCALATED
from nodemanager.api.maintenance.operations import ONE_SHOT, Operation
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.realtime_sets import RealtimeKept
from nodemanager.controllers.node_maintenances.status import noticing
from nodemanager.controllers.node_maintenances.status.maintenance_conditions import (
    REALTIME_KEPT,
    SHOWN,
    conditions_of,
)
from nodemanager.controllers.node_maintenances.status.noticing import StatusChange
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.decide import HostWait, MaintenanceDecision
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import MaintenanceLook
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.fleet.maintenance.reasons import Reason, remedy
from nodemanager.fleet.maintenance.runs import OperationJudgement
from nodemanager.kube import conditions, times, wording
from nodemanager.kube.conditions import Condition

SUCCEEDED: Final = "Succeeded"
MAX_OBJECT: Final = 320
MAX_REMEDY: Final = 512
MAX_CONDITION: Final = 4096
_WHOLE: Final = (Reason.PAUSED, Reason.NOT_APPROVED, Reason.WINDOW_CLOSED)
_PHASES: Final = {
    Reason.PAUSED: "Paused",
    Reason.NOT_APPROVED: "WaitingForApproval",
    Reason.WINDOW_CLOSED: "WaitingForWindow",
}


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """Everything that a status is made of."""

    maintenance: NodeMaintenance
    look: MaintenanceLook
    run: RunState | None
    """The current run after this look."""
    ended: EndedRun | None
    """A run that has just ended."""
    problem: Problem | None
    plan: PlanState | None
    now: datetime
    realtime: RealtimeKept | None = None
    escalated: Sequence[str] = ()
    """Hosts with a drift that a person has to look at, by name."""
    refused: Sequence[RefusedApproval] = ()
    """Approvals that do not count."""


class News(NamedTuple):
    """A change that people are told."""

    reason: str
    message: str
    bad: bool = False


def news(old: NodeMaintenanceStatus, new: NodeMaintenanceStatus) -> list[News]:
    """Return the changes that a new status reports and the old one does not."""
    found: list[News] = []
    if new.run is not None and (old.run is None or old.run.id != new.run.id):
        named = ", ".join(new.run.operations)
        found.append(News("RunStarted", f"run {new.run.id} of {named}{_meant(new.plan)}"))
    if new.phase != old.phase and new.phase == "Stopped":
        progressing = conditions.get(new.conditions, PROGRESSING)
        found.append(News("RunStopped", progressing.message if progressing is not None else "", bad=True))
    if new.history and (not old.history or old.history[0].id != new.history[0].id):
        ended = new.history[0]
        text = ended.hosts.text if ended.hosts is not None else ""
        good = ended.outcome == SUCCEEDED
        found.append(News(f"Run{ended.outcome}", f"run {ended.id}: {text} hosts are done", bad=not good))
    if said := noticing.newly_escalated(old, new):
        found.append(News(DRIFT_ESCALATED, said, bad=True))
    found += _shown_conditions(old.conditions, new.conditions)
    return found


def _meant(plan: PlanState | None) -> str:
    """Return the number of hosts, and those left out although a nodeSelector seems to select them."""
    if plan is None:
        return ""
    said = f" on {wording.plural(plan.hosts, 'host')}"
    if plan.without_agent:
        named = wording.listed(plan.first_without_agent, SHOWN, plan.without_agent)
        said += (
            f"; {wording.plural(plan.without_agent, 'Kubernetes Node')} without an agent, left out: {named}"
        )
    if plan.without_node:
        said += f"; {wording.plural(plan.without_node, 'host')} without a Kubernetes Node, left out"
    return said


def _shown_conditions(old: Sequence[Condition], new: Sequence[Condition]) -> Iterable[News]:
    for kind in (VALID, REALTIME_KEPT):
        before, after = conditions.get(old, kind), conditions.get(new, kind)
        known = before is not None and after is not None and before.message == after.message
        if after is not None and after.status == conditions.FALSE and not known:
            yield News(after.reason, after.message, bad=True)


def status_of(record: StatusInputs) -> NodeMaintenanceStatus:
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
        realtime=record.realtime.plan if record.realtime is not None else None,
        escalated=_escalated(record.escalated),
        refused_approvals=list(record.refused),
        next_hosts=decision.coming(MAX_NEXT) if decision is not None and record.run is not None else [],
    )
    phase = _phase(record, made)
    made = msgspec.structs.replace(made, phase=phase)
    enforced = record.realtime is None or record.realtime.approved
    made = noticing.noticed(StatusChange(maintenance, made, decision, record.ended, record.now, enforced))
    stopped = _stop_text(decision, maintenance.metadata.name) if decision and phase == "Stopped" else ""
    said = conditions_of(maintenance, made, record.problem, record.realtime, record.now, stopped)
    return msgspec.structs.replace(made, conditions=[_plain(one) for one in said])


def _escalated(hosts: Sequence[str]) -> EscalatedHosts | None:
    return EscalatedHosts(hosts=len(hosts), first=list(hosts[:MAX_ESCALATED])) if hosts else None


def _plain(said: Condition) -> Condition:
    """Return a condition in one line: quoted text could make the API refuse the whole status."""
    return msgspec.structs.replace(said, message=wording.flat(said.message, MAX_CONDITION))


def host_counts(decision: MaintenanceDecision) -> HostCounts:
    """Return the number of hosts in each stage of a run."""
    found = decision.counts()
    total, done = sum(found.values()), found[HostStage.SUCCEEDED]
    return HostCounts(
        total=total, waiting=found[HostStage.WAITING], running=found[HostStage.RUNNING], succeeded=done,
        failed=found[HostStage.FAILED], skipped=found[HostStage.SKIPPED], text=f"{done}/{total}",
    )  # fmt: skip


def waiting(waits: Iterable[HostWait], name: str) -> list[WaitReason]:
    """Return why hosts wait, one entry for each reason and object, those with most hosts first."""
    by_reason: dict[Reason, list[HostWait]] = {}
    for wait in waits:
        by_reason.setdefault(wait.reason, []).append(wait)
    ordered = sorted(by_reason.items(), key=lambda one: (-len(one[1]), one[0]))
    return [_reason(reason, found, name) for reason, found in ordered[:MAX_REASONS]]


def _reason(reason: Reason, found: Sequence[HostWait], name: str) -> WaitReason:
    objects = {wait.object for wait in found}
    about = wording.flat(objects.pop(), MAX_OBJECT) if len(objects) == 1 else ""
    checks = [wait.next_check for wait in found if wait.next_check is not None]
    since = [wait.since for wait in found if wait.since is not None]
    said = remedy(reason, name, found[0].host if len(found) == 1 else "", about)
    return WaitReason(
        reason=reason,
        hosts=len(found),
        first=[wait.host for wait in found[:SHOWN]],
        object=about,
        since=times.rfc3339(min(since)) if since else None,
        next_check=times.rfc3339(min(checks)) if checks else None,
        remedy=wording.flat(said, MAX_REMEDY),
    )


def _window(view: WindowView) -> WindowState:
    opens = times.rfc3339(view.opens_at) if view.opens_at else None
    closes = times.rfc3339(view.closes_at) if view.closes_at else None
    text = f"open until {closes}" if closes else "open" if view.open else opens or "shut"
    return WindowState(open=view.open, opens_at=opens, closes_at=closes, text=text)


def _operation(record: StatusInputs, judged: OperationJudgement) -> OperationState:
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
    if run is not None and before is None and judged.operation in run.operations:  # its text begins with this
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


def _is_slot(record: StatusInputs, operation: str) -> bool:
    found = _declared(record, operation)
    return found is not None and found.type != ONE_SHOT


def _is_over(record: StatusInputs, state: OperationState) -> bool:
    """Tell whether an operation was done as it is declared now: a one-shot may have become another."""
    found = _declared(record, state.name)
    if found is not None and found.type == ONE_SHOT:
        return runs.has_ended(record.maintenance.metadata.uid, found, state.done)
    return bool(state.last_slot)


def _declared(record: StatusInputs, operation: str) -> Operation | None:
    return next((one for one in record.maintenance.spec.operations if one.name == operation), None)


def _history(record: StatusInputs) -> list[EndedRun]:
    """Return the ended runs, the newest first, as many of each kind as are wanted."""
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


def _phase(record: StatusInputs, made: NodeMaintenanceStatus) -> str:
    look, decision = record.look, record.look.decision
    if record.run is not None:
        if decision is None:
            return "Running"
        if decision.stops:
            return "Stopped"
        if decision.counts()[HostStage.RUNNING] or decision.starts:
            return "Running"
        reasons = {wait.reason for wait in decision.waits}
        return next((_PHASES[one] for one in _WHOLE if one in reasons), "Running")
    pending = [one for one in look.judgements if one.next_run is not None or one.due]
    if not pending and made.operations and all(_is_over(record, one) for one in made.operations):
        outcome = record.ended.outcome if record.ended is not None else _last_outcome(record)
        return "Succeeded" if outcome == SUCCEEDED else "Failed"
    if record.problem is not None:
        return "Pending"
    if record.realtime is not None and not record.realtime.approved:
        return "WaitingForApproval"
    return "WaitingForWindow" if look.reason is Reason.WINDOW_CLOSED else "WaitingForSlot"


def _last_outcome(record: StatusInputs) -> str:
    status = record.maintenance.status
    if status.phase in ("Succeeded", "Failed"):
        return status.phase
    return status.history[0].outcome if status.history else SUCCEEDED


def _stop_text(decision: MaintenanceDecision, name: str) -> str:
    """Return why a run has stopped, even if no host waits any more, and how a person continues it."""
    failed = wording.plural(decision.counts()[HostStage.FAILED], "host")
    return f"{failed} failed: {decision.stops[0].object}. {remedy(Reason.STOPPED, name)}"
