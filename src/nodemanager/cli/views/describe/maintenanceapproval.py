"""A MaintenanceApproval in words: who says yes to what. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.cli.views import describing, output
from nodemanager.kube import core


def render(approval: MaintenanceApproval, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of an approval."""
    report = output.Report()
    spec = approval.spec
    describing.add_head(report, approval.metadata, now)
    report.field(*(("Maintenance", spec.maintenance) if spec.maintenance else ("ConfigSet", spec.config_set)))
    report.field("Plan", spec.plan_hash)
    report.field("Approver", spec.approver)
    if spec.comment:
        report.field("Comment", output.one_line(spec.comment, describing.MESSAGE_LIMIT))
    describing.add_events(report, events, now)
    return report.text()
