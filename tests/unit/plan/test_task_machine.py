"""Tasks step by step: whatever happens, no step is done more often than it may, and all of it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.maintenance.task_steps import ExecutionAction, TaskAction, TaskStep
from nodemanager.plan.tasks import machine
from nodemanager.plan.tasks.machine import Begin, End, Settle, TurnBack, Undo
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

START = datetime(2026, 11, 16, 6, tzinfo=UTC)
RUN = ExecutionAction(argv=["true"])

steps_of_a_task = st.lists(
    st.builds(
        TaskStep,
        name=st.just("step"),
        execution=st.just(RUN),
        retries=st.integers(0, 2),
        on_failure=st.sampled_from(["", "stop", "continue", "undo"]),
        undo=st.none() | st.just(TaskAction(execution=RUN)),
    ),
    min_size=1,
    max_size=5,
)


@dataclass
class World:
    """A host on which everything may fail or be cut off in the middle; it counts what was really done."""

    steps: list[TaskStep]
    chances: st.DataObject
    record: TaskRecord
    done: list[int] = field(default_factory=list)
    """Tries of each step that really began."""
    undone: list[int] = field(default_factory=list)
    now: datetime = START

    def carry_out(self, move: machine.Move) -> bool:
        """Do one move, or be killed in the middle of it; return whether the task has ended."""
        match move:
            case Begin(place):
                self.begin(place)
            case Settle(place, undoing):
                # What became of it is not known, so it counts as failed: it is not done again.
                if undoing:
                    self.put(
                        place, msgspec.structs.replace(self.record.steps[place], phase=StepPhase.UNDO_FAILED)
                    )
                else:
                    self.settle(place, ok=False)
            case Undo(place):
                self.put(place, msgspec.structs.replace(self.record.steps[place], phase=StepPhase.UNDOING))
                if self.chance("begins"):
                    self.undone[place] += 1
                    if self.chance("seen"):
                        phase = StepPhase.UNDONE if self.chance("succeeds") else StepPhase.UNDO_FAILED
                        self.put(place, msgspec.structs.replace(self.record.steps[place], phase=phase))
            case TurnBack(message):
                self.record = msgspec.structs.replace(self.record, undoing=True, message=message)
            case End(phase, message):
                self.record = msgspec.structs.replace(self.record, phase=phase, message=message)
                return True
        self.now += timedelta(minutes=self.chances.draw(st.integers(0, 30), "minutes"))
        return False

    def begin(self, place: int) -> None:
        known = self.record.steps[place]
        self.put(place, StepRecord(StepPhase.RUNNING, known.attempts + 1))
        if not self.chance("begins"):
            return  # cut off before it really began
        self.done[place] += 1
        if self.chance("seen"):
            self.settle(place, ok=self.chance("succeeds"))

    def settle(self, place: int, *, ok: bool) -> None:
        phase = StepPhase.SUCCEEDED if ok else StepPhase.FAILED
        self.put(place, msgspec.structs.replace(self.record.steps[place], phase=phase))

    def put(self, place: int, step: StepRecord) -> None:
        self.record = self.record.with_step(place, step)

    def chance(self, what: str) -> bool:
        return self.chances.draw(st.booleans(), what)


@given(steps_of_a_task, st.data(), st.none() | st.integers(0, 120))
def test_every_task_ends_and_no_step_is_done_too_often(
    steps: list[TaskStep], chances: st.DataObject, minutes: int | None
) -> None:
    steps = [msgspec.structs.replace(step, name=f"s{place}") for place, step in enumerate(steps)]
    zero = [0] * len(steps)
    world = World(steps, chances, TaskRecord("uid", steps=(StepRecord(),) * len(steps)), [*zero], [*zero])
    deadline = START + timedelta(minutes=minutes) if minutes is not None else None
    for _ in range(100):
        barred = "its time is up" if deadline is not None and world.now >= deadline else ""
        move = machine.next_move(steps, world.record, barred)
        if isinstance(move, Begin):
            assert not barred
            before = world.record.steps[: move.place]
            assert all(one.phase is StepPhase.SUCCEEDED or steps[at].on_failure == "continue"
                       for at, one in enumerate(before))  # fmt: skip
        ends, over = world.record.ends, world.carry_out(move)
        assert world.record.ends >= ends, "what was told may not be taken back"
        if over:
            break
    else:
        raise AssertionError("it never ends")
    assert world.record.phase.is_end
    assert all(count <= step.retries + 1 for count, step in zip(world.done, steps, strict=True))
    assert all(count <= 1 for count in world.undone)
    if world.record.phase is TaskPhase.SUCCEEDED:
        assert all(
            one.phase is StepPhase.SUCCEEDED or step.on_failure == "continue"
            for one, step in zip(world.record.steps, steps, strict=True)
        )
        assert not any(world.undone)
    if world.record.phase is TaskPhase.UNDONE:
        left = [place for place, step in enumerate(steps) if step.undo is not None and world.done[place]]
        assert all(world.record.steps[place].phase is StepPhase.UNDONE for place in left)
    if world.record.phase is TaskPhase.EXPIRED:
        assert not any(world.done)


def test_undo_goes_backwards() -> None:
    inverse = TaskAction(execution=RUN)
    steps = [TaskStep(name=name, execution=RUN, undo=inverse, on_failure="undo") for name in ("a", "b")]
    record = TaskRecord("uid", steps=(StepRecord(StepPhase.SUCCEEDED, 1), StepRecord(StepPhase.FAILED, 1)))
    move = machine.next_move(steps, record)
    assert move == TurnBack("step b failed: ")
    record = msgspec.structs.replace(record, undoing=True)
    assert machine.next_move(steps, record) == Undo(1)
    record = record.with_step(1, StepRecord(StepPhase.UNDONE, 1))
    assert machine.next_move(steps, record) == Undo(0)
    record = record.with_step(0, StepRecord(StepPhase.UNDONE, 1))
    assert machine.next_move(steps, record) == End(TaskPhase.UNDONE, "")


def steps(*failures: str, **more: Any) -> list[TaskStep]:
    return [TaskStep(name=f"s{place}", execution=RUN, on_failure=how, **more)
            for place, how in enumerate(failures)]  # fmt: skip


def record(*phases: StepPhase, **more: Any) -> TaskRecord:
    known = tuple(StepRecord(phase, int(phase is not PENDING), message="no") for phase in phases)
    return TaskRecord("uid", steps=known, **more)


PENDING, RUNNING, FAILED = StepPhase.PENDING, StepPhase.RUNNING, StepPhase.FAILED
SUCCEEDED, UNDOING, UNDO_FAILED = StepPhase.SUCCEEDED, StepPhase.UNDOING, StepPhase.UNDO_FAILED


@pytest.mark.parametrize(
    ("failures", "phases", "barred", "expected"),
    [
        (["", ""], [SUCCEEDED, PENDING], "", Begin(1)),
        (["", ""], [SUCCEEDED, RUNNING], "late", Settle(1, undoing=False)),
        ([""], [FAILED], "", End(TaskPhase.FAILED, "step s0 failed: no")),
        (["stop"], [FAILED], "late", End(TaskPhase.FAILED, "step s0 failed: no")),
        (["undo"], [FAILED], "", TurnBack("step s0 failed: no")),
        (["continue", ""], [FAILED, PENDING], "", Begin(1)),
        (["continue", ""], [FAILED, SUCCEEDED], "",
         End(TaskPhase.SUCCEEDED, "passed over although they failed: s0")),
        (["", ""], [SUCCEEDED, SUCCEEDED], "late", End(TaskPhase.SUCCEEDED, "")),
        (["undo", ""], [PENDING, PENDING], "late", End(TaskPhase.EXPIRED, "late before step s0")),
        (["", "undo"], [SUCCEEDED, PENDING], "late", TurnBack("late before step s1")),
        (["", "stop"], [SUCCEEDED, PENDING], "late", End(TaskPhase.FAILED, "late before step s1")),
    ],
)  # fmt: skip
def test_what_comes_next(
    failures: list[str], phases: list[StepPhase], barred: str, expected: machine.Move
) -> None:
    assert machine.next_move(steps(*failures), record(*phases), barred) == expected


def test_a_step_that_may_be_tried_again_is_and_one_that_is_too_late_for_that_has_failed() -> None:
    """It was begun, so that the task has not merely expired."""
    again, known = steps("", retries=1), record(FAILED)
    assert machine.next_move(again, known) == Begin(0)
    assert machine.next_move(again, known, "late") == End(TaskPhase.FAILED, "late before step s0")
    assert machine.next_move(again, known.with_step(0, StepRecord(FAILED, 2, message="no"))) == End(
        TaskPhase.FAILED, "step s0 failed: no"
    )


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([SUCCEEDED, PENDING], Undo(0)),
        ([SUCCEEDED, RUNNING], Settle(1, undoing=False)),
        ([SUCCEEDED, UNDOING], Settle(1, undoing=True)),
        ([FAILED, UNDO_FAILED], Undo(0)),
        ([PENDING, UNDO_FAILED], End(TaskPhase.HALTED, "why; taking back failed for s1")),
    ],
)
def test_what_is_taken_back_next(phases: list[StepPhase], expected: machine.Move) -> None:
    known = record(*phases, undoing=True, message="why")
    assert machine.next_move(steps("", "", undo=TaskAction(execution=RUN)), known) == expected


def test_what_can_be_taken_back_is_what_says_how_or_what_noted_how_it_was() -> None:
    known = record(SUCCEEDED, SUCCEEDED, undoing=True, message="why")
    assert machine.next_move(steps("", ""), known) == End(TaskPhase.UNDONE, "why")
    noted = known.with_step(0, StepRecord(SUCCEEDED, 1, inverse=b"before"))
    assert machine.next_move(steps("", ""), noted) == Undo(0)


def test_no_step_begins_after_the_deadline_or_once_the_task_is_deleted() -> None:
    deadline = "2026-11-16T06:00:00Z"
    assert machine.barred(deadline, START - timedelta(seconds=1), withdrawn=False) == ""
    assert machine.barred(deadline, START, withdrawn=False) == f"its deadline {deadline} passed"
    assert machine.barred(deadline, START - timedelta(hours=1), withdrawn=True) == "the task was deleted"


@pytest.mark.parametrize(
    ("step", "ends"),
    [
        (StepRecord(PENDING), 0),
        (StepRecord(RUNNING, 1), 0),
        (StepRecord(RUNNING, 2), 1),
        (StepRecord(FAILED, 2), 2),
        (StepRecord(UNDOING, 2), 2),
        (StepRecord(StepPhase.UNDONE, 2), 3),
        (StepRecord(UNDO_FAILED, 1), 2),
    ],
)
def test_how_much_of_a_step_has_ended(step: StepRecord, ends: int) -> None:
    going_on = TaskRecord("uid", phase=TaskPhase.RUNNING, steps=(StepRecord(SUCCEEDED, 1), step))
    assert going_on.ends == 1 + ends
    assert msgspec.structs.replace(going_on, phase=TaskPhase.FAILED).ends == 2 + ends


def test_another_record_of_a_step_leaves_its_neighbours_alone() -> None:
    known = record(SUCCEEDED, PENDING, FAILED)
    changed = known.with_step(1, StepRecord(RUNNING, 1, inverse=b"before"))
    assert [one.phase for one in changed.steps] == [SUCCEEDED, RUNNING, FAILED]
    assert changed.without_inverses().steps[1] == StepRecord(RUNNING, 1)
    assert not StepRecord().changed
    assert not TaskRecord("uid").undoing
    assert [phase for phase in TaskPhase if not phase.is_end] == [TaskPhase.PENDING, TaskPhase.RUNNING]
