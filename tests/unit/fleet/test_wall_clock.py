"""What a clock on the wall shows on the two nights on which somebody turns it, as moments."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest

from nodemanager.fleet.windows import wall_clock
from nodemanager.fleet.windows.wall_clock import ClockReading

PARIS, HOWE, APIA = "Europe/Paris", "Australia/Lord_Howe", "Pacific/Apia"
SPRING, AUTUMN, DAY = date(2026, 3, 29), date(2026, 10, 25), date(2026, 6, 1)


@pytest.mark.parametrize(
    ("zone", "day", "at", "shown", "first", "last"),
    [
        (PARIS, DAY, "02:30", "once", "2026-06-01T00:30:00Z", "2026-06-01T00:30:00Z"),
        (PARIS, SPRING, "01:59:59", "once", "2026-03-29T00:59:59Z", "2026-03-29T00:59:59Z"),
        (PARIS, SPRING, "02:00", "never", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        (PARIS, SPRING, "02:00:01", "never", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        (PARIS, SPRING, "02:30", "never", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        (PARIS, SPRING, "02:59:59", "never", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        (PARIS, SPRING, "03:00", "once", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"),
        (PARIS, AUTUMN, "01:59:59", "once", "2026-10-24T23:59:59Z", "2026-10-24T23:59:59Z"),
        (PARIS, AUTUMN, "02:00", "twice", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"),
        (PARIS, AUTUMN, "02:30", "twice", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        (PARIS, AUTUMN, "03:00", "once", "2026-10-25T02:00:00Z", "2026-10-25T02:00:00Z"),
        # Half an hour is left out, and comes twice.
        (HOWE, date(2026, 10, 4), "02:15", "never", "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z"),
        (HOWE, date(2026, 4, 5), "01:45", "twice", "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"),
        # A whole day was left out.
        (APIA, date(2011, 12, 30), "12:00", "never", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"),
    ],
)  # fmt: skip
def test_when_a_clock_shows_a_time(zone: str, day: date, at: str, shown: str, first: str, last: str) -> None:
    where, clock = wall_clock.zone(zone), time.fromisoformat(at)
    assert wall_clock.shown(datetime.combine(day, clock, where)) is ClockReading(shown)
    found = [wall_clock.moment(day, clock, where, last=one) for one in (False, True)]
    assert found == [datetime.fromisoformat(first), datetime.fromisoformat(last)]
    assert all(one.tzinfo is UTC for one in found)
    assert wall_clock.moment(day, clock, where) == found[0]


def test_a_time_with_a_fraction_that_is_left_out_is_that_of_the_change_to_the_second() -> None:
    paris, change = wall_clock.zone(PARIS), datetime(2026, 3, 29, 1, tzinfo=UTC)
    for at in (time(2, 0, 0, 100_000), time(2, 30, 0, 900_000), time(2, 59, 59, 100_000)):
        assert abs(wall_clock.moment(SPRING, at, paris) - change) < timedelta(seconds=1)


def test_a_zone_is_read_once() -> None:
    assert wall_clock.zone(PARIS) is wall_clock.zone(PARIS)
