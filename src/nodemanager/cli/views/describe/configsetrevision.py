"""A ConfigSetRevision in words: what a ConfigSet said, who wrote it and when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.cli.views import describing, output
from nodemanager.kube import core


def render(revision: ConfigSetRevision, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a revision."""
    report = output.Report()
    spec = revision.spec
    describing.add_head(report, revision.metadata, now)
    report.field("ConfigSet", spec.config_set)
    report.field("Revision", str(spec.revision))
    report.field("Generation", str(spec.generation))
    report.field("Digest", spec.digest)
    if spec.changed_by is not None:
        report.field("Changed by", f"{spec.changed_by} at {spec.changed_by.time or 'an unknown time'}")
    if spec.change:
        report.field("Change", output.one_line(spec.change, describing.MESSAGE_LIMIT))
    said = ", ".join(sorted(spec.content)) or "nothing"
    report.field(
        "Declares", f"{said} (nodemanager rollout history {spec.config_set} --revision {spec.revision})"
    )
    describing.add_events(report, events, now)
    return report.text()
