"""What happens to the hosts of a maintenance, as the operator decides it: the same code, other eyes. Pure.

Gates of health that ask others (HTTP, Prometheus, objects) are asked by the operator alone; what it found
is in the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from nodemanager.api.maintenance.maintenance_status import APPROVED, WindowState
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_ABORT, NodeMaintenance
from nodemanager.api.maintenance.nodetask import RUN, NodeTask
from nodemanager.api.maintenance.operations import REALTIME, Operation
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.cli.maintenance import observing, planning
from nodemanager.cli.maintenance.judged import Inputs, Judged, Problem
from nodemanager.cli.maintenance.reading import Surroundings, window_of
from nodemanager.fleet import series
from nodemanager.fleet.maintenance import openings, plan, runs, steps
from nodemanager.fleet.maintenance.decide import Facts, Run, Wait, decide
from nodemanager.fleet.maintenance.facts import HostFacts, TaskFacts
from nodemanager.fleet.maintenance.openings import Durations, WindowView
from nodemanager.fleet.maintenance.passes import Look, Upkeep, look
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import Memory
from nodemanager.fleet.maintenance.steps import StepsError, TemplateMissing, Work
from nodemanager.fleet.series import HostGroup
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.kube import conditions

_SHUT: Final = Calendar(WindowSpec())


def judge(maintenance: NodeMaintenance, around: Surroundings) -> Judged:
    """Return what happens to the hosts of a maintenance, and when."""
    inputs = read_inputs(maintenance, around)
    facts = {one.name: one for one in observing.hosts(around)}
    durations = openings.measured(observing.durations(around.tasks))
    known = _known(maintenance, around, inputs, facts, durations)
    found = look(_upkeep(maintenance, inputs, known), known, maintenance.metadata.uid, around.now)
    due = planning.due(maintenance, found)
    run = known.run.id if known is not None else ""
    if known is None and found.begins and inputs.problem is None:
        run = runs.run_id(maintenance.metadata.uid, found.begins)
        known = _facts(maintenance, around, inputs, facts, durations, Run(run, around.now))
        found = replace(found, decision=decide(known))
    nexts = [one.next_run for one in found.judgements if one.next_run is not None]
    judged = Judged(maintenance, inputs, {}, run=run, next_run=min(nexts, default=None))
    judged = _decided(judged, found)
    return replace(judged, plan=planning.plan(judged, due, durations, around))


def _decided(judged: Judged, found: Look) -> Judged:
    decision = found.decision
    if decision is not None:
        waits = {wait.host: wait for wait in decision.waits}
        return replace(
            judged, waits=waits, progress=decision.progress,
            starts=frozenset(start.host for start in decision.starts),
        )  # fmt: skip
    problem, spec = judged.inputs.problem, judged.maintenance.spec
    if problem is not None:
        reason, about = problem.reason, problem.object
    else:
        reason, about = (Reason.PAUSED if spec.paused else found.reason or Reason.NOTHING_DUE), ""
    waits = {host: Wait(host, reason, about, next_check=judged.next_run) for host in judged.hosts}
    return replace(judged, waits=waits)


# What it refers to


def read_inputs(maintenance: NodeMaintenance, around: Surroundings) -> Inputs:
    """Return what a maintenance refers to; of several problems the first."""
    calendar, view, shut = _window(maintenance, around)
    groups, nobody = _series(maintenance, around)
    work, wrong = _work(maintenance, around)
    return Inputs(calendar, view, groups, work, shut or nobody or wrong)


def _window(
    maintenance: NodeMaintenance, around: Surroundings
) -> tuple[Calendar, WindowView, Problem | None]:
    window = window_of(maintenance, around.referred.windows)
    if window is None:
        name = maintenance.spec.window_ref.name if maintenance.spec.window_ref is not None else ""
        said = f"there is no MaintenanceWindow {name}"
        return _SHUT, WindowView(), Problem(Reason.WINDOW_NOT_FOUND, f"maintenancewindow/{name}", said)
    calendar = Calendar(window, around.referred.calendars.get(maintenance.metadata.name, {}))
    try:
        return calendar, openings.view(calendar, around.now), None
    except ValueError as error:
        seen = maintenance.status.window
        if seen is not None and seen.open:  # the operator may read a calendar that we may not
            return _SHUT, _as_seen(seen), None
        return _SHUT, WindowView(), Problem(Reason.WINDOW_INVALID, "", f"{error}; until then it is shut")


def _as_seen(state: WindowState) -> WindowView:
    return WindowView(state.open, observing.moment(state.closes_at), observing.moment(state.opens_at))


def _series(maintenance: NodeMaintenance, around: Surroundings) -> tuple[Sequence[HostGroup], Problem | None]:
    referred = None
    if maintenance.spec.series_ref is not None:
        name = maintenance.spec.series_ref.name
        referred = around.referred.series.get(name)
        if referred is None:
            said = f"there is no NodeSeries {name}"
            return (), Problem(Reason.SERIES_NOT_FOUND, f"nodeseries/{name}", said)
    groups = series.members(plan.series_of(maintenance.spec, referred), around.hosts).groups
    return groups, None if groups else Problem(Reason.NO_HOSTS, "", "the series chooses no host")


def _work(maintenance: NodeMaintenance, around: Surroundings) -> tuple[dict[str, Work], Problem | None]:
    found: dict[str, Work] = {}
    problem: Problem | None = None
    for one in _tasked(maintenance.spec.operations):
        try:
            found[one.name] = steps.work([one], around.referred.templates)
        except TemplateMissing as error:
            said = f"there is no NodeOperationTemplate {error}"
            problem = problem or Problem(Reason.TEMPLATE_NOT_FOUND, f"nodeoperationtemplate/{error}", said)
        except StepsError as error:
            problem = problem or Problem(Reason.STEPS_INVALID, f"operation {one.name}", str(error))
    return found, problem


def _tasked(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the operations that tasks are made of."""
    return tuple(one for one in operations if one.type != REALTIME)


# What is decided


def _upkeep(maintenance: NodeMaintenance, inputs: Inputs, known: Facts | None) -> Upkeep:
    status = maintenance.status
    memories = {one.name: Memory(observing.moment(one.last_slot), one.done) for one in status.operations}
    running = status.run.operations if known is not None and status.run is not None else []
    created = observing.moment(maintenance.metadata.creation_timestamp) or observing.EVER
    return Upkeep(
        _tasked(maintenance.spec.operations), memories, created, inputs.calendar, inputs.window,
        frozenset(running),
    )  # fmt: skip


def _known(
    maintenance: NodeMaintenance,
    around: Surroundings,
    inputs: Inputs,
    facts: Mapping[str, HostFacts],
    durations: Durations,
) -> Facts | None:
    """Return the facts of the run that is under way; None if there is none."""
    run = maintenance.status.run
    started = observing.moment(run.started_at) if run is not None else None
    if run is None or started is None:
        return None
    ending = None
    if maintenance.metadata.deletion_timestamp:
        ending = Reason.DELETED
    elif maintenance.metadata.annotations.get(ANNOTATION_ABORT) == run.id:
        ending = Reason.ABORTED
    elif run.replaced:
        ending = Reason.REPLACED
    retried = observing.moment(run.retried_at)
    known = Run(run.id, started, retried, stopped=bool(run.stopped_at), ending=ending)
    return _facts(maintenance, around, inputs, facts, durations, known)


def _facts(
    maintenance: NodeMaintenance,
    around: Surroundings,
    inputs: Inputs,
    facts: Mapping[str, HostFacts],
    durations: Durations,
    run: Run,
) -> Facts:
    problem = inputs.problem
    required = maintenance.spec.approval is not None and maintenance.spec.approval.required
    return Facts(
        maintenance.metadata.uid, maintenance.spec, run, inputs.groups, facts, around.now,
        window=inputs.window,
        tasks=_tasks(around.tasks, run.id),
        durations=durations,
        problem=(problem.reason, problem.object) if problem is not None else None,
        approved=not required or conditions.is_true(maintenance.status.conditions, APPROVED),
    )  # fmt: skip


def _tasks(tasks: Iterable[NodeTask], run: str) -> dict[str, list[TaskFacts]]:
    found: dict[str, list[TaskFacts]] = {}
    for task in tasks:
        if task.metadata.labels.get(RUN) == run:
            found.setdefault(task.spec.node_name, []).append(observing.task(task))
    return found
