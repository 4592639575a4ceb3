"""The status of a window, from its spec, its calendars and the time. Pure."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from nodemanager.api.maintenance.maintenancewindow import (
    VALID,
    MaintenanceWindow,
    MaintenanceWindowStatus,
    Opening,
)
from nodemanager.fleet.windows.calendar import Calendar, Opened
from nodemanager.fleet.windows.exclusions import Calendars
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition

SHOWN: Final = 5
"""How many openings are listed."""
READ: Final = "Read"
UNREADABLE: Final = "Unreadable"


def judge(window: MaintenanceWindow, calendars: Calendars, now: datetime) -> MaintenanceWindowStatus:
    """Return the status of a window at a moment. An unreadable one is shut, with the reason."""
    generation = window.metadata.generation
    try:
        calendar = Calendar(window.spec, calendars)
        found = calendar.following(now, SHOWN)
        listed = [_shown(calendar, one) for one in found]
    except ValueError as error:
        found, listed = [], []
        said = Condition(
            type=VALID, status=conditions.FALSE, reason=UNREADABLE, observed_generation=generation,
            message=f"{error}; until then the window is shut",
        )  # fmt: skip
    else:
        said = Condition(
            type=VALID, status=conditions.TRUE, reason=READ, observed_generation=generation,
            message="" if found else "no opening is in sight",
        )  # fmt: skip
    opened = next((one for one in found if one.start <= now), None)
    later = next((one for one in found if one.start > now), None)
    return MaintenanceWindowStatus(
        observed_generation=generation,
        open=opened is not None,
        closes_at=times.rfc3339(opened.end) if opened and opened.end else None,
        opens_at=times.rfc3339(later.start) if later else None,
        next=listed,
        conditions=conditions.set_condition(window.status.conditions, said, times.rfc3339(now)),
    )


def _shown(calendar: Calendar, opened: Opened) -> Opening:
    return Opening(
        start=times.rfc3339(opened.start),
        end=times.rfc3339(opened.end) if opened.end else None,
        local=_local(opened, calendar.zone()),
        remark=calendar.remark(opened),
    )


def _local(opened: Opened, zone: tzinfo) -> str:
    start = opened.start.astimezone(zone)
    if opened.end is None:
        return f"{start:%a %Y-%m-%d %H:%M %Z} and on"
    end = opened.end.astimezone(zone)
    same_day = start.date() == end.date()
    return f"{start:%a %Y-%m-%d %H:%M} to {end:{'%H:%M %Z' if same_day else '%a %Y-%m-%d %H:%M %Z'}}"
