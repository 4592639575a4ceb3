"""Which tasks a host takes: only its own, in time, newer than all before, and none that it forgot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodetask import (
    COMPLETE,
    HOST_GONE,
    NodeTask,
    NodeTaskSpec,
    NodeTaskStatus,
    TaskClaim,
    TaskStepStatus,
    node_label,
)
from nodemanager.api.maintenance.task_steps import ExecutionAction, TaskAction, TaskStep
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.tasks import admission, reports
from nodemanager.plan.tasks.admission import (
    KnownTask,
    Later,
    Ledger,
    Over,
    RefusedTask,
    Situation,
    Taken,
    admit,
)
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
HERE = Situation("web1", "boot", NOW)
RECORD = TaskRecord("uid", 5, TaskPhase.RUNNING, (StepRecord(StepPhase.SUCCEEDED, 1),), agent="me")
MINE = TaskClaim(agent="me", time="2026-11-16T05:00:00Z")
OTHER = TaskClaim(agent="other", time="2026-11-16T05:00:00Z")


def task(status: NodeTaskStatus | None = None, **spec: Any) -> NodeTask:
    step = TaskStep(name="a", execution=ExecutionAction(argv=["true"]))
    given = {"node_name": "web1", "deadline": "2026-11-16T07:00:00Z", "fencing_token": 5, "steps": [step]}
    meta = ObjectMeta(name="t", uid="uid", creation_timestamp="2026-11-16T05:59:00Z")
    return NodeTask(metadata=meta, spec=NodeTaskSpec(**{**given, **spec}), status=status or NodeTaskStatus())


def reason(answer: admission.Answer) -> str:
    assert isinstance(answer, RefusedTask), answer
    return answer.reason


TRUE = ExecutionAction(argv=["true"])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(task(), id="as it is made"),
        pytest.param(task(boot_id="boot"), id="planned in this boot"),
        pytest.param(task(not_before="2026-11-16T06:00:00Z"), id="from this moment on"),
        pytest.param(task(deadline="2026-11-16T06:00:01Z"), id="until the last second"),
        pytest.param(
            task(steps=[TaskStep(name="a", execution=TRUE, undo=TaskAction(execution=TRUE))]), id="with undo"
        ),
    ],
)
def test_a_new_task_is_taken(given: NodeTask) -> None:
    assert admit(given, Ledger(fence=4), HERE) == Taken()


def test_a_clock_that_is_a_little_behind_that_of_the_server_holds_up_nothing() -> None:
    created = datetime(2026, 11, 16, 5, 59, tzinfo=UTC)
    assert admit(task(), Ledger(), Situation("web1", "boot", created - admission.SKEW)) == Taken()


@pytest.mark.parametrize(
    ("given", "ledger", "expected"),
    [
        pytest.param(task(node_name="web2"), Ledger(), admission.FOREIGN, id="foreign"),
        pytest.param(task(), Ledger(fence=5), admission.STALE, id="stale"),
        pytest.param(task(deadline="2026-11-16T06:00:00Z"), Ledger(), admission.EXPIRED, id="expired"),
        pytest.param(task(not_after="2026-11-16T06:00:00Z"), Ledger(), admission.EXPIRED, id="window closed"),
        pytest.param(task(boot_id="before"), Ledger(), admission.OTHER_BOOT, id="of another boot"),
        pytest.param(task(steps=[TaskStep(name="new")]), Ledger(), admission.INVALID, id="newer version"),
        pytest.param(
            task(steps=[TaskStep(name="a", execution=TRUE, undo=TaskAction())]), Ledger(), admission.INVALID,
            id="undo of a newer version",
        ),
        pytest.param(task(deadline="soon"), Ledger(), admission.INVALID, id="no time"),
        pytest.param(task(deadline="2026-11-16T07:00:00"), Ledger(), admission.INVALID, id="no zone"),
        pytest.param(
            task(NodeTaskStatus(claim=TaskClaim(agent="me"))), Ledger(), admission.FORGOTTEN,
            id="state lost, and nobody knows when it was claimed",
        ),
        pytest.param(
            task(NodeTaskStatus(claim=TaskClaim(agent="me", time="2026-11-16T05:58:00Z"))), Ledger(),
            admission.FORGOTTEN, id="state lost, and the claim is just old enough",
        ),
        pytest.param(task(NodeTaskStatus(claim=MINE)), Ledger(), admission.FORGOTTEN, id="state lost"),
        pytest.param(
            task(NodeTaskStatus(claim=MINE, phase="Succeeded")), Ledger({"uid": RECORD}), admission.FORGOTTEN,
            id="ended and an older copy of the disk",
        ),
        pytest.param(
            task(NodeTaskStatus(claim=MINE, steps=[TaskStepStatus(name="a", attempts=2, phase="Running")])),
            Ledger({"uid": RECORD}), admission.FORGOTTEN, id="further and an older copy of the disk",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(given: NodeTask, ledger: Ledger, expected: str) -> None:
    answer = admit(given, ledger, HERE)
    assert reason(answer) == expected
    assert isinstance(answer, RefusedTask)
    assert answer.silent == (expected == admission.FOREIGN), "whoever has to write its status does"


def test_what_began_in_its_window_goes_on_after_it() -> None:
    begun = task(NodeTaskStatus(claim=MINE), not_after="2026-11-16T05:30:00Z")
    assert admit(begun, Ledger({"uid": RECORD}), HERE) == KnownTask(RECORD)
    assert admit(task(not_after="2026-11-16T06:00:01Z"), Ledger(), HERE) == Taken()


EARLIER = datetime(2026, 11, 16, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "here",
    [
        pytest.param(Situation("web1", "boot", NOW, sure=False), id="a clone is there"),
        pytest.param(Situation("web1", "boot", EARLIER), id="the claim is fresh"),
    ],
)
@pytest.mark.parametrize("ledger", [Ledger(), Ledger({"uid": RECORD})], ids=["unknown", "taken by both"])
def test_what_another_agent_of_our_name_took_is_left_to_it(here: Situation, ledger: Ledger) -> None:
    answer = admit(task(NodeTaskStatus(claim=OTHER)), ledger, here)
    assert reason(answer) == admission.CLAIMED_ELSEWHERE
    assert isinstance(answer, RefusedTask)
    assert answer.silent


def test_what_ended_is_over() -> None:
    """Also if nobody remembers it, and if it was refused in the first place."""
    assert admit(task(NodeTaskStatus(phase="Refused")), Ledger(fence=9), HERE) == Over()
    assert admit(task(NodeTaskStatus(phase="Succeeded", claim=OTHER)), Ledger(), HERE) == Over()


def test_a_replayed_task_is_known() -> None:
    """An API that was restored from a copy knows less than the host."""
    ended = msgspec.structs.replace(RECORD, phase=TaskPhase.SUCCEEDED)
    assert admit(task(), Ledger({"uid": ended}, fence=9), HERE) == KnownTask(ended)


def test_what_the_operator_ended_for_a_host_that_was_gone_goes_on() -> None:
    said = Condition(type=COMPLETE, status="False", reason=HOST_GONE)
    status = NodeTaskStatus(phase="Halted", claim=MINE, conditions=[said])
    assert admit(task(status), Ledger({"uid": RECORD}), HERE) == KnownTask(RECORD)


def test_what_may_begin_later_waits() -> None:
    begin = "2026-11-16T06:30:00Z"
    assert admit(task(not_before=begin), Ledger(), HERE) == Later(datetime.fromisoformat(begin))
    behind = Situation("web1", "boot", datetime(1970, 1, 1, tzinfo=UTC))
    created = datetime(2026, 11, 16, 5, 59, tzinfo=UTC)
    assert admit(task(), Ledger(), behind) == Later(created - timedelta(minutes=5))


def test_what_we_report_is_never_ahead_of_what_we_know() -> None:
    spec = task().spec
    for phase in StepPhase:
        known = TaskRecord("uid", 5, TaskPhase.RUNNING, (StepRecord(phase, 1),), agent="me")
        status = reports.of_record(task(), spec, known, NOW)
        assert not admission.is_ahead(status, known)
    assert status.claim == TaskClaim(agent="me", fencing_token=5)


@pytest.mark.parametrize(
    ("attempts", "phase", "ahead"),
    [
        (2, "Succeeded", False), (3, "Pending", True), (1, "Succeeded", False),
        (2, "Failed", True), (2, "Running", False), (2, "", False),
    ],
)  # fmt: skip
def test_more_tries_or_a_later_phase_of_a_step_is_ahead(attempts: int, phase: str, ahead: bool) -> None:
    known = TaskRecord("uid", 5, TaskPhase.RUNNING, (StepRecord(StepPhase.SUCCEEDED, 2),), agent="me")
    status = NodeTaskStatus(steps=[TaskStepStatus(name="a", attempts=attempts, phase=phase)])
    assert admission.is_ahead(status, known) == ahead


def test_an_end_that_the_host_itself_told_is_ahead_of_a_record_that_goes_on() -> None:
    status = NodeTaskStatus(phase="Failed", conditions=[Condition(type=COMPLETE, reason="Failed")])
    assert admission.is_ahead(status, RECORD)
    assert not admission.is_ahead(status, msgspec.structs.replace(RECORD, phase=TaskPhase.FAILED))


def test_labels_of_long_names_are_cut() -> None:
    assert node_label("web1") == "web1"
    assert node_label("a" * 62 + ".example") == "a" * 62
