"""When one schedule of a window opens, and how changes of the clock affect that."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from nodemanager.api import schedules
from nodemanager.api.maintenance.windows import WindowSchedule
from nodemanager.fleet.windows import wall_clock
from nodemanager.fleet.windows.spans import Span
from nodemanager.fleet.windows.wall_clock import ClockReading
from nodemanager.kube.go import durations

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY: Final = timedelta(days=1)


def weekdays(names: list[str]) -> frozenset[int]:
    """Return days of the week as Python counts them; all days if none is named."""
    return frozenset(DAYS.index(name[:3].lower()) for name in names) or frozenset(range(7))


def openings(schedule: WindowSchedule, default_zone: str, begin: datetime) -> Iterator[Span]:
    """Yield when a schedule is open, in order, from the first opening that ends after a moment.

    Raises ValueError for what cannot be read; it names field and value.
    """
    zone = wall_clock.zone(schedule.time_zone or default_zone or "UTC")
    lasts = timedelta(seconds=durations.parse(schedule.duration))
    starts = (
        _cron(schedule.cron, begin - lasts, zone) if schedule.cron else _days(schedule, begin - lasts, zone)
    )
    for start in starts:
        if start + lasts > begin:
            yield Span(start, start + lasts)


def _cron(text: str, begin: datetime, zone: tzinfo) -> Iterator[datetime]:
    schedule = schedules.parse(text)
    while (slot := schedule.first(begin, zone)) is not None:
        yield slot
        begin = slot + timedelta(seconds=1)


def _days(schedule: WindowSchedule, begin: datetime, zone: tzinfo) -> Iterator[datetime]:
    chosen, at = weekdays(schedule.weekdays), time.fromisoformat(schedule.start)
    day = begin.astimezone(zone).date() - _DAY
    while day < date.max - _DAY:
        if day.weekday() in chosen:
            yield wall_clock.moment(day, at, zone)
        day += _DAY


def remark(schedule: WindowSchedule, span: Span, default_zone: str) -> str:
    """Return what a change of the clock does to an opening; empty = nothing."""
    zone = wall_clock.zone(schedule.time_zone or default_zone or "UTC")
    opens, closes = span.start.astimezone(zone), span.end.astimezone(zone)
    said = []
    at = time.fromisoformat(schedule.start or "00:00")
    if schedule.start and wall_clock.moment(opens.date(), at, zone) == span.start:
        match wall_clock.shown(datetime.combine(opens.date(), at, zone)):
            case ClockReading.NEVER:
                said.append(f"{schedule.start} is left out on this day: it opens at {opens:%H:%M}")
            case ClockReading.TWICE:
                said.append(f"{schedule.start} comes twice on this day: it opens at the first")
            case ClockReading.ONCE:
                pass  # as on every other day
    if opens.utcoffset() != closes.utcoffset():
        said.append(f"the clock is turned meanwhile: it closes at {closes:%H:%M}")
    return "; ".join(said)


def in_utc(text: str) -> datetime:
    """Return a moment of a manifest."""
    return datetime.fromisoformat(text).astimezone(UTC)
