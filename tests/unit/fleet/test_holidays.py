"""Which rules of a calendar are read, how far, and what clock its times are of."""

from __future__ import annotations

import time
from datetime import UTC, datetime, tzinfo

import pytest
from icalendar import Calendar

from nodemanager.fleet.windows import holidays, wall_clock
from nodemanager.fleet.windows.spans import Span

LIFETIME = Span(datetime(2024, 1, 1, tzinfo=UTC), datetime(2124, 1, 1, tzinfo=UTC))
LIMITS = Span(datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC))
PARIS = wall_clock.zone("Europe/Paris")


def event(*lines: str, start: str = ";VALUE=DATE:20260302", number: int = 1) -> str:
    said = ["BEGIN:VEVENT", f"UID:{number}", f"DTSTART{start}", *lines, "END:VEVENT"]
    return "".join(f"{line}\n" for line in said)


def calendar(*events: str) -> str:
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//x//y//EN\n{''.join(events)}END:VCALENDAR\n"


def days(text: str, limits: Span = LIMITS) -> list[str]:
    return [f"{span.start:%Y-%m-%d}" for span in holidays.events(text, limits, UTC)]


def comes(text: str) -> bool:
    """Tell what is thought of the rule of an event: whether it is kept."""
    (only,) = Calendar.from_ical(text).events
    (rule,) = only.rrules
    return holidays._comes(rule, only.start)


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("FREQ=DAILY;UNTIL=20260304", ["2026-03-02", "2026-03-03", "2026-03-04"]),
        ("FREQ=DAILY;BYDAY=MO,FR;COUNT=3", ["2026-03-02", "2026-03-06", "2026-03-09"]),
        ("FREQ=WEEKLY;BYDAY=MO;COUNT=2", ["2026-03-02", "2026-03-09"]),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=-1;UNTIL=20260501", ["2026-03-02", "2026-03-30", "2026-04-27"]),
        ("FREQ=MONTHLY;COUNT=2", ["2026-03-02", "2026-04-02"]),
        ("FREQ=YEARLY;COUNT=9", ["2026-03-02", "2027-03-02"]),
        ("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=2", ["2026-03-02", "2027-03-02"]),
        ("freq=yearly", ["2026-03-02", "2027-03-02"]),
    ],
)
def test_rules_that_are_read(rule: str, found: list[str]) -> None:
    assert days(calendar(event(f"RRULE:{rule}"))) == found


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("FREQ=HOURLY", "recurs HOURLY,"),
        ("FREQ=MINUTELY;BYDAY=MO", "recurs MINUTELY with BYDAY,"),
        ("FREQ=DAILY;BYMONTH=3", "recurs DAILY with BYMONTH,"),
        ("FREQ=WEEKLY;BYDAY=MO;BYSETPOS=1;BYMONTH=3", "recurs WEEKLY with BYMONTH with BYSETPOS,"),
        ("FREQ=MONTHLY;BYYEARDAY=3", "recurs MONTHLY with BYYEARDAY,"),
        ("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=2", "recurs MONTHLY,"),
        ("FREQ=YEARLY;BYWEEKNO=53;COUNT=2", "recurs YEARLY,"),
        ("COUNT=2", "recurs never,"),
    ],
)
def test_rules_that_are_not_read_are_named(rule: str, said: str) -> None:
    with pytest.raises(holidays.BadCalendar, match=said):
        holidays.events(calendar(event(f"RRULE:{rule}")), LIMITS, UTC)


def test_every_rule_of_every_event_is_looked_at() -> None:
    good, bad = "RRULE:FREQ=YEARLY", "RRULE:FREQ=SECONDLY"
    for text in (calendar(event(good), event(bad, number=2)), calendar(event(good, bad))):
        with pytest.raises(holidays.BadCalendar, match="recurs SECONDLY"):
            holidays.events(text, LIMITS, UTC)


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        pytest.param("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=31", "20260302", id="31 February"),
        pytest.param("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30;UNTIL=20990101", "20260302", id="30, until then"),
        pytest.param("FREQ=MONTHLY;BYMONTH=2", "20260131", id="February, on the day of the first one"),
        pytest.param("FREQ=YEARLY;BYMONTH=4", "20260131", id="April, on the day of the first one"),
        pytest.param(
            "FREQ=YEARLY;BYYEARDAY=1;BYMONTH=2", "20260302", id="the first day of a year, in February"
        ),
        pytest.param("FREQ=MONTHLY;BYDAY=6MO", "20260302", id="the sixth Monday of a month"),
        pytest.param("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "20260302", id="the sixth of its Mondays"),
        pytest.param(
            "FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29", "20270101", id="29 February of odd years"
        ),
        pytest.param(
            "FREQ=MONTHLY;INTERVAL=12;BYMONTH=4;BYMONTHDAY=1", "20260302", id="April in steps from March"
        ),
        pytest.param("freq=yearly;byweekno=1;bymonth=6", "20260302", id="the first week, in June"),
        pytest.param("FREQ=YEARLY;BYSETPOS=2", "20260302", id="the second of one day of a year"),
        pytest.param("FREQ=MONTHLY;BYSETPOS=2", "20260302", id="the second of one day of a month"),
        pytest.param(
            "FREQ=MONTHLY;INTERVAL=6;BYMONTH=2,8;BYMONTHDAY=1", "20261231", id="never in June and December"
        ),
        pytest.param(
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29", "20260101", id="two years beside leap years"
        ),
    ],
)
def test_of_days_that_never_come_the_event_itself_is_left(rule: str, start: str) -> None:
    text = calendar(event(f"RRULE:{rule}", start=f";VALUE=DATE:{start}"))
    assert not comes(text)
    assert days(text, LIFETIME) == [f"{start[:4]}-{start[4:6]}-{start[6:]}"]


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        pytest.param("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "20240229", id="29 February"),
        pytest.param(
            "FREQ=YEARLY;INTERVAL=8;BYMONTH=2;BYMONTHDAY=29", "20240229", id="in every other leap year"
        ),
        pytest.param("FREQ=YEARLY;BYMONTH=2", "20240229", id="by the day of the first one"),
        pytest.param("FREQ=MONTHLY;BYMONTH=1,2", "20260131", id="January has a 31st"),
        pytest.param("FREQ=YEARLY;BYWEEKNO=53", "20260302", id="a week that most years lack"),
        pytest.param("FREQ=YEARLY;BYYEARDAY=366", "20260302", id="a day that most years lack"),
        pytest.param("FREQ=MONTHLY;BYDAY=5FR", "20260302", id="the fifth Friday"),
        pytest.param(
            "FREQ=MONTHLY;BYMONTHDAY=29;BYMONTH=2;BYDAY=MO", "20260302", id="29 February, on a Monday"
        ),
        pytest.param("FREQ=MONTHLY;INTERVAL=999;BYMONTHDAY=1", "20260302", id="once in a lifetime"),
        pytest.param("FREQ=MONTHLY;BYMONTH=4;BYMONTHDAY=1", "20260302", id="April, in steps of a month"),
        pytest.param(
            "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3;BYMONTHDAY=1", "20260302", id="March in steps from March"
        ),
        pytest.param(
            "FREQ=MONTHLY;INTERVAL=6;BYMONTH=12;BYMONTHDAY=1", "20261231", id="December, from December"
        ),
        pytest.param(
            "FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29", "20260101", id="29 February of even years"
        ),
        pytest.param("FREQ=YEARLY;BYSETPOS=1", "20260302", id="the first of one day of a year"),
        pytest.param(
            "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=5;UNTIL=20270101", "20260302", id="the fifth Monday, until then"
        ),
    ],
)
def test_days_that_come_rarely_are_found(rule: str, start: str) -> None:
    text = calendar(event(f"RRULE:{rule}", start=f";VALUE=DATE:{start}"))
    assert comes(text)
    assert len(days(text, LIFETIME)) > 1


def test_a_step_that_is_longer_than_there_are_years_is_none() -> None:
    text = calendar(event("RRULE:FREQ=MONTHLY;INTERVAL=96000;BYMONTHDAY=2"))
    assert comes(text)
    assert days(text, LIFETIME) == ["2026-03-02"]


def test_other_rules_of_an_event_stay() -> None:
    """A rule whose day never comes took a quarter of a second, and 200 of them are allowed."""
    never, yearly = "RRULE:FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=31", "RRULE:FREQ=YEARLY"
    assert days(calendar(event(never, yearly))) == ["2026-03-02", "2027-03-02"]


def test_two_hundred_rules_whose_days_never_come_take_no_time() -> None:
    begun = time.process_time()
    many = [event("RRULE:FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=31", number=one) for one in range(200)]
    assert len(days(calendar(*many))) == 200
    assert time.process_time() - begun < 10  # one took a quarter of a second


@pytest.mark.parametrize(("year", "read"), [(1990, True), (1989, False)])
def test_what_recurs_is_counted_from_a_year_on(year: int, read: bool) -> None:
    start = f";VALUE=DATE:{year}0302"
    assert days(calendar(event(start=start))) == [], "what happens once may be as old as it likes"
    if read:
        assert days(calendar(event("RRULE:FREQ=YEARLY", start=start))) == ["2026-03-02", "2027-03-02"]
        return
    with pytest.raises(holidays.BadCalendar, match="since before 1990"):
        holidays.events(calendar(event("RRULE:FREQ=YEARLY", start=start)), LIMITS, UTC)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        pytest.param([event(), event("RDATE;VALUE=DATE:20260501,20260601", number=2)], "", id="four moments"),
        pytest.param([event(), event("RDATE;VALUE=DATE:20260501,20260601,20260701", number=2)],
                     "it has 5 events, 0 of which recur; at most 4 and 1", id="five"),
        pytest.param([event("RRULE:FREQ=YEARLY"), event(number=2)], "", id="one recurs"),
        pytest.param([event("RRULE:FREQ=YEARLY"), event("RRULE:FREQ=YEARLY", number=2)],
                     "it has 2 events, 2 of which recur; at most 4 and 1", id="two"),
    ],
)  # fmt: skip
def test_no_more_is_read_than_is_good_for_the_operator(
    monkeypatch: pytest.MonkeyPatch, events: list[str], said: str
) -> None:
    monkeypatch.setattr(holidays, "MAX_EVENTS", 4)
    monkeypatch.setattr(holidays, "MAX_RECURRING", 1)
    if not said:
        assert holidays.events(calendar(*events), LIMITS, UTC)
        return
    with pytest.raises(holidays.BadCalendar, match=said):
        holidays.events(calendar(*events), LIMITS, UTC)


@pytest.mark.parametrize(
    ("until", "found"),
    [
        ("", ["2026-03-02", "2027-03-02"]),
        (";UNTIL=20270301", ["2026-03-02"]),
        (";UNTIL=20270302", ["2026-03-02", "2027-03-02"]),
        (";UNTIL=20990302", ["2026-03-02", "2027-03-02"]),
    ],
)
def test_nobody_looks_further_than_asked(until: str, found: list[str]) -> None:
    assert days(calendar(event(f"RRULE:FREQ=YEARLY{until}"))) == found
    timed = until.replace("0302", "0302T060000Z").replace("0301", "0301T060000Z")
    assert days(calendar(event(f"RRULE:FREQ=YEARLY{timed}", start=":20260302T060000Z"))) == found


@pytest.mark.parametrize(
    ("start", "end", "zone", "found"),
    [
        pytest.param(";VALUE=DATE:20260302", ";VALUE=DATE:20260304", PARIS,
                     "2026-03-01T23:00 2026-03-03T23:00", id="days are those of the zone"),
        pytest.param(":20260302T060000", ":20260302T070000", PARIS, "2026-03-02T05:00 2026-03-02T06:00",
                     id="so are times without one"),
        pytest.param(":20260302T060000Z", ":20260302T070000Z", PARIS, "2026-03-02T06:00 2026-03-02T07:00",
                     id="times with a zone have their own"),
        pytest.param(":20261025T023000", ":20261025T024500", PARIS, "2026-10-25T00:30 2026-10-25T01:45",
                     id="of an hour that comes twice the first begins it, and the second ends it"),
        pytest.param(";VALUE=DATE:20260302", ";VALUE=DATE:20260303", UTC, "2026-03-02T00:00 2026-03-03T00:00",
                     id="UTC"),
    ],
)  # fmt: skip
def test_from_when_to_when_an_event_is(start: str, end: str, zone: tzinfo, found: str) -> None:
    (span,) = holidays.events(calendar(event(f"DTEND{end}", start=start)), LIMITS, zone)
    assert " ".join(f"{moment:%Y-%m-%dT%H:%M}" for moment in span) == found
    assert all(moment.tzinfo is UTC for moment in span)


def test_events_are_told_in_their_order() -> None:
    text = calendar(
        *(event(start=f";VALUE=DATE:2026{at}", number=int(at)) for at in ("0501", "0301", "0401"))
    )
    assert days(text) == ["2026-03-01", "2026-04-01", "2026-05-01"]
