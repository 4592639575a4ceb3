"""How far a host of a run is: from its claim, from its tasks, and how long it waits between two tries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.fleet.maintenance import facts, progress
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, TaskFacts
from nodemanager.fleet.maintenance.progress import HostStage, RunProgress
from nodemanager.fleet.maintenance.reasons import Reason

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
UNTOUCHED = RunProgress()


def claim(state: State = State.WORKING, **fields: Any) -> Claim:
    made = Claim("monday", "m", "uid-a", "r1", 0, state, NOW, NOW, NOW + 60 * MINUTE)
    return msgspec.structs.replace(made, **fields)


def host(held: Claim | None = None) -> HostFacts:
    return HostFacts("a", "uid-a", NOW - timedelta(days=30), claim=held)


def ended(phase: str, attempt: int = 0, at: datetime = NOW, **fields: Any) -> TaskFacts:
    return TaskFacts("t", phase, attempt, taken=True, ended=at, **fields)


def of(held: Claim | None, *tasks: TaskFacts, limit: int = 3, since: datetime | None = None) -> RunProgress:
    return progress.of_host(host(held), "r1", tasks, limit, since)


def test_a_host_that_nothing_was_done_to_is_untouched() -> None:
    assert of(None) == progress.of_host(None, "r1", [], 3) == UNTOUCHED
    assert of(None, TaskFacts("t", "Running", taken=True)) == UNTOUCHED  # it has not ended
    assert of(None, TaskFacts("t", facts.FAILED, taken=True)) == UNTOUCHED  # when, nobody knows
    assert of(claim(run="r0")) == of(claim(host_uid="uid-b")) == UNTOUCHED


def test_its_own_claim_says_that_it_is_being_worked_on() -> None:
    assert of(claim(attempt=2)) == RunProgress(HostStage.RUNNING, 2)
    found = of(claim(attempt=2), ended(facts.FAILED, 1))
    assert found == RunProgress(HostStage.RUNNING, 2)
    assert of(claim(run="r0"), ended(facts.SUCCEEDED)).stage is HostStage.SUCCEEDED


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (facts.FAILED, Reason.TASK_FAILED), (facts.UNDONE, Reason.TASK_UNDONE),
        (facts.HALTED, Reason.TASK_HALTED), (facts.EXPIRED, Reason.TASK_EXPIRED),
        (facts.REFUSED, Reason.TASK_REFUSED),
    ],
)  # fmt: skip
def test_a_task_that_ended_says_so_without_a_claim(phase: str, reason: Reason) -> None:
    found = progress.of_host(None, "r1", [ended(phase, 1)], 0)
    assert found == RunProgress(HostStage.FAILED, 1, reason, NOW)
    assert found.is_end


def test_one_that_succeeded_is_done_unless_its_visit_was_not() -> None:
    assert of(None, ended(facts.SUCCEEDED, 1)) == RunProgress(HostStage.SUCCEEDED, 1, Reason.SUCCEEDED, NOW)
    found = of(None, ended(facts.SUCCEEDED, 1, not_done=Reason.TASK_HALTED), limit=0)
    assert found == RunProgress(HostStage.FAILED, 1, Reason.TASK_HALTED, NOW)


def test_the_last_try_counts_and_the_claim_has_the_last_word_about_it() -> None:
    tries = ended(facts.SUCCEEDED, 1), ended(facts.FAILED, 0)
    assert of(None, *tries).stage is HostStage.SUCCEEDED
    done = claim(State.DONE, attempt=1)
    assert of(done, ended(facts.FAILED, 1)) == RunProgress(HostStage.SUCCEEDED, 1, Reason.SUCCEEDED, NOW)
    given_up = claim(State.HALTED, attempt=1)
    assert of(given_up, ended(facts.SUCCEEDED, 1), limit=0).reason is Reason.TASK_FAILED
    told = claim(State.HALTED, attempt=1, reason=Reason.TASK_HALTED)
    assert of(told, limit=0).reason is Reason.TASK_HALTED


@pytest.mark.parametrize(
    ("tries", "pause"), [(1, 20), (2, 40), (3, 80), (5, 320), (6, 360), (20, 360)], ids=str
)
def test_the_pause_between_tries_doubles_up_to_six_minutes(tries: int, pause: int) -> None:
    found = of(None, *[ended(facts.FAILED, one) for one in range(tries)], limit=100)
    again = NOW + timedelta(seconds=pause)
    assert found == RunProgress(HostStage.WAITING, tries, Reason.TASK_FAILED, NOW, again)
    assert not found.is_end


def test_it_fails_with_one_try_more_than_the_limit() -> None:
    tries = [ended(facts.FAILED, one) for one in range(3)]
    assert of(None, *tries, limit=3).stage is HostStage.WAITING
    assert of(None, *tries, limit=2).stage is HostStage.FAILED


def test_what_came_in_between_is_no_try_and_needs_no_pause() -> None:
    late = ended(facts.EXPIRED, 0, windowed=True)
    assert of(None, late, limit=0) == RunProgress(HostStage.WAITING, 1, Reason.TIME_TOO_SHORT, NOW, NOW)
    for reason in (Reason.DELETED, Reason.ABORTED):
        assert of(claim(State.HALTED, reason=reason), limit=0).stage is HostStage.WAITING


def test_tries_before_somebody_asked_for_another_do_not_count() -> None:
    tries = ended(facts.FAILED, 0, NOW - MINUTE), ended(facts.FAILED, 1)
    assert of(None, *tries, limit=0, since=NOW - MINUTE).stage is HostStage.FAILED
    assert of(None, *tries, limit=0, since=NOW).stage is HostStage.WAITING
    assert of(None, *tries, limit=1, since=NOW - MINUTE).stage is HostStage.WAITING
    assert of(None, *tries, limit=1).stage is HostStage.FAILED


def test_a_drain_that_took_too_long_leaves_the_host_out_or_stops_the_run() -> None:
    left_out = of(claim(State.UNDONE, reason=Reason.DRAIN_TIMED_OUT), limit=0)
    assert (left_out.stage, left_out.stops, left_out.is_end) == (HostStage.SKIPPED, False, True)
    stopped = of(claim(State.HALTED, reason=Reason.DRAIN_TIMED_OUT), limit=0)
    assert (stopped.stage, stopped.stops) == (HostStage.FAILED, True)
    assert not of(claim(State.HALTED, reason=Reason.TASK_HALTED), limit=0).stops
