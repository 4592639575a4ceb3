"""The next step of a task, from its record.

    Begin  -> the try is written down, then done
    Settle -> a try was written down but its end is unknown: find out, or call it a failure; never repeat it
    Undo   -> the same, backwards
    End    -> how it ended is written down, and told

The caller carries out one move and asks again. A move depends on the record alone, so that it does not
matter whether the same process asks again, the next one after a crash, or one after a power cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodemanager.api.maintenance.task_steps import CONTINUE, UNDO, TaskStep
from nodemanager.plan.tasks.record import StepPhase, TaskPhase, TaskRecord

_INVERTED: Final = (StepPhase.SUCCEEDED, StepPhase.FAILED)
"""A step that failed may have done half of what it does."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Do a step, for the first time or again."""

    place: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Find out what became of a step that was being done."""

    place: int
    undoing: bool = False


@dataclass(frozen=True, slots=True)
class Undo:
    """Take a step back."""

    place: int


@dataclass(frozen=True, slots=True)
class TurnBack:
    """Begin to take back what was done."""

    message: str


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is left to do."""

    phase: TaskPhase
    message: str


Move = Begin | Settle | Undo | TurnBack | End


def next_move(steps: Sequence[TaskStep], record: TaskRecord, barred: str = "") -> Move:
    """Return what to do next; `record` has an entry for each step, and the task has not ended.

    `barred` says why no step may begin any more; what was begun is settled, and taken back, all the same.
    """
    return _backwards(steps, record) if record.undoing else _forwards(steps, record, barred)


def barred(deadline: str, now: datetime, *, withdrawn: bool) -> str:
    """Return why no step may begin any more; empty = it may."""
    if withdrawn:
        return "the task was deleted"
    return f"its deadline {deadline} passed" if now >= datetime.fromisoformat(deadline) else ""


def shut_out(not_after: str | None, now: datetime) -> str:
    """Return why a task that has not begun any step may no longer begin; empty = it may."""
    if not_after is None or now < datetime.fromisoformat(not_after):
        return ""
    return f"the window closed at {not_after}"


def _forwards(steps: Sequence[TaskStep], record: TaskRecord, barred: str) -> Move:
    passed_over: list[str] = []
    for place, (step, known) in enumerate(zip(steps, record.steps, strict=True)):
        match known.phase:
            case StepPhase.SUCCEEDED:
                pass
            case StepPhase.RUNNING:
                return Settle(place)
            case StepPhase.FAILED if known.attempts > step.retries:
                why = f"step {step.name} failed: {known.message}"
                if step.on_failure != CONTINUE:
                    return TurnBack(why) if step.on_failure == UNDO else End(TaskPhase.FAILED, why)
                passed_over.append(step.name)
            case _:
                if barred:
                    return _too_late(step, barred, begun=place > 0 or known.attempts > 0)
                return Begin(place)
    said = f"passed over although they failed: {', '.join(passed_over)}" if passed_over else ""
    return End(TaskPhase.SUCCEEDED, said)


def _too_late(step: TaskStep, barred: str, *, begun: bool) -> Move:
    why = f"{barred} before step {step.name}"
    if not begun:
        return End(TaskPhase.EXPIRED, why)
    return TurnBack(why) if step.on_failure == UNDO else End(TaskPhase.FAILED, why)


def _backwards(steps: Sequence[TaskStep], record: TaskRecord) -> Move:
    for place in reversed(range(len(steps))):
        known = record.steps[place]
        if known.phase is StepPhase.RUNNING:
            return Settle(place)
        if known.phase is StepPhase.UNDOING:
            return Settle(place, undoing=True)
        if known.phase in _INVERTED and (steps[place].undo is not None or known.inverse):
            return Undo(place)
    failed = [step.name for step, known in zip(steps, record.steps, strict=True)
              if known.phase is StepPhase.UNDO_FAILED]  # fmt: skip
    if failed:
        return End(TaskPhase.HALTED, f"{record.message}; taking back failed for {', '.join(failed)}")
    return End(TaskPhase.UNDONE, record.message)
