"""What a run does to each host: steps, which are fixed when the first host begins; rules; and plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.disruption import EVICT, Drain
from nodemanager.api.maintenance.maintenance_status import (
    MAX_REFUSED,
    OWN_REQUEST,
    PLAN_CHANGED,
    PlanState,
    RealtimePlan,
    RefusedApproval,
    RunState,
)
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.nodetask import RUN, NodeTask
from nodemanager.api.maintenance.task_steps import UNDO, TaskStep
from nodemanager.api.maintenance.windows import ABORT
from nodemanager.controllers.disruption.holding import DrainRules
from nodemanager.controllers.node_maintenances import observing, orders
from nodemanager.controllers.node_maintenances.inputs import InputReader, Inputs, Problem
from nodemanager.controllers.node_maintenances.visiting import Undertaking
from nodemanager.controllers.registration import Caches
from nodemanager.fleet.maintenance import beginning, openings, plan
from nodemanager.fleet.maintenance.claims import Claim, taken_back
from nodemanager.fleet.maintenance.facts import Run
from nodemanager.fleet.maintenance.plan import MaintenancePlanInput
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import VisitRules
from nodemanager.fleet.maintenance.steps import RunWork, StepsError, TemplateMissing, digest
from nodemanager.fleet.series import LeftOut
from nodemanager.kube import times

FIRST: Final = 20
"""How many hosts a plan lists."""


@dataclass(frozen=True, slots=True)
class MaintenanceSnapshot:
    """The known facts when a maintenance is looked at."""

    maintenance: NodeMaintenance
    now: datetime
    nodes: Sequence[ManagedNode]
    inputs: Inputs
    tasks: Sequence[NodeTask]
    """The tasks of this maintenance, of all its runs."""
    run: Run | None


def work_of(seen: MaintenanceSnapshot, run: RunState, reader: InputReader) -> tuple[RunWork, Problem | None]:
    """Return what is done to each host of a run.

    After a host has begun, this is what its task says, even if templates and operations change.
    """
    for task in seen.tasks:
        if task.metadata.labels.get(RUN) == run.id and not taken_back(task.metadata.name):
            return RunWork(tuple(task.spec.steps), run.digest), None
    try:
        found = reader.run_work(seen.maintenance, run.operations)
    except (StepsError, TemplateMissing) as error:
        return RunWork((), ""), Problem(Reason.STEPS_INVALID, "", str(error))
    window = seen.inputs.calendar.spec
    steps = tuple(_with_undo(step) for step in found.steps) if window.on_close == ABORT else found.steps
    if not steps:
        return found, Problem(Reason.STEPS_INVALID, "", "the operations of this run are gone: abort it")
    return RunWork(steps, digest(steps)), None


def _with_undo(step: TaskStep) -> TaskStep:
    """Return a step that is taken back unless it declares something else, because the window is closing."""
    return step if step.on_failure else msgspec.structs.replace(step, on_failure=UNDO)


def of_run(seen: MaintenanceSnapshot, reader: InputReader) -> tuple[Undertaking, Problem | None]:
    """Return the rules of all visits of the current run, and what prevents hosts from beginning."""
    maintenance, inputs = seen.maintenance, seen.inputs
    spec, run, problem = maintenance.spec, maintenance.status.run, inputs.problem
    work, wrong = work_of(seen, run, reader) if run is not None else (RunWork((), ""), None)
    window = inputs.calendar.spec
    ending = seen.run.ending if seen.run is not None else Reason.ABORTED
    if maintenance.metadata.deletion_timestamp:
        ending = Reason.DELETED
    rules = beginning.rules_of(spec, window, work) if work.steps else VisitRules()
    hashed = maintenance.status.plan.hash if maintenance.status.plan is not None else ""

    def task(claim: Claim) -> orders.TaskWork:
        deadline = beginning.task_deadline(claim, window, inputs.view)
        return orders.TaskWork(work.steps, deadline, hashed, inputs.view.last_start)

    about = Undertaking(
        owner=maintenance,
        rules=rules,
        work=task,
        drain=_drain_rules(spec.disruption.drain if spec.disruption is not None else None, seen.now),
        now=seen.now,
        may_work=inputs.view.has_time(seen.now, timedelta()) and bool(work.steps),
        ending=ending if ending in (Reason.DELETED, Reason.ABORTED) else None,
    )
    return about, problem or wrong or nobody_asks(maintenance)


def _drain_rules(drain: Drain | None, now: datetime) -> DrainRules:
    drain = drain or Drain()
    asked_at = None if drain.protected_pods == EVICT else now
    return DrainRules(drain.pod_selector, drain.grace_period_seconds, asked_at)


def nobody_asks(maintenance: NodeMaintenance) -> Problem | None:
    """Return a problem if another person has to approve, but it was not recorded who made the request."""
    approval = maintenance.spec.approval
    if approval is None or not approval.different_user or approval.requester:
        return None
    said = "approval.requester: must be the name of whoever wrote this, as somebody else has to approve it"
    return Problem(Reason.REQUESTER_UNKNOWN, "approval.requester", said)


def is_approved(seen: MaintenanceSnapshot, caches: Caches, reader: InputReader) -> bool:
    """Tell whether the plan, as it is now, has the approval that it needs.

    The status shows the plan of the last look: a person cannot have seen later changes.
    """
    approval, shown = seen.maintenance.spec.approval, seen.maintenance.status.plan
    if approval is None or not approval.required:
        return True
    now = plan_of(seen, seen.maintenance.status.run, reader)
    if shown is None or now is None or now.hash != shown.hash:
        return False
    return bool(approvers(seen.maintenance, now.hash, caches))


def approvers(maintenance: NodeMaintenance, plan_hash: str, caches: Caches) -> tuple[str, ...]:
    """Return the people who approved a plan."""
    return tuple(
        one.spec.approver
        for one in caches.of(MAINTENANCE_APPROVALS).values()
        if one.metadata.namespace == maintenance.metadata.namespace
        and plan.approves(one.spec, maintenance, plan_hash)
    )


def refused(
    maintenance: NodeMaintenance, plan_now: PlanState | None, enforced: RealtimePlan | None, caches: Caches
) -> list[RefusedApproval]:
    """Return approvals that do not count, the newest first; those of ended runs are history."""
    approval, status = maintenance.spec.approval, maintenance.status
    hashes = [one.hash for one in (plan_now, enforced) if one is not None]
    if approval is None or not approval.required or not hashes:
        return []
    since = (status.history[0].ended_at or "") if status.history else ""
    found = [
        one
        for one in caches.of(MAINTENANCE_APPROVALS).values()
        if one.metadata.namespace == maintenance.metadata.namespace
        and one.spec.maintenance == maintenance.metadata.name
        and (one.metadata.creation_timestamp or "") >= since
        and not any(plan.approves(one.spec, maintenance, each) for each in hashes)
    ]
    found.sort(key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), reverse=True)
    return [
        RefusedApproval(
            name=one.metadata.name,
            approver=one.spec.approver,
            reason=OWN_REQUEST if one.spec.plan_hash in hashes else PLAN_CHANGED,
        )
        for one in found[:MAX_REFUSED]
    ]


def plan_of(seen: MaintenanceSnapshot, run: RunState | None, reader: InputReader) -> PlanState | None:
    """Return the plan of a run, current or future; its times are those that were expected at first."""
    old = seen.maintenance.status.plan
    if run is None:
        return old
    work, wrong = work_of(seen, run, reader)
    if wrong is not None:
        return old
    inputs = seen.inputs
    uids = {host.metadata.name: host.metadata.uid for host in seen.nodes}
    made_of = MaintenancePlanInput(
        seen.maintenance.spec, run.slots, work, inputs.calendar.spec, inputs.groups, uids
    )
    hashed = plan.hash_of(made_of)
    if old is not None and old.hash == hashed:
        return _told(old, inputs.left_out)
    taken = openings.measured(observing.durations(seen.tasks, seen.now))
    made = plan.plan(made_of, inputs.calendar, taken, seen.now)
    found = PlanState(
        hash=hashed,
        hosts=len(made.hosts),
        disruption=work.disruption,
        first=list(made.hosts[:FIRST]),
        starts_at=times.rfc3339(made.starts_at) if made.starts_at else None,
        ends_at=times.rfc3339(made.ends_at) if made.ends_at else None,
    )
    return _told(found, inputs.left_out)


def _told(plan: PlanState, left_out: LeftOut) -> PlanState:
    """Add the hosts that take no part to a plan; its hash does not depend on them."""
    agentless, nodeless = left_out
    return msgspec.structs.replace(
        plan,
        without_agent=len(agentless),
        first_without_agent=list(agentless[:FIRST]),
        without_node=len(nodeless),
    )
