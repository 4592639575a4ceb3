"""Fights over a resource: noticed, slowed down, and forgotten; whatever happens, and whenever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.agent.drift.repair_backoff import LIMIT, LONGEST_WAIT, WITHIN, RepairBackoff
from nodemanager.plan.resources import file_id

A, B = file_id("/a"), file_id("/b")
GAPS = st.lists(st.floats(0, 1200), max_size=40)


def fight(backoff: RepairBackoff, times: int, start: float = 0.0) -> float:
    """Repair as soon as it is allowed, so often; return when the last repair was."""
    now = start
    for _ in range(times):
        now += backoff.wait(A, now)
        backoff.repaired(A, now, "f" * 64, "a" * 64, "sh[7]")
    return now


def test_five_repairs_within_a_minute_are_a_fight_and_each_further_one_doubles_the_wait() -> None:
    backoff = RepairBackoff()
    assert [backoff.repaired(A, float(now)) for now in range(LIMIT)] == [False] * (LIMIT - 1) + [True]
    now, waits = LIMIT - 1.0, []
    for _ in range(13):
        waits.append(backoff.wait(A, now))
        now += waits[-1]
        assert not backoff.repaired(A, now)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]


@pytest.mark.parametrize("gap", [15.0, 15.1])
def test_four_repairs_a_minute_are_no_fight_for_as_long_as_it_goes_on(gap: float) -> None:
    backoff = RepairBackoff()
    for number in range(100):
        assert not backoff.repaired(A, number * gap)
        assert backoff.wait(A, number * gap) == 0


def test_a_fight_names_the_resource_and_both_digests() -> None:
    backoff = RepairBackoff()
    fight(backoff, LIMIT + 1)
    (found,) = backoff.contested()
    digests = f"found {'f' * 12}, wanted {'a' * 12}"
    assert str(found) == f"somebody keeps changing file:/a ({digests}; last by sh[7])"
    assert found.repairs == 6


def test_calm_ends_a_fight_and_the_next_one_begins_anew() -> None:
    backoff = RepairBackoff()
    last = fight(backoff, LIMIT + 3)
    assert backoff.settle(last + 8 + WITHIN - 0.1) == pytest.approx(last + 8 + WITHIN)
    assert backoff.contested()
    assert backoff.settle(last + 8 + WITHIN) is None
    assert backoff.contested() == ()
    now = last + 1000
    assert not backoff.repaired(A, now)
    assert backoff.wait(A, now) == 0


def test_failures_wait_longer_and_longer_and_success_ends_that() -> None:
    backoff = RepairBackoff()
    waits = [backoff.failed(A, 0.0) for _ in range(12)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    assert backoff.contested() == ()
    backoff.holds(A)
    assert backoff.wait(A, 0.0) == 0
    assert backoff.failed(A, 0.0) == 1


def test_what_is_no_longer_declared_is_forgotten() -> None:
    backoff = RepairBackoff()
    fight(backoff, LIMIT)
    backoff.keep_only([B])
    assert backoff.contested() == ()


@given(GAPS)
def test_no_minute_ever_sees_more_repairs_than_the_limit_and_a_few_that_slow_down(
    gaps: Sequence[float],
) -> None:
    backoff, now, stamps = RepairBackoff(), 0.0, []
    for gap in gaps:  # the other one writes again after each gap, we answer when we may
        backoff.settle(now)
        now += gap
        now += backoff.wait(A, now)
        backoff.repaired(A, now)
        stamps.append(now)
    for start in stamps:
        assert sum(start <= one < start + WITHIN for one in stamps) <= LIMIT + 6  # 1+2+4+8+16+32 > 60


@given(st.lists(st.tuples(st.sampled_from("rfh"), st.floats(0, 100)), max_size=40))
def test_waits_are_bounded_and_one_resource_never_slows_down_another(
    deeds: Sequence[tuple[str, float]],
) -> None:
    backoff, now = RepairBackoff(), 0.0
    for deed, gap in deeds:
        now += gap
        if deed == "r":
            backoff.repaired(A, now)
        elif deed == "f":
            backoff.failed(A, now)
        else:
            backoff.holds(A)
        assert 0 <= backoff.wait(A, now) <= LONGEST_WAIT
        assert backoff.wait(B, now) == 0
        assert backoff.waiting(now) <= {A}
        assert all(one.resource == A for one in backoff.contested())
        due = backoff.settle(now)
        assert due is None or now < due <= now + LONGEST_WAIT + WITHIN


@given(GAPS, st.floats(0, 3000))
def test_calm_for_long_enough_always_ends_a_fight(gaps: Sequence[float], more: float) -> None:
    backoff, now = RepairBackoff(), 0.0
    for gap in gaps:
        now += gap
        backoff.repaired(A, now)
    backoff.settle(now + LONGEST_WAIT + WITHIN + more)
    assert backoff.contested() == ()
    assert backoff.wait(A, now + LONGEST_WAIT + WITHIN) == 0
