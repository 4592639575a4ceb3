"""Fights over a resource: noticed, slowed down, and forgotten; whatever happens, and whenever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.agent.drift.contest import LIMIT, LONGEST_WAIT, WITHIN, Contest
from nodemanager.plan.resources import file_id

A, B = file_id("/a"), file_id("/b")
GAPS = st.lists(st.floats(0, 1200), max_size=40)


def fight(contest: Contest, times: int, start: float = 0.0) -> float:
    """Repair as soon as it is allowed, so often; return when the last repair was."""
    now = start
    for _ in range(times):
        now += contest.wait(A, now)
        contest.repaired(A, now, "f" * 64, "a" * 64, "sh[7]")
    return now


def test_five_repairs_within_a_minute_are_a_fight_and_each_further_one_doubles_the_wait() -> None:
    contest = Contest()
    assert [contest.repaired(A, float(now)) for now in range(LIMIT)] == [False] * (LIMIT - 1) + [True]
    now, waits = LIMIT - 1.0, []
    for _ in range(13):
        waits.append(contest.wait(A, now))
        now += waits[-1]
        assert not contest.repaired(A, now)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]


@pytest.mark.parametrize("gap", [15.0, 15.1])
def test_four_repairs_a_minute_are_no_fight_for_as_long_as_it_goes_on(gap: float) -> None:
    contest = Contest()
    for number in range(100):
        assert not contest.repaired(A, number * gap)
        assert contest.wait(A, number * gap) == 0


def test_a_fight_names_the_resource_and_both_digests() -> None:
    contest = Contest()
    fight(contest, LIMIT + 1)
    (found,) = contest.fights()
    digests = f"found {'f' * 12}, wanted {'a' * 12}"
    assert str(found) == f"somebody keeps changing file:/a ({digests}; last by sh[7])"
    assert found.repairs == 6


def test_calm_ends_a_fight_and_the_next_one_begins_anew() -> None:
    contest = Contest()
    last = fight(contest, LIMIT + 3)
    assert contest.settle(last + 8 + WITHIN - 0.1) == pytest.approx(last + 8 + WITHIN)
    assert contest.fights()
    assert contest.settle(last + 8 + WITHIN) is None
    assert contest.fights() == ()
    now = last + 1000
    assert not contest.repaired(A, now)
    assert contest.wait(A, now) == 0


def test_failures_wait_longer_and_longer_and_success_ends_that() -> None:
    contest = Contest()
    waits = [contest.failed(A, 0.0) for _ in range(12)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    assert contest.fights() == ()
    contest.holds(A)
    assert contest.wait(A, 0.0) == 0
    assert contest.failed(A, 0.0) == 1


def test_what_is_no_longer_declared_is_forgotten() -> None:
    contest = Contest()
    fight(contest, LIMIT)
    contest.keep_only([B])
    assert contest.fights() == ()


@given(GAPS)
def test_no_minute_ever_sees_more_repairs_than_the_limit_and_a_few_that_slow_down(
    gaps: Sequence[float],
) -> None:
    contest, now, stamps = Contest(), 0.0, []
    for gap in gaps:  # the other one writes again after each gap, we answer when we may
        contest.settle(now)
        now += gap
        now += contest.wait(A, now)
        contest.repaired(A, now)
        stamps.append(now)
    for start in stamps:
        assert sum(start <= one < start + WITHIN for one in stamps) <= LIMIT + 6  # 1+2+4+8+16+32 > 60


@given(st.lists(st.tuples(st.sampled_from("rfh"), st.floats(0, 100)), max_size=40))
def test_waits_are_bounded_and_one_resource_never_slows_down_another(
    deeds: Sequence[tuple[str, float]],
) -> None:
    contest, now = Contest(), 0.0
    for deed, gap in deeds:
        now += gap
        if deed == "r":
            contest.repaired(A, now)
        elif deed == "f":
            contest.failed(A, now)
        else:
            contest.holds(A)
        assert 0 <= contest.wait(A, now) <= LONGEST_WAIT
        assert contest.wait(B, now) == 0
        assert contest.waiting(now) <= {A}
        assert all(one.resource == A for one in contest.fights())
        due = contest.settle(now)
        assert due is None or now < due <= now + LONGEST_WAIT + WITHIN


@given(GAPS, st.floats(0, 3000))
def test_calm_for_long_enough_always_ends_a_fight(gaps: Sequence[float], more: float) -> None:
    contest, now = Contest(), 0.0
    for gap in gaps:
        now += gap
        contest.repaired(A, now)
    contest.settle(now + LONGEST_WAIT + WITHIN + more)
    assert contest.fights() == ()
    assert contest.wait(A, now + LONGEST_WAIT + WITHIN) == 0
