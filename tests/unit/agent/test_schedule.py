"""When an upgrade is due. Aspects: every form of a schedule, clock changes, windows, delay, wrong clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.agent.upgrades.schedule import WRONG_CLOCK, History, UpgradeRule
from nodemanager.api.schedules import ScheduleError, parse

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)


def local(text: str, zone: tzinfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def slots(text: str, start: str, count: int) -> list[str]:
    """Return the next slots of a schedule, as a clock on a wall in Berlin shows them."""
    found, moment = [], local(start)
    for _ in range(count):
        slot = parse(text).first(moment, BERLIN)
        if slot is None:
            break
        found.append(f"{slot.astimezone(BERLIN):%Y-%m-%d %H:%M:%S %Z}")
        moment = slot + timedelta(seconds=1)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("30 3 * * 0", ["2026-06-07 03:30:00 CEST", "2026-06-14 03:30:00 CEST"], id="five"),
        pytest.param("30 3 * * 7", ["2026-06-07 03:30:00 CEST"], id="seven is sunday"),
        pytest.param("30 3 ? * sunday", ["2026-06-07 03:30:00 CEST"], id="name and question mark"),
        pytest.param("0 4 1 july *", ["2026-07-01 04:00:00 CEST"], id="name of a month"),
        pytest.param("0 4 L * *", ["2026-06-30 04:00:00 CEST"], id="last day"),
        pytest.param("0 4 LW 5 *", ["2027-05-31 04:00:00 CEST"], id="last working day"),
        pytest.param("0 4 * * 2#2", ["2026-06-09 04:00:00 CEST", "2026-07-14 04:00:00 CEST"], id="patchday"),
        pytest.param("0 4 * * friL", ["2026-06-26 04:00:00 CEST"], id="last friday"),
        pytest.param("@daily", ["2026-06-01 00:00:00 CEST", "2026-06-02 00:00:00 CEST"], id="daily"),
        pytest.param("@Weekly", ["2026-06-07 00:00:00 CEST"], id="weekly"),
        pytest.param("@annually", ["2027-01-01 00:00:00 CET"], id="annually"),
        pytest.param("0 4 1 1 * 2028/2", ["2028-01-01 04:00:00 CET", "2030-01-01 04:00:00 CET"], id="six"),
        pytest.param("15 30 3 * * 0 *", ["2026-06-07 03:30:15 CEST"], id="seven, seconds first"),
        pytest.param("0 30 3 * * 0 2026", ["2026-06-07 03:30:00 CEST"], id="seven, with a year"),
        pytest.param("* * * * * 2025", [], id="years that are over"),
        pytest.param("*/9 * * * * 2031", ["2031-01-01 00:00:00 CET", "2031-01-01 00:09:00 CET"], id="far"),
    ],
)  # fmt: skip
def test_schedules_are_read_as_the_go_project_reads_them(text: str, expected: list[str]) -> None:
    assert slots(text, "2026-06-01 00:00", max(1, len(expected))) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("30 3 * *", "it has 4 fields"),
        ("", "it has 0 fields"),
        ("@reboot", "it has 1 fields"),
        ("61 3 * * *", "bad minute field"),
        ("0 4 15W * *", "not known here"),
        ("0 4 * * friday-monday", "bad day-of-week field"),
        ("0 4 * * * 1066", "no year from 1970"),
        ("0 4 * * * soon", "is no year"),
        ("0 4 30 2 *", "bad day-of-month"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, said: str) -> None:
    with pytest.raises(ScheduleError, match="cannot read schedule") as caught:
        parse(text)
    assert said in str(caught.value)


def test_a_slot_that_a_clock_change_leaves_out_is_at_its_end() -> None:
    assert slots("30 2 * * *", "2026-03-28 12:00", 2) == [
        "2026-03-29 03:00:00 CEST",
        "2026-03-30 02:30:00 CEST",
    ]


def test_a_slot_in_an_hour_that_comes_twice_is_there_once() -> None:
    assert slots("30 2 * * *", "2026-10-25 01:00", 2) == [
        "2026-10-25 02:30:00 CEST",
        "2026-10-26 02:30:00 CET",
    ]
    second = datetime(2026, 10, 25, 2, 10, tzinfo=BERLIN, fold=1)
    assert parse("30 2 * * *").first(second.astimezone(UTC), BERLIN) == local("2026-10-26 02:30")


def test_the_end_of_the_window_belongs_to_it_also_when_the_slot_was_moved() -> None:
    rule, moved = UpgradeRule(parse("30 2 * * *")), local("2026-03-29 03:00")
    assert rule.decide(History(), moved + MINUTE, BERLIN).slot == moved
    assert rule.decide(History(), moved + MINUTE * 1.01, BERLIN).slot is None


def test_daily_with_a_delay_of_a_day_is_every_day() -> None:
    """The delay counts from start to start: an upgrade that takes ten minutes does not cost the next one."""
    rule = UpgradeRule(parse("0 3 * * *"), timedelta(hours=24))
    started = local("2026-06-01 03:00") + timedelta(seconds=0.2)
    history = History(local("2026-06-01 03:00"), started)
    decision = rule.decide(history, local("2026-06-02 02:59:59"), BERLIN)
    assert decision.wake == started + timedelta(hours=24)
    assert rule.decide(history, decision.wake, BERLIN).slot == local("2026-06-02 03:00")


def test_a_time_far_ahead_was_a_wrong_clock() -> None:
    rule, slot = UpgradeRule(parse("0 3 * * *"), timedelta(hours=23)), local("2026-06-01 03:00")
    ahead = History(local("2036-01-01 03:00"), local("2036-01-01 03:00"))
    assert rule.decide(ahead, slot, BERLIN).slot == slot
    a_little = History(slot + timedelta(hours=2), slot + timedelta(hours=2))
    assert rule.decide(a_little, slot, BERLIN).slot is None


SCHEDULES = st.sampled_from(
    [
        "0 3 * * *",
        "30 2 * * *",
        "*/10 * * * *",
        "15,45 1-3 * * *",
        "0 0 * * 0",
        "20 30 2 * * * *",
        "* * * * *",
    ]
)
DAYS = st.sampled_from([datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)])
STARTS = st.builds(lambda day, seconds: day + timedelta(seconds=seconds), DAYS, st.floats(0, 4 * 86400))
ZONES = st.sampled_from([BERLIN, ZoneInfo("UTC"), ZoneInfo("Australia/Lord_Howe")])


@hypothesis.given(SCHEDULES, STARTS, ZONES, st.data())
@hypothesis.settings(deadline=None)
def test_whatever_the_clock_does(text: str, start: datetime, zone: tzinfo, data: st.DataObject) -> None:
    """A host that lives by the decisions: naps, sleeps through slots, and has its clock set."""
    delay = timedelta(minutes=data.draw(st.sampled_from([0, 7, 60, 60 * 23, 60 * 24])))
    rule = UpgradeRule(parse(text), delay, timedelta(seconds=data.draw(st.sampled_from([1, 60, 600]))))
    now, history = start, History()
    used: list[tuple[datetime, datetime]] = []
    for _ in range(data.draw(st.integers(1, 12))):
        decision = rule.decide(history, now, zone)
        if used and used[-1][1] > now + WRONG_CLOCK:  # a last one far ahead is forgotten
            used.clear()
        if decision.slot is not None:
            assert decision.slot <= now <= decision.slot + rule.forgiveness, "outside of its slot"
            assert rule.schedule.first(decision.slot, zone) == decision.slot, "no slot at all"
            assert decision.slot not in [slot for slot, _ in used], "twice in one slot"
            assert not used or now - used[-1][1] >= delay, "too soon after the last one"
            used.append((decision.slot, now))
            history = History(decision.slot, now)
            continue
        assert decision.wake is not None
        assert decision.wake > now
        jump = data.draw(st.sampled_from(["wake", "before", "late", "forward", "back"]))
        if jump == "wake":
            now = decision.wake
            assert rule.decide(history, now, zone).slot is not None, "woke up for nothing"
        elif jump == "before":
            now += (decision.wake - now) * data.draw(st.floats(0, 0.99))
            assert rule.decide(history, now, zone).slot is None, "slept too long"
        elif jump == "late":
            now = decision.wake + timedelta(seconds=data.draw(st.floats(0, 1200)))
        else:
            hours = data.draw(st.floats(0, 11))
            now += timedelta(hours=hours if jump == "forward" else -hours)
