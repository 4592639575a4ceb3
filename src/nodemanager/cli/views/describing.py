"""What the descriptions of all kinds share. Pure: typed objects and a time in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from nodemanager.cli.views import output
from nodemanager.kube import core
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

MESSAGE_LIMIT: Final = 400
"""Longest message in a cell; whole ones are in `get -o yaml`."""
ROWS_LIMIT: Final = 50
"""Most rows of a list that people write, which may be thousands."""


def add_head(report: output.Report, meta: ObjectMeta, now: datetime) -> None:
    """Add the identity of an object."""
    report.field("Name", meta.name)
    report.field("Namespace", meta.namespace)
    report.field("Labels", *(f"{name}={value}" for name, value in sorted(meta.labels.items())))
    report.field("Created", output.ago(meta.creation_timestamp, now))
    if meta.deletion_timestamp:
        held = f", held by {', '.join(meta.finalizers)}" if meta.finalizers else ""
        report.field("Being deleted", f"since {output.ago(meta.deletion_timestamp, now)}{held}")


def add_conditions(
    report: output.Report, conditions: Sequence[Condition], generation: int, now: datetime
) -> None:
    """Say how an object is, and mark what was judged before its last change."""
    rows = [
        [
            condition.type,
            condition.status + (" (outdated)" if 0 < condition.observed_generation < generation else ""),
            condition.reason,
            output.age(condition.last_transition_time, now),
            output.one_line(condition.message, MESSAGE_LIMIT),
        ]
        for condition in conditions
    ]
    report.table("Conditions", ["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], rows)


def add_events(report: output.Report, events: Sequence[core.Event], now: datetime) -> None:
    """Say what happened to an object, the latest last."""
    rows = [
        [
            event.type,
            event.reason,
            _when(event, now),
            _who(event),
            output.one_line(event.message, MESSAGE_LIMIT),
        ]
        for event in sorted(events, key=_last)
    ]
    report.table("Events", ["TYPE", "REASON", "AGE", "FROM", "MESSAGE"], rows)


def _last(event: core.Event) -> str:
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or ""


def _who(event: core.Event) -> str:
    """Return the reporter: the program, and its host."""
    said = (
        event.source.component or event.reporting_component,
        event.source.host or event.reporting_instance,
    )
    return output.one_line(", ".join(filter(None, said)), MESSAGE_LIMIT)


def _when(event: core.Event, now: datetime) -> str:
    last = output.age(_last(event), now)
    if event.count < 2 or not event.first_timestamp:
        return last
    return f"{last} (x{event.count} over {output.age(event.first_timestamp, now)})"


def yes_no(value: bool) -> str:
    """Return a truth value as people say it."""
    return "yes" if value else "no"


def size(text: str) -> str:
    """Return how large a text is, without a word of what it says."""
    count = len(text.encode("utf-8", "surrogatepass"))
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB"
