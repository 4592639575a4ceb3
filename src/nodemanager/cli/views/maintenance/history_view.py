"""The runs of a maintenance in columns, and what each host of one of them did."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.maintenance.maintenance_status import HostCounts
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.nodetask import RUN, NodeTask
from nodemanager.cli.maintenance.tries import Try
from nodemanager.cli.views import output
from nodemanager.cli.views.describing import MESSAGE_LIMIT
from nodemanager.cli.views.maintenance import progress


def run_of(task: NodeTask) -> str:
    """Return the id of the run that a task is part of."""
    return task.metadata.labels.get(RUN, "")


def text(found: NodeMaintenance, run: str, hosts: Sequence[Try], now: datetime) -> str:
    """Return both tables."""
    report = output.Report()
    report.table("Runs", ["RUN", "OUTCOME", "BEGAN", "TOOK", "HOSTS", "OPERATIONS"], _runs(found, now))
    if run:
        report.table(
            f"Hosts of run {output.one_line(run)}",
            ["HOST", "PHASE", "STEP", "TOOK", "TASK", "MESSAGE"],
            [_host(one, now) for one in hosts],
        )
    return report.text()


def _runs(found: NodeMaintenance, now: datetime) -> list[list[str]]:
    current = found.status.run
    rows = [
        [
            run.id, run.outcome, f"{output.age(run.started_at, now)} ago",
            progress.took(run.started_at, run.ended_at), _counts(run.hosts), ", ".join(run.operations),
        ]
        for run in found.status.history
    ]  # fmt: skip
    if current is None or not current.id:
        return rows
    state = "stopped" if current.stopped_at else "under way"
    began = f"{output.age(current.started_at, now)} ago"
    first = [current.id, state, began, "-", _counts(found.status.hosts), ", ".join(current.operations)]
    return [first, *rows]


def _counts(counts: HostCounts | None) -> str:
    """Return how many hosts are done of how many, and what went wrong."""
    if counts is None:
        return "-"
    bad = {"failed": counts.failed, "skipped": counts.skipped}
    return ", ".join([progress.hosts(counts), *(f"{many} {word}" for word, many in bad.items() if many)])


def _host(one: Try, now: datetime) -> list[str]:
    task, status = one.task, one.task.status
    begun = status.claim.time if status.claim is not None else None
    lasts = progress.took(begun, status.finished_at)
    if lasts == "-" and begun and not status.finished_at:
        lasts = output.age(begun, now)
    return [
        task.spec.node_name, one.phase or "Pending", status.step or "-", lasts, task.metadata.name,
        output.one_line(one.message, MESSAGE_LIMIT) or "-",
    ]  # fmt: skip
