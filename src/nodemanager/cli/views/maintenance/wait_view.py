"""Why something waits, and what ends that, with the names that are meant filled in."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

from nodemanager.cli.views import output
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.reasons import remedy
from nodemanager.kube import times

BEGINS: Final = "Begins"
"""In place of a reason code: the operator begins with the host at its next look."""


class Why(NamedTuple):
    """One thing that a host waits for, or that happens to it."""

    code: str
    maintenance: str = ""
    run: str = ""
    object: str = ""
    since: datetime | None = None
    next_check: datetime | None = None
    remedy: str = ""
    message: str = ""
    """What is known beyond the code."""


def why(host: str, wait: HostWait, maintenance: str, run: str, message: str = "") -> Why:
    """Return why a host of a maintenance waits."""
    return Why(
        wait.reason.value, maintenance, run, wait.object, wait.since, wait.next_check,
        remedy(wait.reason, maintenance, host, wait.object), message,
    )  # fmt: skip


def add(report: output.Report, one: Why, now: datetime) -> None:
    """Add it to a report."""
    if one.maintenance:
        report.field("Maintenance", one.maintenance + (f", run {one.run}" if one.run else ""))
    report.field("Reason", one.code)
    if one.message:
        report.field("That is", one.message)
    if one.object:
        report.field("Object", one.object)
    if one.since is not None:
        report.field("Since", output.ago(times.rfc3339(one.since), now))
    if one.next_check is not None:
        report.field("Next check", output.ahead(times.rfc3339(one.next_check), now))
    else:
        report.field("Next check", "when something changes")
    if one.remedy:
        report.field("What to do", one.remedy)


def plain(one: Why) -> dict[str, Any]:
    """Return it for programs."""
    return {
        "reason": one.code,
        "maintenance": one.maintenance,
        "run": one.run,
        "object": one.object,
        "since": times.rfc3339(one.since) if one.since is not None else None,
        "nextCheck": times.rfc3339(one.next_check) if one.next_check is not None else None,
        "message": one.message,
        "remedy": one.remedy,
    }
