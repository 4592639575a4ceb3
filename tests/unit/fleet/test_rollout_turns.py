"""Since when it is whose turn: exact enough for deadlines, and of a size that does not grow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nodemanager.api.common.rollout import MAX_TURNS, RolloutStatus
from nodemanager.fleet.rollout import turns
from nodemanager.kube import times
from nodemanager.kube.selectors import LabelSelector

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DEADLINE = 600.0


def test_many_parts_are_told_in_few_and_nobody_gets_much_more_than_its_time() -> None:
    status, now, told = RolloutStatus(started_at=times.rfc3339(BEGIN)), BEGIN, []
    for part in range(1, 1500):
        now += timedelta(seconds=[2, 7, 40, 300][part % 4] if part < 900 else 3)
        status = turns.noted(status, part * 10, now, DEADLINE)
        told.append(now)
        assert len(status.turns) <= MAX_TURNS
        known = turns.of(status) if part % 97 == 0 else None
        for number, moment in enumerate(told if known else []):
            assert known is not None
            earliest = known.earliest(number * 10, canary=False)
            latest = known.latest(number * 10, canary=False)
            assert earliest is not None
            assert latest is not None
            assert earliest <= moment <= latest
            if now - moment < timedelta(seconds=DEADLINE):
                assert latest - moment <= timedelta(seconds=DEADLINE / turns.PARTS)


def test_the_first_turn_and_that_of_canaries_are_exact() -> None:
    status = RolloutStatus(started_at=times.rfc3339(BEGIN), canary=LabelSelector(), stage=1)
    for minute, threshold in ((5, 0), (6, 100), (7, 200)):
        status = turns.noted(status, threshold, BEGIN + timedelta(minutes=minute), DEADLINE)
    known = turns.of(status)
    for name in ("earliest", "latest"):
        assert getattr(known, name)(999, canary=True) == BEGIN + timedelta(minutes=5)
    assert known.earliest(50, canary=False) == BEGIN + timedelta(minutes=5)
    assert known.latest(50, canary=False) == BEGIN + timedelta(minutes=7)  # two parts told as one
    assert known.latest(200, canary=False) is None
    again = turns.noted(status, 200, BEGIN + timedelta(hours=1), DEADLINE)
    assert again.turns == status.turns  # nobody else has a turn


def test_what_a_version_began_that_did_not_note_it() -> None:
    old = RolloutStatus(started_at=times.rfc3339(BEGIN), threshold=100, stage=1)
    assert turns.of(old).latest(50, canary=False) is None
    assert turns.of(old).earliest(50, canary=False) == BEGIN
    known = turns.of(turns.noted(old, 200, BEGIN + timedelta(hours=1), DEADLINE))
    assert known.latest(50, canary=False) == BEGIN
    assert known.latest(150, canary=False) == BEGIN + timedelta(hours=1)


def test_turns_of_a_clock_that_was_ahead_are_forgotten() -> None:
    status = RolloutStatus(started_at=times.rfc3339(BEGIN))
    for hour, threshold in ((2, 100), (1, 200)):
        status = turns.noted(status, threshold, BEGIN + timedelta(hours=hour), DEADLINE)
    assert turns.of(status).moments == [BEGIN, BEGIN + timedelta(hours=1)]
