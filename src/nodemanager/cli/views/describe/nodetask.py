"""A NodeTask in words: what a host shall do, how far it is, and why it ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from nodemanager.api.maintenance.nodetask import NodeTask, TaskReason, TaskStepStatus
from nodemanager.api.maintenance.task_steps import STOP, TaskStep, field_name
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import MESSAGE_LIMIT
from nodemanager.kube import core

OUTPUT_LINES: Final = 20
"""Lines of what a step said that are shown; the status has more."""
FACTS: Final = 20


def render(task: NodeTask, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a task."""
    report = output.Report()
    spec, status = task.spec, task.status
    describing.add_head(report, task.metadata, now)
    report.field("Node", spec.node_name)
    report.field("Phase", status.phase or "not taken yet")
    if status.message:
        report.field("Why", output.one_line(status.message, MESSAGE_LIMIT))
    report.field("Wanted by", _wanted_by(spec.reason))
    if spec.not_before:
        report.field("Not before", output.ahead(spec.not_before, now))
    report.field("Deadline", output.ahead(spec.deadline, now))
    if status.claim is not None:
        report.field("Taken", output.ago(status.claim.time, now))
    if status.finished_at:
        report.field("Ended", output.ago(status.finished_at, now))
    describing.add_conditions(report, status.conditions, task.metadata.generation, now)
    known = {one.name: one for one in status.steps}
    report.table(
        "Steps",
        ["NAME", "WHAT", "IF IT FAILS", "PHASE", "TRIES", "EXIT CODE", "MESSAGE"],
        [_step(step, known.get(step.name, TaskStepStatus())) for step in spec.steps],
    )
    said = [
        [one.name, output.one_line(line, MESSAGE_LIMIT)]
        for one in status.steps
        for line in one.output.splitlines()[-OUTPUT_LINES:]
    ]
    if said:
        report.table("Output", ["STEP", "SAID"], said)
    proofs = [
        [one.name, output.one_line(name), output.one_line(fact)]
        for one in status.steps
        for name, fact in sorted(one.evidence.items())[:FACTS]
    ]
    if proofs:
        report.table("Evidence", ["STEP", "FACT", "VALUE"], proofs)
    describing.add_events(report, events, now)
    return report.text()


def _wanted_by(reason: TaskReason | None) -> str:
    return f"{reason.kind} {reason.name}".strip() if reason else output.UNKNOWN


def _step(step: TaskStep, known: TaskStepStatus) -> list[str]:
    return [
        step.name,
        field_name(step.action) or output.UNKNOWN,
        step.on_failure or STOP,
        known.phase or "Pending",
        str(known.attempts),
        "-" if known.exit_code is None else str(known.exit_code),
        output.one_line(known.message, MESSAGE_LIMIT),
    ]
