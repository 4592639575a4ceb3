"""A NodeMaintenance in words: what, where, when, how far it is, and why hosts wait. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.operations import Operation
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import MESSAGE_LIMIT, ROWS_LIMIT
from nodemanager.kube import core
from nodemanager.kube.wording import listed, plural


def render(maintenance: NodeMaintenance, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a maintenance."""
    report = output.Report()
    spec, status = maintenance.spec, maintenance.status
    describing.add_head(report, maintenance.metadata, now)
    report.field("Phase", status.phase or "not judged yet")
    report.field("Window", *_window(maintenance, now))
    report.field("Series", _series(spec))
    report.field("At once", _ceiling(spec))
    if status.hosts is not None:
        done, counts = status.hosts.text or f"{status.hosts.succeeded}/{status.hosts.total}", status.hosts
        report.field("Hosts", f"{done} done, {counts.running} in work, {counts.failed} failed")
    if status.plan is not None:
        report.field("Plan", f"{plural(status.plan.hosts, 'host')}, hash {status.plan.hash}")
        if status.plan.without_agent:
            named = listed(status.plan.first_without_agent, 5, status.plan.without_agent)
            report.field("No agent", f"{plural(status.plan.without_agent, 'Kubernetes Node')}: {named}")
    if status.escalated is not None:
        named = listed(status.escalated.first, 5, status.escalated.hosts)
        report.field("Look at", f"drift on {plural(status.escalated.hosts, 'host')}: {named}")
    if spec.paused:
        report.field("Paused", "yes: nothing is begun")
    describing.add_conditions(report, status.conditions, maintenance.metadata.generation, now)
    report.table(
        "Operations",
        ["NAME", "TYPE", "DOES", "NEXT", "SKIPPED"],
        [_operation(maintenance, operation) for operation in spec.operations],
        ROWS_LIMIT,
    )
    _add_waiting(report, maintenance, now)
    rows = [
        [run.id, ", ".join(run.operations), run.outcome, output.age(run.ended_at, now)]
        for run in status.history
    ]
    if rows:
        report.table("Earlier runs", ["RUN", "OPERATIONS", "OUTCOME", "ENDED"], rows)
    told = [[one.name, str(one.number), str(one.dropped), one.failure] for one in status.deliveries]
    if told:
        report.table("Told", ["NAME", "NOTICE", "DROPPED", "FAILURE"], told)
    describing.add_events(report, events, now)
    return report.text()


def _add_waiting(report: output.Report, maintenance: NodeMaintenance, now: datetime) -> None:
    rows = [
        [
            wait.reason,
            str(wait.hosts),
            output.age(wait.since, now),
            wait.object,
            output.one_line(wait.remedy, MESSAGE_LIMIT),
        ]
        for wait in maintenance.status.waiting
    ]
    if rows:
        report.table("Waiting", ["REASON", "HOSTS", "SINCE", "FOR", "WHAT TO DO"], rows)


def _window(maintenance: NodeMaintenance, now: datetime) -> list[str]:
    spec, state = maintenance.spec, maintenance.status.window
    said = [f"MaintenanceWindow {spec.window_ref.name}" if spec.window_ref is not None else "its own"]
    if state is not None and not state.open and state.opens_at:
        return [*said, f"shut, opens {output.ahead(state.opens_at, now)}"]
    return [*said, state.text] if state is not None and state.text else said


def _series(spec: NodeMaintenanceSpec) -> str:
    if spec.series_ref is not None:
        return f"NodeSeries {spec.series_ref.name}"
    return "all hosts of the namespace" if spec.series is None else "its own"


def _ceiling(spec: NodeMaintenanceSpec) -> str:
    most = spec.budget.max_unavailable if spec.budget is not None else None
    said = [f"at most {most or 1} unavailable"]
    if spec.parallelism:
        said.append(f"{spec.parallelism} in work")
    return ", ".join(said)


def _operation(maintenance: NodeMaintenance, operation: Operation) -> list[str]:
    state = next((one for one in maintenance.status.operations if one.name == operation.name), None)
    kind = f"{operation.type} {operation.schedule}".strip() + (", suspended" if operation.suspend else "")
    return [
        operation.name,
        kind,
        _does(operation),
        (state.next_run if state is not None else None) or "-",
        str(state.skipped) if state is not None else "0",
    ]


def _does(operation: Operation) -> str:
    if operation.template_ref is not None:
        return f"template {operation.template_ref.name}"
    return "configSet" if operation.config_set is not None else plural(len(operation.steps), "step")
