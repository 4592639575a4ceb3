"""Turns at their edges: one part, canaries, what an earlier version began, and what is forgotten first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.rollout import MAX_TURNS, RolloutStatus, ThresholdTurn
from nodemanager.fleet.rollout import turns
from nodemanager.kube import times
from nodemanager.kube.selectors import LabelSelector

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DEADLINE = 600.0


def after(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def status(*said: tuple[int, float], **fields: Any) -> RolloutStatus:
    """Return one with turns: up to which threshold since which minute."""
    told = [ThresholdTurn(threshold=one, at=times.rfc3339(after(minute))) for one, minute in said]
    threshold = said[-1][0] if said else 0
    return RolloutStatus(**{"started_at": times.rfc3339(BEGIN), "threshold": threshold, **fields}, turns=told)


def minutes(known: RolloutStatus) -> list[tuple[int, float]]:
    found = turns.of(known)
    return [
        (one, (at - BEGIN).total_seconds() / 60)
        for one, at in zip(found.thresholds, found.moments, strict=True)
    ]


@pytest.mark.parametrize(
    ("position", "canary", "earliest", "latest"),
    [
        pytest.param(0, False, 5, 5, id="the first part"),
        pytest.param(9, False, 5, 5, id="the last of it"),
        pytest.param(10, False, 5, 20, id="the first of the second part, not before the first"),
        pytest.param(20, False, 20, 40, id="the third part"),
        pytest.param(30, False, 0, None, id="nobody knows yet"),
        pytest.param(30, True, 5, 5, id="a canary"),
    ],
)
def test_between_which_moments_a_host_got_its_turn(
    position: int, canary: bool, earliest: float, latest: float | None
) -> None:
    known = turns.of(status((10, 5), (20, 20), (30, 40)))
    assert known.earliest(position, canary=canary) == after(earliest)
    assert known.latest(position, canary=canary) == (None if latest is None else after(latest))
    assert known.first == after(5)
    assert turns.of(status()).first == BEGIN
    assert turns.of(RolloutStatus()).first is None


def test_a_moment_that_nobody_can_read_is_none() -> None:
    odd = RolloutStatus(
        turns=[ThresholdTurn(threshold=5, at="soon"), ThresholdTurn(threshold=9, at=times.rfc3339(BEGIN))]
    )
    assert minutes(odd) == [(9, 0)]


@pytest.mark.parametrize(
    ("known", "threshold", "minute", "wanted"),
    [
        pytest.param(status(), 10, 5, [(10, 5)], id="the first turn"),
        pytest.param(status(canary=LabelSelector(), stage=1), 0, 5, [(0, 5)], id="that of the canaries"),
        pytest.param(
            status(canary=LabelSelector(), stage=2), 10, 5, [(0, 0), (10, 5)],
            id="canaries had theirs by a version that did not note it",
        ),
        pytest.param(status(stage=2), 10, 5, [(10, 5)], id="without canaries nobody had it"),
        pytest.param(status(threshold=1), 10, 5, [(1, 0), (10, 5)], id="one had it by such a version"),
        pytest.param(
            status(threshold=1, started_at=None), 10, 5, [(10, 5)], id="by one that noted nothing at all"
        ),
        pytest.param(
            status(threshold=1), 10, -5, [(1, -5), (10, -5)], id="and since then the clock went back"
        ),
        pytest.param(status((10, 5)), 10, 50, [(10, 5)], id="nobody else"),
        pytest.param(status((10, 5)), 20, 6, [(10, 5), (20, 6)], id="the first one stays exact"),
        pytest.param(status((10, 5), (20, 6)), 30, 7.5, [(10, 5), (30, 7.5)], id="within a quarter"),
        pytest.param(
            status((10, 5), (20, 6)), 30, 8, [(10, 5), (20, 6), (30, 8)], id="not within a quarter"
        ),
    ],
)  # fmt: skip
def test_what_is_noted(
    known: RolloutStatus, threshold: int, minute: float, wanted: list[tuple[int, float]]
) -> None:
    found = turns.noted(known, threshold, after(minute), DEADLINE)
    assert (minutes(found), found.threshold) == (wanted, threshold)


def test_of_too_many_the_one_between_the_nearest_is_forgotten_first_and_old_ones_first() -> None:
    hours = [0, 10, 20, 21, 22, *range(40, 40 + 10 * (MAX_TURNS - 5), 10)]
    known = status(*((10 * at, 60.0 * hour) for at, hour in enumerate(hours, 1)))
    assert len(known.turns) == MAX_TURNS
    found = turns.noted(known, 10 * MAX_TURNS + 10, after(60 * (hours[-1] + 10)), DEADLINE)
    assert len(found.turns) == MAX_TURNS
    assert {at for at, _ in minutes(known)} - {at for at, _ in minutes(found)} == {40}, "20 to 22 h"


def test_who_has_time_left_is_not_forgotten() -> None:
    ages = [20 * 1.5**power for power in range(MAX_TURNS - 3, 0, -1)]
    known = status(*((10 * at, -age) for at, age in enumerate([*ages, 10.5, 9.5, 9.4], 1)))
    found = turns.noted(known, 10 * MAX_TURNS + 10, BEGIN, DEADLINE)
    gone = {at for at, _ in minutes(known)} - {at for at, _ in minutes(found)}
    assert len(gone) == 1
    assert max(gone) < 10 * len(ages), "the nearest ones are about hosts that have time left"
    # Its deadline was shorter when these were noted.
    fresh = status(*((10 * at, at / 4) for at in range(1, MAX_TURNS + 1)))
    found = turns.noted(fresh, 10 * MAX_TURNS + 10, after(MAX_TURNS / 4 + 6.5), 26 * 60.0)
    kept = [at for at, _ in minutes(found)]
    assert kept == [10, *range(30, 10 * MAX_TURNS + 11, 10)], "the first is exact, whatever else is not"
