"""Tasks step by step: whatever happens, no step is done more often than it may, and all of it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
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
