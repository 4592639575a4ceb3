"""Who is alive is judged by what the operator saw, and by nobody's clock."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.agent.report.heartbeat import INTERVAL
from nodemanager.controllers.liveness.heartbeats import Heartbeats, Life, LivenessJudgement

DURATION = 60.0
LIMIT = 84.0
"""When a Lease of that duration means silence."""


def watched(*renewals: tuple[float, str]) -> Heartbeats:
    found = Heartbeats()
    for at, renewed in renewals:
        found.saw("x", renewed, DURATION, at)
    return found


def test_a_host_without_a_lease_was_never_heard_of() -> None:
    found = Heartbeats()
    assert found.judge("x", 5) == LivenessJudgement(Life.UNTOLD, again_in=60)
    assert found.judge("x", 64) == LivenessJudgement(Life.UNTOLD, again_in=1)
    assert found.judge("x", 65) == LivenessJudgement(Life.NEVER)


def test_a_host_that_comes_back_without_a_lease_is_new() -> None:
    found = Heartbeats()
    found.judge("x", 0)
    found.forget("x")
    assert found.judge("x", 100) == LivenessJudgement(Life.UNTOLD, again_in=60)


def test_only_a_renewal_that_was_seen_is_told_as_one() -> None:
    found = Heartbeats()
    assert [found.saw("x", renewed, DURATION, at) for at, renewed in enumerate("aabb")] == [
        False, False, True, False,
    ]  # fmt: skip


def test_a_host_whose_lease_is_deleted_is_new_however_long_it_had_none_before() -> None:
    found = Heartbeats()
    found.judge("x", 0)
    found.saw("x", "a", DURATION, 5)
    found.lost("x")
    assert found.judge("x", 100) == LivenessJudgement(Life.UNTOLD, again_in=60)


def test_after_an_outage_a_host_is_alive_only_as_long_as_its_own_lease_says() -> None:
    found = watched((0, "a"), (5, "b"))
    found.missed(50)
    assert found.judge("x", 88) == LivenessJudgement(Life.ALIVE, 83, 46)
    assert found.judge("x", 89) == LivenessJudgement(Life.UNTOLD, LIMIT, 45)
    found.missed(40)
    assert found.judge("x", 133) == LivenessJudgement(Life.UNTOLD, 128, 1), "no outage is taken back"
    assert found.judge("x", 134).life is Life.SILENT


def test_after_an_outage_a_host_without_a_lease_has_its_time_again() -> None:
    found = Heartbeats()
    found.judge("x", 0)
    found.missed(50)
    assert found.judge("x", 60) == LivenessJudgement(Life.UNTOLD, again_in=50)


@pytest.mark.parametrize(
    ("duration", "silent_after"), [(None, 84), (0, 84), (1, 14), (10, 14), (600, 840), (1e9, 840)]
)
def test_how_long_a_lease_lasts_has_bounds(duration: float | None, silent_after: float) -> None:
    found = Heartbeats()
    found.saw("x", "a", duration, 0)
    assert found.judge("x", silent_after - 1).life is Life.UNTOLD
    assert found.judge("x", silent_after).life is Life.SILENT
    found.saw("x", "a", DURATION, 0)
    assert found.judge("x", LIMIT - 1).life is Life.UNTOLD, "what it says last counts"


def test_a_lease_that_was_only_seen_once_says_nothing_yet() -> None:
    assert watched((0, "a")).judge("x", 83) == LivenessJudgement(Life.UNTOLD, 83, 1)


def test_a_renewal_shows_life_for_its_duration_and_the_renewal_that_was_about_to_come() -> None:
    found = watched((0, "a"), (5, "b"))
    assert found.judge("x", 5) == LivenessJudgement(Life.ALIVE, 0, LIMIT)
    assert found.judge("x", 88) == LivenessJudgement(Life.ALIVE, 83, 1)
    assert found.judge("x", 89) == LivenessJudgement(Life.SILENT, LIMIT, math.inf)


def test_the_first_sight_is_silent_after_as_long() -> None:
    assert watched((0, "a")).judge("x", LIMIT).life is Life.SILENT


def test_there_is_time_for_an_interval_besides_the_lease_and_for_being_told_of_the_silence() -> None:
    assert DURATION + 1.1 * INTERVAL < LIMIT < 1.5 * DURATION


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00Z", "2199-01-01T00:00:00Z", "nonsense", ""])
def test_the_clock_of_a_host_says_nothing(renewed: str) -> None:
    found = watched((0, "2026-01-01T00:00:00Z"), (10, renewed))
    assert found.judge("x", 9 + LIMIT).life is Life.ALIVE
    assert found.judge("x", 10 + LIMIT).life is Life.SILENT


def test_a_lease_that_others_touched_is_not_renewed() -> None:
    found = watched((0, "a"), (5, "b"))
    assert not found.saw("x", "b", DURATION, 60)
    assert found.judge("x", 5 + LIMIT).life is Life.SILENT


def test_an_outage_of_the_api_gives_everybody_as_long_once_more() -> None:
    found = watched((0, "a"), (5, "b"))
    found.missed(600)
    assert found.judge("x", 601) == LivenessJudgement(Life.UNTOLD, 596, LIMIT - 1)
    assert found.judge("x", 600 + LIMIT) == LivenessJudgement(Life.SILENT, 595 + LIMIT)


@pytest.mark.parametrize(
    ("asked", "granted"), [(None, 84), (0, 84), (1, 14), (10, 14), (600, 840), (604_800, 840)]
)
def test_a_host_can_neither_flood_us_nor_hide_by_its_duration(asked: float | None, granted: float) -> None:
    found = Heartbeats()
    found.saw("x", "a", asked, 0)
    assert found.judge("x", 0).again_in == granted


def test_a_lease_that_is_gone_is_forgotten() -> None:
    found = watched((0, "a"), (5, "b"))
    found.lost("x")
    found.lost("y")
    assert found.judge("x", 6) == LivenessJudgement(Life.UNTOLD, again_in=60)
    assert found.judge("x", 66).life is Life.NEVER


@given(
    gaps=st.lists(st.floats(0.1, 200), min_size=1, max_size=20),
    outages=st.lists(st.floats(0, 2000), max_size=3),
    look=st.floats(0, 4000),
)
def test_nobody_is_called_silent_before_a_whole_duration_in_which_renewals_could_be_seen(
    gaps: list[float], outages: list[float], look: float
) -> None:
    at, found = 0.0, Heartbeats()
    moments = [(at := at + gap, str(number)) for number, gap in enumerate(gaps)]
    events: list[tuple[float, str | None]] = [*moments, *((one, None) for one in outages)]
    last = -math.inf
    for moment, renewed in sorted(events, key=lambda one: one[0]):
        if moment > look:
            break
        last = moment
        if renewed is None:
            found.missed(moment)
        else:
            found.saw("x", renewed, DURATION, moment)
    judged = found.judge("x", look)
    if judged.life is Life.SILENT:
        assert look - last >= LIMIT - 1e-6
    elif judged.life is not Life.NEVER:
        assert found.judge("x", look + judged.again_in).life in (Life.SILENT, Life.NEVER)
