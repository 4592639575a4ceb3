"""A MaintenanceWindow in words: whether it is open, when it opens, and what is excluded. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.maintenance.maintenancewindow import MaintenanceWindow, MaintenanceWindowStatus
from nodemanager.api.maintenance.windows import FINISH_HOST, WindowExclusion, WindowSchedule, WindowSpec
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import ROWS_LIMIT
from nodemanager.kube import core


def render(window: MaintenanceWindow, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a window."""
    report = output.Report()
    spec, status = window.spec, window.status
    describing.add_head(report, window.metadata, now)
    report.field("Open", _open(status))
    if status.opens_at:
        report.field("Opens next", status.opens_at)
    report.field("When it closes", spec.on_close or FINISH_HOST)
    if spec.minimum_time_left:
        report.field("Time that must be left", spec.minimum_time_left)
    describing.add_conditions(report, status.conditions, window.metadata.generation, now)
    opened = [["always", "", spec.time_zone or "UTC"]] if spec.always else []
    opened += [_schedule(one, spec) for one in spec.schedules]
    report.table("Opens", ["WHEN", "FOR", "TIME ZONE"], opened, ROWS_LIMIT)
    report.table(
        "Shut", ["WHEN", "WHY", "TIME ZONE"], [_exclusion(one, spec) for one in spec.exclude], ROWS_LIMIT
    )
    report.table("Next openings", ["LOCAL TIME", "REMARK"], [[one.local, one.remark] for one in status.next])
    describing.add_events(report, events, now)
    return report.text()


def _open(status: MaintenanceWindowStatus) -> str:
    if not status.observed_generation:
        return "not judged yet"
    if not status.open:
        return "no"
    return f"yes, until {status.closes_at}" if status.closes_at else "yes, with no end in sight"


def _schedule(schedule: WindowSchedule, spec: WindowSpec) -> list[str]:
    days = ", ".join(schedule.weekdays) or "every day"
    when = f"cron {schedule.cron}" if schedule.cron else f"{days} at {schedule.start}"
    return [when, schedule.duration, schedule.time_zone or spec.time_zone or "UTC"]


def _exclusion(exclusion: WindowExclusion, spec: WindowSpec) -> list[str]:
    zone = exclusion.time_zone or spec.time_zone or "UTC"
    if exclusion.calendar is not None:
        return [f"events of ConfigMap {exclusion.calendar.name}", exclusion.name, zone]
    parts = [", ".join(exclusion.weekdays), ", ".join(exclusion.dates)]
    if exclusion.first_date or exclusion.last_date:
        parts.append(f"{exclusion.first_date or '...'} to {exclusion.last_date or '...'}")
    if exclusion.start or exclusion.end:
        parts.append(f"{exclusion.start or '00:00'} to {exclusion.end or '24:00'}")
    return [output.one_line("; ".join(part for part in parts if part), 60), exclusion.name, zone]
