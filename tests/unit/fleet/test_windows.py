"""When windows are open: cases of all clock changes, and what must hold for any window at any moment."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.maintenance.windows import CalendarReference, WindowExclusion, WindowSchedule, WindowSpec
from nodemanager.fleet.windows import holidays, wall_clock
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.fleet.windows.exclusions import CalendarKey
from nodemanager.fleet.windows.spans import Span

CASES = yaml.load(
    (Path(__file__).parents[2] / "cases/windows/openings.yaml").read_text(), Loader=yaml.BaseLoader
)  # moments stay texts
ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo"]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def named(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", [case for case in CASES if "trap" not in case], ids=named)
def test_openings(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", [case for case in CASES if case.get("trap") == "8"], ids=named)
def test_trap_8_an_opening_belongs_to_the_day_on_which_it_begins_and_clock_changes_are_no_surprise(
    case: dict[str, Any],
) -> None:
    check(case)


def check(case: dict[str, Any]) -> None:
    spec = msgspec.convert(case["spec"], WindowSpec, strict=False)
    calendar = Calendar(spec)
    found = calendar.following(at(case["now"]), len(case["openings"]) or 3)
    assert [
        " ".join(f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (one.start, one.end) if moment) for one in found
    ] == case["openings"]
    if "remarks" in case:
        assert [calendar.remark(one) for one in found] == case["remarks"]


schedules = st.builds(
    WindowSchedule,
    weekdays=st.lists(st.sampled_from(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]), unique=True),
    start=st.times().map(lambda time: f"{time:%H:%M}"),
    duration=st.sampled_from(["1m", "45m", "3h", "25h", "168h"]),
    time_zone=st.sampled_from(ZONES),
)
exclusions = st.builds(
    WindowExclusion,
    weekdays=st.lists(st.sampled_from(["Mon", "Fri", "Sun"]), unique=True, min_size=1),
    start=st.sampled_from(["", "02:00", "11:00"]),
    end=st.sampled_from(["", "03:00", "14:00", "24:00"]),
    time_zone=st.sampled_from(ZONES),
)
windows = st.builds(
    WindowSpec,
    schedules=st.lists(schedules, min_size=1, max_size=3),
    exclude=st.lists(exclusions, max_size=2),
)
moments = st.integers(1_322_697_600, 1_893_456_000).map(lambda second: datetime.fromtimestamp(second, UTC))


@given(windows, moments)
def test_what_is_listed_is_what_is_open(spec: WindowSpec, now: datetime) -> None:
    """The list of openings and the question whether it is open at a moment never differ."""
    calendar = Calendar(spec)
    listed = calendar.following(now, 4)
    for before, after in itertools.pairwise(listed):
        assert before.end is not None
        assert before.start < before.end < after.start
        middle = before.end + (after.start - before.end) / 2
        assert calendar.opened(middle) is None
    for one in listed:
        inside = max(one.start, now)
        assert calendar.opened(inside) is not None
        if one.end is not None:
            assert calendar.opened(one.end) is None
            assert calendar.opened(one.end - timedelta(seconds=1)) is not None
    if listed and listed[0].start > now:
        assert calendar.opened(now) is None


@given(schedules, moments)
def test_an_opening_lasts_as_long_as_it_says(schedule: WindowSchedule, now: datetime) -> None:
    lasts = {"1m": 1, "45m": 45, "3h": 180}.get(schedule.duration)
    if lasts is None:
        return  # those may touch the next one
    for one in Calendar(WindowSpec(schedules=[schedule])).following(now, 3):
        assert one.end is not None
        assert one.end - one.start >= timedelta(minutes=lasts)


@given(windows, moments, st.integers(0, 200))
def test_nothing_is_started_that_does_not_fit(spec: WindowSpec, now: datetime, minutes: int) -> None:
    calendar, needed = Calendar(spec), timedelta(minutes=minutes)
    opened = calendar.opened(now)
    fits = opened is not None and (opened.end is None or now + needed <= opened.end)
    assert calendar.has_time(now, needed) == fits


def test_time_that_must_be_left() -> None:
    spec = WindowSpec(schedules=[WindowSchedule(start="06:00", duration="1h")], minimum_time_left="20m")
    calendar = Calendar(spec)
    assert calendar.has_time(at("2026-11-16T06:40:00Z"))
    assert not calendar.has_time(at("2026-11-16T06:40:01Z"))
    assert not calendar.has_time(at("2026-11-16T06:30:00Z"), timedelta(minutes=31))


@pytest.mark.parametrize("zone", ["Europe/Pari", "../../etc/passwd", "", "/etc/localtime", "a\0b"])
def test_a_zone_that_does_not_exist_is_named(zone: str) -> None:
    with pytest.raises(wall_clock.UnknownZone, match="there is no time zone"):
        wall_clock.zone(zone)


CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//y//EN
BEGIN:VEVENT
UID:1
SUMMARY:Christmas
DTSTART;VALUE=DATE:20201225
DTEND;VALUE=DATE:20201227
RRULE:FREQ=YEARLY
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:freeze
DTSTART;TZID=Europe/Berlin:20261130T180000
DTEND;TZID=Europe/Berlin:20261201T060000
END:VEVENT
END:VCALENDAR
"""
LIMITS = Span(at("2026-11-01T00:00:00Z"), at("2027-12-31T00:00:00Z"))


def test_events_of_a_calendar() -> None:
    """Days are those of the window's zone; times have their own."""
    found = holidays.events(CALENDAR, LIMITS, wall_clock.zone("Europe/Paris"))
    assert [" ".join(f"{moment:%Y-%m-%dT%H:%MZ}" for moment in span) for span in found] == [
        "2026-11-30T17:00Z 2026-12-01T05:00Z",
        "2026-12-24T23:00Z 2026-12-26T23:00Z",
        "2027-12-24T23:00Z 2027-12-26T23:00Z",
    ]


def test_a_holiday_shuts_the_window() -> None:
    exclusion = WindowExclusion(calendar=CalendarReference(name="holidays"))
    spec = WindowSpec(
        schedules=[WindowSchedule(start="10:00", duration="1h")],
        exclude=[exclusion],
        time_zone="Europe/Paris",
    )
    known = {
        CalendarKey("holidays", "calendar.ics", "Europe/Paris"): holidays.events(
            CALENDAR, LIMITS, wall_clock.zone("Europe/Paris")
        )
    }
    days = [one.start.day for one in Calendar(spec, known).following(at("2026-12-24T00:00:00Z"), 2)]
    assert days == [24, 27]


def test_without_its_calendar_a_window_is_not_guessed() -> None:
    exclusion = WindowExclusion(calendar=CalendarReference(name="holidays"))
    spec = WindowSpec(always=True, exclude=[exclusion])
    with pytest.raises(ValueError, match=r"ConfigMap holidays, key calendar\.ics: it does not exist"):
        Calendar(spec).opened(at("2026-12-24T00:00:00Z"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no calendar", "no iCalendar"),
        (CALENDAR.replace("YEARLY", "SECONDLY"), "recurs SECONDLY"),
        (CALENDAR.replace("YEARLY", "DAILY;BYHOUR=0,1,2;BYMINUTE=0,1"), "DAILY with BYHOUR with BYMINUTE"),
        (CALENDAR.replace("YEARLY", "DAILY;BYMONTH=2;BYMONTHDAY=30"), "DAILY with BYMONTH"),
        (CALENDAR.replace("YEARLY", "YEARLY;COUNT=2;BYMONTH=2;BYMONTHDAY=30"), "which is not read"),
        (CALENDAR.replace("20201225", "19201225").replace("20201227", "19201227"), "before 1990"),
        (
            CALENDAR.replace("UID:2\n", "UID:2\n" + "RDATE:20261130T180000Z\n" * holidays.MAX_EVENTS),
            "2002 events",
        ),
        (CALENDAR.replace("20261130T180000", "soon"), "no iCalendar"),
        (
            "BEGIN:VCALENDAR\n"
            + "BEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:20201225\nEND:VEVENT\n" * (holidays.MAX_EVENTS + 1)
            + "END:VCALENDAR\n",
            "2001 events",
        ),
    ],
    ids=["text", "often", "hours", "days", "count", "old", "dates", "date", "many"],
)
def test_calendars_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(holidays.BadCalendar, match=why):
        holidays.events(text, LIMITS, UTC)


def test_what_is_wrong_is_told_without_what_is_in_it() -> None:
    with pytest.raises(holidays.BadCalendar) as refused:
        holidays.events("password=hunter2\x1b[2J", LIMITS, UTC)
    assert "hunter2" not in str(refused.value)


def test_a_day_that_never_comes_is_not_looked_for_for_ever() -> None:
    text = CALENDAR.replace("YEARLY", "YEARLY;BYMONTH=2;BYMONTHDAY=30")
    assert len(holidays.events(text, LIMITS, UTC)) == 1
    until = CALENDAR.replace("YEARLY", "YEARLY;UNTIL=20261226")
    assert len(holidays.events(until, LIMITS, UTC)) == 2


def test_many_openings_and_exclusions_are_judged_quickly() -> None:
    """What the schema allows at most; counted in days, not in openings."""
    spec = WindowSpec(
        schedules=[WindowSchedule(cron=f"{minute}-59/2 * * * *", duration="1s") for minute in range(16)],
        exclude=[WindowExclusion(weekdays=["Mon"], start=f"{hour:02}:00") for hour in range(24)],
    )
    began = time.process_time()
    assert Calendar(spec).following(at("2026-11-16T12:00:00Z"), 5)
    assert time.process_time() - began < 5
