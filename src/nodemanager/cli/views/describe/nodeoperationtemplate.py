"""A NodeOperationTemplate in words: what it does, and what may be filled in. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.maintenance import realtime_set
from nodemanager.api.maintenance.nodeoperationtemplate import NodeOperationTemplate, Parameter
from nodemanager.api.maintenance.task_steps import STOP, OperationStep, field_name
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import ROWS_LIMIT
from nodemanager.kube import core


def render(template: NodeOperationTemplate, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a template."""
    report = output.Report()
    spec = template.spec
    describing.add_head(report, template.metadata, now)
    report.field("Does", output.one_line(spec.description) or "-")
    report.field("Type", spec.type or "any")
    if spec.version:
        report.field("Version", spec.version)
    report.table(
        "Parameters",
        ["NAME", "TYPE", "DEFAULT", "DESCRIPTION"],
        [_parameter(one) for one in spec.parameters],
        ROWS_LIMIT,
    )
    if spec.config_set is not None:
        counts = [[kind, str(len(getattr(spec.config_set, kind)))] for kind in realtime_set.LISTS]
        report.table("Declares", ["WHAT", "HOW MANY"], counts)
    else:
        report.table("Steps", ["NAME", "DOES", "TIMEOUT", "ON FAILURE"], [_step(one) for one in spec.steps])
    describing.add_events(report, events, now)
    return report.text()


def _parameter(parameter: Parameter) -> list[str]:
    default = "required" if parameter.required else parameter.default or "-"
    return [parameter.name, parameter.type or "string", default, output.one_line(parameter.description, 60)]


def _step(step: OperationStep) -> list[str]:
    action = field_name(step.action) or "nothing"
    return [step.name, action, step.timeout or "10m", step.on_failure or STOP]
