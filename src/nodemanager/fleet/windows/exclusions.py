"""When an exclusion closes a window: on days and times of a zone, or during the events of a calendar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time, timedelta, tzinfo
from typing import Final, NamedTuple

from nodemanager.api.maintenance.windows import WindowExclusion
from nodemanager.fleet.windows import wall_clock
from nodemanager.fleet.windows.openings import weekdays
from nodemanager.fleet.windows.spans import Span

KEY: Final = "calendar.ics"
_DAY: Final = timedelta(days=1)


class CalendarKey(NamedTuple):
    """Which calendar, and the time zone of its days."""

    name: str
    key: str
    zone: str


Calendars = Mapping[CalendarKey, Sequence[Span] | str]
"""The events of the known calendars, or why one cannot be read."""


class NoCalendar(ValueError):
    """A calendar is not there, or cannot be read."""


def calendar_of(exclusion: WindowExclusion, default_zone: str) -> CalendarKey | None:
    """Return the calendar that an exclusion names, if it names one."""
    if exclusion.calendar is None:
        return None
    zone = exclusion.time_zone or default_zone or "UTC"
    return CalendarKey(exclusion.calendar.name, exclusion.calendar.key or KEY, zone)


def excluded(
    exclusion: WindowExclusion, default_zone: str, opened: Sequence[Span], calendars: Calendars
) -> Iterator[Span]:
    """Yield the time that an exclusion takes away; raise ValueError for values that cannot be read."""
    zone = wall_clock.zone(exclusion.time_zone or default_zone or "UTC")
    where = calendar_of(exclusion, default_zone)
    if where is not None:
        yield from _events(where, calendars)
        return
    for day in _days(opened, zone):
        if _is_meant(exclusion, day):
            yield _hours(exclusion, day, zone)


def _days(opened: Sequence[Span], zone: tzinfo) -> Iterator[date]:
    """Yield every day that openings touch, and the day before, which may reach into it; each once."""
    done = date.min
    for start, end in opened:
        day, last = max(start.astimezone(zone).date() - _DAY, done), end.astimezone(zone).date()
        while day <= last:
            yield day
            day += _DAY
        done = max(done, day)


def _events(where: CalendarKey, calendars: Calendars) -> Sequence[Span]:
    found = calendars.get(where, "it does not exist: create it, or correct exclude[].calendar")
    if isinstance(found, str):
        raise NoCalendar(f"cannot read the calendar in ConfigMap {where.name}, key {where.key}: {found}")
    return found


def _is_meant(exclusion: WindowExclusion, day: date) -> bool:
    whole = day.isoformat()
    return (
        day.weekday() in weekdays(exclusion.weekdays)
        and (not exclusion.dates or whole in exclusion.dates or whole[5:] in exclusion.dates)
        and (not exclusion.first_date or exclusion.first_date <= whole)
        and (not exclusion.last_date or whole <= exclusion.last_date)
    )


def _hours(exclusion: WindowExclusion, day: date, zone: tzinfo) -> Span:
    """Return the excluded hours of a day; on days with a clock change, rather too much."""
    start, end = exclusion.start or "00:00", exclusion.end or "24:00"
    end_day = day + _DAY if end == "24:00" or end <= start else day
    end_time = time() if end == "24:00" else time.fromisoformat(end)
    return Span(
        wall_clock.moment(day, time.fromisoformat(start), zone),
        wall_clock.moment(end_day, end_time, zone, last=True),
    )
