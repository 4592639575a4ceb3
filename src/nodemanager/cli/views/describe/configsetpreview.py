"""A ConfigSetPreview in words: what is proposed, and how far hosts are asked about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.common.configsetpreview import ConfigSetPreview
from nodemanager.cli.views import describing, output
from nodemanager.kube import core
from nodemanager.kube.wording import listed, plural

NAMES = 10


def render(preview: ConfigSetPreview, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a preview."""
    report = output.Report()
    spec, status = preview.spec, preview.status
    describing.add_head(report, preview.metadata, now)
    report.field("ConfigSets", listed([one.name for one in spec.sets], NAMES) or "none")
    if spec.removed:
        report.field("Removed", listed(spec.removed, NAMES))
    report.field("Digest", spec.digest)
    report.field("Hosts", listed(spec.hosts, NAMES))
    report.field("Phase", status.phase or "no operator has seen it")
    report.field("Asked", f"{plural(status.asked, 'host')}, whose NodeTasks have the answers")
    for one in status.unasked[:NAMES]:
        said = f"{one.name}: {one.reason}{f': {one.message}' if one.message else ''}"
        report.field("Not asked", output.one_line(said, describing.MESSAGE_LIMIT))
    describing.add_conditions(report, status.conditions, preview.metadata.generation, now)
    describing.add_events(report, events, now)
    return report.text()
