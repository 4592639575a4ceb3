"""What becomes of tasks without their hosts: ended when nobody took them, removed when their time is up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.maintenance.nodetask import ENDED, PHASES, RUN, NodeTask
from nodemanager.fleet.tasks import bookkeeping, lookup
from nodemanager.fleet.tasks.bookkeeping import (
    GONE_FOR,
    KEEP,
    KEPT_AGAIN,
    SKEW,
    Circumstances,
    EndForHost,
    LookAgain,
    Remove,
)
from nodemanager.kube import times
from nodemanager.plan.tasks.record import TaskPhase

DEADLINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
MADE = DEADLINE - timedelta(hours=3)
CLAIM = {"agent": "a", "time": times.rfc3339(MADE)}
SECOND = timedelta(seconds=1)


def task(run: str = "", ttl: int | None = None, not_after: str | None = None, **status: Any) -> NodeTask:
    spec = {
        "nodeName": "web1", "deadline": times.rfc3339(DEADLINE), "ttlSecondsAfterFinished": ttl,
        "notAfter": not_after,
    }  # fmt: skip
    meta = {"name": "t", "creationTimestamp": times.rfc3339(MADE), "labels": {RUN: run} if run else {}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, NodeTask)


def ended(at: datetime, phase: str = "Succeeded", **fields: Any) -> NodeTask:
    return task(phase=phase, finishedAt=times.rfc3339(at), **fields)


def test_the_phases_are_those_of_the_agent() -> None:
    assert tuple(phase.value for phase in TaskPhase) == PHASES
    assert tuple(phase.value for phase in TaskPhase if phase.is_end) == ENDED


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_task_that_nobody_took_expires_with_its_deadline(phase: str) -> None:
    late = DEADLINE + SKEW
    assert bookkeeping.judge(task(phase=phase), Circumstances(MADE)) == LookAgain(late)
    assert bookkeeping.judge(task(phase=phase), Circumstances(late - SECOND)) == LookAgain(late)
    over = bookkeeping.judge(task(phase=phase), Circumstances(late))
    assert isinstance(over, EndForHost)
    assert (over.phase, over.reason) == ("Expired", "Expired")
    said = "nobody took it until 2026-03-02T09:00:00Z: see whether the host is alive and not held"
    assert over.message == said


def test_a_task_that_nobody_took_expires_when_its_window_has_closed() -> None:
    closes = DEADLINE - timedelta(hours=1)
    early = task(not_after=times.rfc3339(closes))
    assert bookkeeping.judge(early, Circumstances(MADE)) == LookAgain(closes + SKEW)
    assert isinstance(bookkeeping.judge(early, Circumstances(closes + SKEW)), EndForHost)
    begun = task(not_after=times.rfc3339(closes), phase="Running", claim=CLAIM)
    assert bookkeeping.judge(begun, Circumstances(closes + SKEW)) == LookAgain(None), "it may be finished"
    late = task(not_after=times.rfc3339(DEADLINE + timedelta(hours=1)))
    assert bookkeeping.judge(late, Circumstances(MADE)) == LookAgain(DEADLINE + SKEW)


def test_a_task_whose_deadline_cannot_be_read_has_none_left() -> None:
    odd = msgspec.convert(
        {"metadata": {"name": "t"}, "spec": {"nodeName": "web1", "deadline": "soon"}}, NodeTask
    )
    over = bookkeeping.judge(odd, Circumstances(MADE))
    assert isinstance(over, EndForHost)
    assert over.phase == "Expired"


def test_what_comes_first_is_looked_at_first() -> None:
    soon = DEADLINE + SKEW - SECOND
    assert bookkeeping.judge(task(), Circumstances(soon, gone_since=soon)) == LookAgain(DEADLINE + SKEW)
    assert bookkeeping.judge(task(), Circumstances(MADE, gone_since=MADE)) == LookAgain(MADE + GONE_FOR)
    assert bookkeeping.judge(task(claim=CLAIM), Circumstances(soon, gone_since=soon)) == LookAgain(
        soon + GONE_FOR
    )


def test_an_end_that_nobody_dates_is_when_it_was_first_seen_or_now() -> None:
    bare = msgspec.convert({"metadata": {"name": "t"}, "status": {"phase": "Failed"}}, NodeTask)
    assert bookkeeping.ended_at(bare, Circumstances(DEADLINE)) == DEADLINE
    assert bookkeeping.ended_at(bare, Circumstances(DEADLINE + KEEP, ended_since=DEADLINE)) == DEADLINE


def test_what_was_taken_is_for_the_agent_to_end() -> None:
    assert bookkeeping.judge(task(phase="Running", claim=CLAIM), Circumstances(DEADLINE + KEEP)) == LookAgain(
        None
    )


@pytest.mark.parametrize(("claim", "phase"), [(None, "Expired"), (CLAIM, "Halted")])
def test_a_host_that_is_gone_ends_its_tasks_after_a_while(claim: Any, phase: str) -> None:
    found, since = task(claim=claim), MADE
    assert bookkeeping.judge(found, Circumstances(MADE, gone_since=since)) == LookAgain(since + GONE_FOR)
    over = bookkeeping.judge(found, Circumstances(since + GONE_FOR, gone_since=since))
    assert isinstance(over, EndForHost)
    assert (over.phase, over.reason) == (phase, "HostGone")
    assert over.message.startswith("there is no ManagedNode web1 any more")


@pytest.mark.parametrize("phase", ENDED)
@pytest.mark.parametrize(("ttl", "kept"), [(None, KEEP), (60, timedelta(minutes=1)), (0, timedelta(0))])
def test_an_ended_task_is_kept_for_its_time(phase: str, ttl: int | None, kept: timedelta) -> None:
    until = DEADLINE + kept
    found = ended(DEADLINE, phase, ttl=ttl)
    assert bookkeeping.judge(found, Circumstances(until, ended_since=DEADLINE)) == Remove()
    if kept:
        assert bookkeeping.judge(found, Circumstances(until - SECOND, ended_since=DEADLINE)) == LookAgain(
            until
        )


def test_a_task_of_a_run_that_goes_on_is_kept() -> None:
    late = DEADLINE + KEEP
    found = ended(DEADLINE, run="r1")
    assert bookkeeping.judge(found, Circumstances(late, going_on={"r1"})) == LookAgain(late + KEPT_AGAIN)
    assert bookkeeping.judge(found, Circumstances(late, going_on={"r2"})) == Remove()
    assert not bookkeeping.is_kept(ended(DEADLINE), {"r1"})


@pytest.mark.parametrize(
    ("said", "at"),
    [
        pytest.param(DEADLINE, DEADLINE, id="as it says"),
        pytest.param(MADE - KEEP, MADE, id="before it was made"),
        pytest.param(DEADLINE + KEEP, DEADLINE + SECOND, id="in the future"),
    ],
)
def test_a_host_cannot_say_that_a_task_ended_when_it_did_not(said: datetime, at: datetime) -> None:
    seen = DEADLINE + SECOND
    assert bookkeeping.ended_at(ended(said), Circumstances(seen + KEEP, ended_since=seen)) == at


def test_one_that_says_no_time_ended_with_its_last_step_or_when_it_was_seen() -> None:
    known = Circumstances(DEADLINE + KEEP, ended_since=DEADLINE)
    steps = [{"name": str(each), "finishedAt": times.rfc3339(MADE + each * SECOND)} for each in range(3)]
    assert bookkeeping.ended_at(task(phase="Failed", steps=steps), known) == MADE + 2 * SECOND
    assert bookkeeping.ended_at(task(phase="Failed"), known) == DEADLINE
    for odd in ("2026-03-02T08:59:60Z", "2026-03-02T08:59:00"):  # forms of a time, and none all the same
        assert bookkeeping.ended_at(task(phase="Failed", finishedAt=odd), known) == DEADLINE


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(
    phase=st.sampled_from(("", *PHASES)),
    claimed=st.booleans(),
    run=st.sampled_from(("", "r1", "r2")),
    now=MOMENTS,
    gone=st.none() | MOMENTS,
)
def test_every_task_ends_and_goes_in_the_end(
    phase: str, claimed: bool, run: str, now: datetime, gone: datetime | None
) -> None:
    """Unless its agent has it: followed at the times that are asked for, nothing stays for ever."""
    found = task(run, phase=phase, claim=CLAIM if claimed else None)
    since, gone = now if phase in ENDED else None, gone and min(gone, now)
    for _ in range(9):
        known = Circumstances(now, gone, since, {"r2"})
        match bookkeeping.judge(found, known):
            case Remove():
                assert run != "r2"
                return
            case EndForHost() as over:
                assert found.status.phase not in ENDED
                found = task(run, phase=over.phase, claim=CLAIM if claimed else None)
                since = now
            case LookAgain(None):
                assert (claimed, gone) == (True, None)
                return
            case LookAgain(at):
                assert at is not None
                assert at > now
                now = at
    assert run == "r2"


def test_tasks_are_found_by_host_phase_and_run() -> None:
    found = task("r1", phase="Running")
    assert (*lookup.by_node(found), *lookup.by_phase(found), *lookup.unfinished(found)) == (
        "web1",
        "Running",
        "r1",
    )
    assert tuple(lookup.by_phase(task())) == ("Pending",)
    assert tuple(lookup.unfinished(ended(DEADLINE, run="r1"))) == tuple(lookup.unfinished(task())) == ()
