"""Notices for people about a change of the status; they are written together with that change.

So no kill can lose or invent one; `controllers/notifications` delivers them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.maintenance.maintenance_status import (
    MAX_NOTICES,
    EndedRun,
    EscalatedHosts,
    NodeMaintenanceStatus,
    Notice,
    PlanState,
    RealtimePlan,
)
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.notifications import (
    DRIFT_ESCALATED,
    HOST_FAILED,
    RUN_STARTED,
    RUN_STOPPED,
    WAITING_FOR_APPROVAL,
    WINDOW_CLOSED,
)
from nodemanager.controllers.node_maintenances.status.maintenance_conditions import REALTIME_KEPT
from nodemanager.fleet.maintenance.decide import MaintenanceDecision
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.kube import conditions, times, wording

SHOWN: Final = 5
MAX_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A status that is about to be written, and the facts that it comes from."""

    maintenance: NodeMaintenance
    made: NodeMaintenanceStatus
    decision: MaintenanceDecision | None
    ended: EndedRun | None
    now: datetime
    enforced: bool
    """Whether realtime operations need no approval any more."""

    @property
    def run(self) -> str:
        """The run that the change is about: one that has just ended, or the current one."""
        if self.ended is not None:
            return self.ended.id
        return self.made.run.id if self.made.run is not None else ""

    @property
    def failed(self) -> int:
        """How many of its hosts have failed."""
        return self.decision.counts()[HostStage.FAILED] if self.decision is not None else 0


def noticed(change: StatusChange) -> NodeMaintenanceStatus:
    """Return a status with notices about its changes."""
    made = change.made
    if made.run is not None and made.run.failed != change.failed:
        made = msgspec.structs.replace(made, run=msgspec.structs.replace(made.run, failed=change.failed))
    notices = list(made.notices)
    for event, message in _happened(change):
        to = [one.name for one in change.maintenance.spec.notify if one.wants(event)]
        if to:
            number = notices[-1].number + 1 if notices else 1
            said = wording.flat(message, MAX_MESSAGE)
            at = times.rfc3339(change.now)
            hosts = made.hosts if change.decision is not None else None
            notice = Notice(
                number=number, event=event, run=change.run, at=at, message=said, to=to, hosts=hosts
            )
            notices.append(notice)
    return msgspec.structs.replace(made, notices=notices[-MAX_NOTICES:])


def _happened(change: StatusChange) -> Iterator[tuple[str, str]]:
    old, new = change.maintenance.status, change.made
    before = old.run.id if old.run is not None else ""
    if new.run is not None and new.run.id != before:
        hosts = f" on {wording.plural(new.plan.hosts, 'host')}" if new.plan is not None else ""
        yield RUN_STARTED, f"run {new.run.id} of {', '.join(new.run.operations)}{hosts} has begun"
    known = old.run.failed if old.run is not None and before == change.run else 0
    if change.failed > known:
        yield HOST_FAILED, _failures(change, change.failed - known)
    if new.phase == "Stopped" and new.phase != old.phase:
        name = change.maintenance.metadata.name
        said = f"look at the hosts that failed, then run nodemanager maintenance retry {name}"
        yield RUN_STOPPED, f"run {change.run} is stopped, no further host begins: {said}"
    for wanted in _approvals(change):
        yield WAITING_FOR_APPROVAL, wanted
    if before and before == change.run and new.run is not None and _has_closed(change):
        opens = new.window.opens_at if new.window is not None else None
        again = f"it goes on at {opens}" if opens else "it does not open again"
        left = wording.plural(new.hosts.waiting if new.hosts is not None else 0, "host")
        yield WINDOW_CLOSED, f"the window closed with {left} of run {change.run} left; {again}"
    if said := newly_escalated(old, new):
        yield DRIFT_ESCALATED, said
    if change.ended is not None:
        done = change.ended.hosts.text if change.ended.hosts is not None else ""
        yield f"Run{change.ended.outcome}", f"run {change.ended.id} has ended: {done} hosts are done"


def newly_escalated(old: NodeMaintenanceStatus, new: NodeMaintenanceStatus) -> str:
    """Return the hosts with a drift that needs a person, new since the last status; empty = none."""
    before, after = old.escalated or EscalatedHosts(), new.escalated or EscalatedHosts()
    last = before.first[-1] if before.hosts > len(before.first) else None
    # Hosts after the last named one may have been there before, and others come there: only the number shows.
    hosts = [one for one in after.first if one not in before.first and (last is None or one < last)]
    if after.hosts <= before.hosts and not hosts:
        return ""
    said, count = "somebody changed what is to be looked at by a person", after.hosts - before.hosts
    if not hosts:
        more = wording.plural(count, "further host")
        return f"{said}, on {more}, after {after.first[-1]} by name: see condition Escalated"
    named = wording.listed(hosts, SHOWN, max(len(hosts), count))
    return f"{said}, on {named}: nodemanager describe mn {hosts[0]}"


def _approvals(change: StatusChange) -> Iterator[str]:
    """Yield what needs an approval now and did not before. A changed plan needs a new one.

    A run and the sets that are enforced at all times have separate plans; either may wait alone.
    """
    old, new = change.maintenance.status, change.made
    look = f"nodemanager maintenance plan {change.maintenance.metadata.name}"
    if new.run is not None and new.phase == WAITING_FOR_APPROVAL:
        asked = old.run is not None and old.phase == WAITING_FOR_APPROVAL
        if not asked or _hash(old.plan) != _hash(new.plan):
            yield f"run {change.run} waits for an approval of plan {_hash(new.plan)[:12]}: {look}"
    if new.realtime is not None and not change.enforced:
        was_enforced = conditions.is_true(old.conditions, REALTIME_KEPT)
        if was_enforced or _hash(old.realtime) != _hash(new.realtime):
            named, plan = ", ".join(new.realtime.operations), _hash(new.realtime)[:12]
            yield f"nothing of {named} is enforced before somebody approves plan {plan}: {look}"


def _hash(plan: PlanState | RealtimePlan | None) -> str:
    return plan.hash if plan is not None else ""


def _has_closed(change: StatusChange) -> bool:
    old, new = change.maintenance.status, change.made
    closed = old.window is not None and old.window.open and new.window is not None and not new.window.open
    return closed and new.hosts is not None and new.hosts.waiting > 0


def _failures(change: StatusChange, count: int) -> str:
    """Return the hosts that failed last, and why."""
    found = change.decision.progress if change.decision is not None else {}
    failed = [(name, one) for name, one in found.items() if one.stage is HostStage.FAILED]
    failed.sort(key=lambda each: each[1].ended or change.now, reverse=True)
    said = [f"{name} ({one.reason})" for name, one in failed[: min(count, SHOWN)]]
    more = f" and {count - SHOWN} more" if count > SHOWN else ""
    return f"failed in run {change.run}: {', '.join(said)}{more}"
