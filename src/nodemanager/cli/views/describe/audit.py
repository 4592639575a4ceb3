"""The audit log in words: which records a segment has, how far the log is, and whether it is sound. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.audit.auditcheckpoint import AuditCheckpoint
from nodemanager.api.audit.auditsegment import AuditSegment
from nodemanager.cli.views import describing, output
from nodemanager.kube import core


def segment(found: AuditSegment, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a segment."""
    report = output.Report()
    spec, status = found.spec, found.status
    describing.add_head(report, found.metadata, now)
    count = spec.lines.count("\n")
    report.field("Records", f"{spec.first} to {spec.first + count - 1}" if count else "none")
    report.field("Bytes", str(len(spec.lines.encode())))
    report.field("Sealed", spec.sealed.at if spec.sealed else "no: records are added to it")
    if spec.sealed is not None:
        report.field("Digest", spec.sealed.digest)
    exported = status.exported
    report.field("Exported", f"at {exported.at} to {output.one_line(exported.to, 200)}" if exported else "no")
    if status.expired:
        report.field("Expired", status.expired)
    describing.add_events(report, events, now)
    return report.text()


def checkpoint(found: AuditCheckpoint, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a checkpoint."""
    report = output.Report()
    spec, status = found.spec, found.status
    describing.add_head(report, found.metadata, now)
    report.field("Records", str(spec.size))
    report.field("Root", spec.root)
    for key in spec.keys:
        report.field("Key", output.one_line(key, 512))
    report.field("Segments", f"{status.segments}, with {status.bytes} bytes of records")
    report.field("Workflows", status.workflows or "not known")
    if (sent := status.webhook) is not None:
        told = f"; then it failed: {output.one_line(sent.failure, 512)}" if sent.failure else ""
        report.field("Webhook", f"{sent.delivered} records delivered{told}")
    describing.add_conditions(report, status.conditions, found.metadata.generation, now)
    describing.add_events(report, events, now)
    return report.text()
