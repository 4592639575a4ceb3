"""The parts of a window, one by one: spans, when a schedule opens, and what an exclusion takes away."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.windows import WindowExclusion, WindowSchedule, WindowSpec
from nodemanager.fleet.windows import calendar as calendar_module
from nodemanager.fleet.windows import exclusions, openings, spans
from nodemanager.fleet.windows.calendar import Calendar, Opened
from nodemanager.fleet.windows.exclusions import CalendarKey, NoCalendar
from nodemanager.fleet.windows.spans import Span

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


def hour(hours: float) -> datetime:
    """Return a moment, in hours of that week."""
    return MONDAY + timedelta(hours=hours)


def of(*hours: float) -> list[Span]:
    return [Span(hour(start), hour(end)) for start, end in zip(hours[::2], hours[1::2], strict=True)]


def hours(found: Any) -> list[float]:
    return [(moment - MONDAY) / timedelta(hours=1) for span in found for moment in span]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(of(1, 2, 3, 4), of(1, 2, 3, 4), id="apart"),
        pytest.param(of(3, 4, 1, 2), of(1, 2, 3, 4), id="out of order"),
        pytest.param(of(1, 2, 2, 3), of(1, 3), id="touching"),
        pytest.param(of(1, 3, 2, 4), of(1, 4), id="overlapping"),
        pytest.param(of(1, 4, 2, 3), of(1, 4), id="one in the other"),
        pytest.param(of(1, 1, 3, 2), [], id="of no length"),
    ],
)
def test_the_same_time_as_few_spans(given: list[Span], expected: list[Span]) -> None:
    assert spans.union(given) == expected


@pytest.mark.parametrize(
    ("removed", "left"),
    [
        pytest.param([], of(2, 6, 8, 10), id="nothing"),
        pytest.param(of(0, 2, 6, 8, 10, 12), of(2, 6, 8, 10), id="only what is beside it"),
        pytest.param(of(0, 1, 6.5, 7, 11, 12), of(2, 6, 8, 10), id="only what is far from it"),
        pytest.param(of(2, 3), of(3, 6, 8, 10), id="the beginning"),
        pytest.param(of(5, 6), of(2, 5, 8, 10), id="the end"),
        pytest.param(of(3, 4), of(2, 3, 4, 6, 8, 10), id="the middle"),
        pytest.param(of(3, 4, 4.5, 5), of(2, 3, 4, 4.5, 5, 6, 8, 10), id="two pieces of one"),
        pytest.param(of(2, 6), of(8, 10), id="exactly one"),
        pytest.param(of(5, 9), of(2, 5, 9, 10), id="parts of both"),
        pytest.param(of(0, 20), [], id="all"),
    ],
)
def test_what_is_left_without_other_spans(removed: list[Span], left: list[Span]) -> None:
    assert spans.without(of(2, 6, 8, 10), removed) == left


def test_the_part_that_lies_in_another_span() -> None:
    (limits,) = of(3, 9)
    assert spans.within(of(1, 2, 2, 3, 3, 4, 8, 10, 9, 11), limits) == of(3, 4, 8, 9)


def first(schedule: dict[str, Any], begin: float, zone: str = "", count: int = 2) -> list[float]:
    typed = msgspec.convert({"duration": "2h", **schedule}, WindowSchedule)
    return hours(itertools.islice(openings.openings(typed, zone, hour(begin)), count))


@pytest.mark.parametrize("when", [{"start": "06:00"}, {"cron": "0 6 * * *"}])
def test_the_first_opening_is_the_one_that_ends_after_a_moment(when: dict[str, Any]) -> None:
    assert first(when, 7.99) == [6, 8, 30, 32]
    assert first(when, 8) == [30, 32, 54, 56]
    long = {**when, "duration": "49h"}
    assert first(long, 0) == [-42, 7, -18, 31], "openings of the days before go on"


@pytest.mark.parametrize("when", [{"start": "06:00"}, {"cron": "0 6 * * *"}])
def test_the_zone_of_a_schedule_is_its_own_or_that_of_its_window(when: dict[str, Any]) -> None:
    assert first(when, 0, count=1) == [6, 8]
    assert first(when, 0, "Europe/Paris", count=1) == [5, 7]
    assert first({**when, "timeZone": "Asia/Tokyo"}, 0, "Europe/Paris", count=1) == [21, 23]


def test_days_of_the_week_by_any_of_their_names() -> None:
    assert openings.weekdays(["Mon", "sunday", "WED"]) == {0, 2, 6}
    assert openings.weekdays([]) == set(range(7))
    assert first({"start": "06:00", "weekdays": ["Tue"]}, 0) == [30, 32, 198, 200]


@pytest.mark.parametrize(
    ("schedule", "start", "end", "said"),
    [
        ({"start": "02:30"}, "2026-03-29T01:00", "2026-03-29T03:00",
         "02:30 is left out on this day: it opens at 03:00"),
        ({"start": "02:30"}, "2026-03-30T00:30", "2026-03-30T02:30", ""),
        ({"start": "01:00"}, "2026-03-29T01:00", "2026-03-29T03:00", ""),
        ({"cron": "0 1 * * *"}, "2026-03-29T00:00", "2026-03-29T02:00",
         "the clock is turned meanwhile: it closes at 04:00"),
    ],
)  # fmt: skip
def test_what_a_change_of_the_clock_does_is_said(
    schedule: dict[str, Any], start: str, end: str, said: str
) -> None:
    span = Span(*(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (start, end)))
    typed = msgspec.convert({"duration": "2h", **schedule}, WindowSchedule)
    assert openings.remark(typed, span, "Europe/Paris") == said
    own = msgspec.structs.replace(typed, time_zone="Europe/Paris")
    assert openings.remark(own, span, "Asia/Tokyo") == said
    assert openings.remark(typed, span, "") == ""


def test_nothing_is_said_of_an_opening_that_does_not_begin_with_its_schedule() -> None:
    """An exclusion may have cut off its beginning; and a schedule of cron has no start of its own."""
    late = Span(*(datetime(2026, 3, 29, hour, tzinfo=UTC) for hour in (3, 4)))
    assert openings.remark(WindowSchedule(start="02:30", duration="4h"), late, "Europe/Paris") == ""
    midnight = datetime(2026, 4, 23, 22, tzinfo=UTC)  # left out in Cairo
    cron = WindowSchedule(cron="0 0 * * *", duration="1h")
    assert openings.remark(cron, Span(midnight, midnight + timedelta(hours=1)), "Africa/Cairo") == ""
    start = WindowSchedule(start="00:00", duration="1h")
    said = openings.remark(start, Span(midnight, midnight + timedelta(hours=1)), "Africa/Cairo")
    assert said == "00:00 is left out on this day: it opens at 01:00"


def excluded(opened: list[Span], **fields: Any) -> list[float]:
    return hours(exclusions.excluded(msgspec.convert(fields, WindowExclusion), "", opened, {}))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"start": "06:00"}, [6, 24]),
        ({"end": "06:00"}, [0, 6]),
        ({"start": "06:00", "end": "07:00"}, [6, 7]),
        ({"start": "06:00", "end": "24:00"}, [6, 24]),
        ({"start": "22:00", "end": "02:00"}, [22, 26]),
        ({"start": "06:00", "end": "06:00"}, [6, 30]),
        ({"dates": ["2026-11-16"]}, [0, 24]),
        ({"dates": ["11-16"]}, [0, 24]),
        ({"dates": ["2027-11-16", "11-17"]}, []),
        ({"firstDate": "2026-11-16"}, [0, 24]),
        ({"firstDate": "2026-11-17"}, []),
        ({"lastDate": "2026-11-16"}, [0, 24]),
        ({"lastDate": "2026-11-15"}, []),
        ({"dates": ["11-16"], "weekdays": ["Tue"]}, []),
    ],
    ids=str,
)
def test_what_an_exclusion_takes_away_from_a_day(fields: dict[str, Any], expected: list[float]) -> None:
    found = excluded(of(12, 13), **{"weekdays": ["Mon"], **fields})
    assert found == expected


def test_every_day_is_looked_at_once_and_the_one_before_too() -> None:
    assert excluded(of(12, 13, 20, 30, 31, 32), start="00:00", end="01:00") == [-24, -23, 0, 1, 24, 25]
    assert excluded(of(12, 13, 100, 101), end="01:00") == [-24, -23, 0, 1, 72, 73, 96, 97]
    assert excluded(of(12, 24), end="01:00") == [-24, -23, 0, 1, 24, 25]


def test_days_are_those_of_the_zone_of_the_exclusion_or_of_its_window() -> None:
    exclusion = msgspec.convert({"weekdays": ["Mon"]}, WindowExclusion)
    assert hours(exclusions.excluded(exclusion, "Asia/Tokyo", of(0, 1), {})) == [-9, 15]
    own = msgspec.structs.replace(exclusion, time_zone="Europe/Paris")
    assert hours(exclusions.excluded(own, "Asia/Tokyo", of(0, 1), {})) == [-1, 23]


def test_an_exclusion_by_calendar_is_its_events_and_nothing_else() -> None:
    plain = msgspec.convert({"calendar": {"name": "days"}, "weekdays": ["Mon"]}, WindowExclusion)
    assert exclusions.calendar_of(WindowExclusion(), "Asia/Tokyo") is None
    assert exclusions.calendar_of(plain, "") == CalendarKey("days", "calendar.ics", "UTC")
    assert exclusions.calendar_of(plain, "Asia/Tokyo") == CalendarKey("days", "calendar.ics", "Asia/Tokyo")
    own = msgspec.convert(
        {"calendar": {"name": "d", "key": "k"}, "timeZone": "Europe/Paris"}, WindowExclusion
    )
    assert exclusions.calendar_of(own, "Asia/Tokyo") == CalendarKey("d", "k", "Europe/Paris")
    known = {CalendarKey("days", "calendar.ics", "UTC"): of(2, 3)}
    assert list(exclusions.excluded(plain, "", of(0, 1), known)) == of(2, 3)
    with pytest.raises(NoCalendar, match=r"ConfigMap days, key calendar.ics: it is no iCalendar"):
        list(exclusions.excluded(plain, "", of(0, 1), dict.fromkeys(known, "it is no iCalendar")))


def window(**fields: Any) -> Calendar:
    return Calendar(msgspec.convert(fields, WindowSpec))


SIX = [{"start": "06:00", "duration": "1h"}]


def test_a_window_is_open_from_its_start_to_before_its_end() -> None:
    one = window(schedules=SIX)
    six = Opened(hour(6), hour(7))
    assert [one.opened(hour(at)) for at in (5.99, 6, 6.99, 7)] == [None, six, six, None]
    assert [one.has_time(hour(at)) for at in (5.99, 6, 6.99, 7)] == [False, True, True, False]
    assert window(always=True).has_time(hour(0), timedelta(days=999))


PARIS, TOKYO, NONE = (
    WindowSchedule(start="06:00", time_zone=one) for one in ("Europe/Paris", "Asia/Tokyo", "")
)


@pytest.mark.parametrize(
    ("schedules", "zone", "shown"),
    [
        pytest.param([], "", "UTC", id="nobody says one"),
        pytest.param([], "Asia/Tokyo", "Asia/Tokyo", id="that of the window"),
        pytest.param([PARIS], "Asia/Tokyo", "Europe/Paris", id="that of its schedule"),
        pytest.param([NONE], "Asia/Tokyo", "Asia/Tokyo", id="its schedule says none"),
        pytest.param([PARIS, PARIS], "", "Europe/Paris", id="that of all of them"),
        pytest.param([PARIS, NONE], "Europe/Paris", "Europe/Paris", id="by different words"),
        pytest.param([PARIS, TOKYO], "Asia/Tokyo", "Asia/Tokyo", id="they do not agree"),
        pytest.param([PARIS, NONE], "", "UTC", id="nor say one"),
    ],
)
def test_people_are_told_in_one_zone(schedules: list[WindowSchedule], zone: str, shown: str) -> None:
    assert str(Calendar(WindowSpec(schedules=schedules, time_zone=zone)).zone()) == shown


def test_a_window_of_which_people_cannot_be_told_is_shut_also_if_it_is_always_open() -> None:
    wrong = Calendar(WindowSpec(always=True, time_zone="Europe/Pari"))
    with pytest.raises(ValueError, match='there is no time zone "Europe/Pari"'):
        wrong.opened(MONDAY)


def test_a_window_that_never_opens_is_not_open() -> None:
    assert Calendar(WindowSpec()).opened(MONDAY) is None


def test_as_many_openings_are_listed_as_are_asked_for() -> None:
    one = window(schedules=SIX)
    for count in (1, 2, 10, 60):
        found = one.following(hour(0), count)
        assert [opened.start for opened in found] == [hour(6 + 24 * day) for day in range(count)]
        assert all(opened.end == opened.start + timedelta(hours=1) for opened in found)


def test_an_opening_of_many_days_has_its_end_and_one_of_more_than_a_year_has_none() -> None:
    until = hour(24 * 30)
    one = window(always=True, validUntil=until.isoformat())
    assert one.following(hour(0), 2) == [Opened(hour(0), until)]
    later = window(always=True, validUntil=hour(24 * 3000).isoformat())
    assert later.following(hour(0), 2)[0].end is None
    soon = window(always=True, validFrom=hour(24 * 500).isoformat())
    assert soon.following(hour(0), 1)[0].start == hour(24 * 500)


def test_openings_are_years_apart_and_the_next_ones_are_found_all_the_same() -> None:
    leap = window(schedules=[{"cron": "0 4 29 2 *", "duration": "1h"}])
    found = leap.following(datetime(2027, 6, 1, tzinfo=UTC), 2)
    assert [one.start.year for one in found] == [2028, 2032]


def test_what_an_exclusion_has_just_ended_is_over() -> None:
    one = window(
        schedules=[{"start": "05:00", "duration": "2h"}], exclude=[{"start": "06:00", "end": "07:00"}]
    )
    assert one.following(hour(5.5), 1) == [Opened(hour(5), hour(6))]
    assert one.following(hour(6), 1) == [Opened(hour(29), hour(30))]
    assert one.opened(hour(6)) is None


@pytest.mark.parametrize("many", [4, 6, 8])
def test_a_window_of_many_openings_is_looked_at_in_rounds(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is listed does not depend on how much a round looks at: some openings reach into the next."""
    schedules = [{"cron": "0 * * * *", "duration": "1m"}, {"cron": "30 */2 * * *", "duration": "40m"}]
    wanted = window(schedules=schedules).following(hour(0.25), 9)
    assert [f"{one.start:%H:%M} {one.end:%H:%M}" for one in wanted[:3]] == [
        "00:30 01:10", "02:00 02:01", "02:30 03:10",
    ]  # fmt: skip
    monkeypatch.setattr(calendar_module, "MANY", many)
    for count in range(1, 10):
        assert window(schedules=schedules).following(hour(0.25), count) == wanted[:count]
    monkeypatch.setattr(calendar_module, "ROUNDS", 2)
    few = window(schedules=schedules).following(hour(0.25), 9)
    assert 0 < len(few) < 9
    assert [one.start for one in few] == [one.start for one in wanted[: len(few)]]


def test_the_remark_of_a_window_is_that_of_its_first_schedule_with_one() -> None:
    one = window(timeZone="Europe/Paris", schedules=[*SIX, {"start": "02:30", "duration": "2h"}])
    spring = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert one.remark(Opened(spring, spring + timedelta(hours=2))).startswith("02:30 is left out")
    assert one.remark(Opened(spring, None)) == ""
    assert one.remark(Opened(hour(6), hour(7))) == ""
