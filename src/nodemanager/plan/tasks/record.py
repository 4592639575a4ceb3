"""The progress of a task, recorded before any work is done."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime
from enum import StrEnum

import msgspec

from nodemanager.api.maintenance.task_previews import TaskPreview


class StepPhase(StrEnum):
    """Where a step is."""

    PENDING = "Pending"
    RUNNING = "Running"
    """It was about to run, or runs: a process that finds this has to find out which."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNDOING = "Undoing"
    UNDONE = "Undone"
    UNDO_FAILED = "UndoFailed"


class TaskPhase(StrEnum):
    """Where a task is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNDONE = "Undone"
    """It failed, and everything that can be taken back is."""
    HALTED = "Halted"
    """It failed, and taking it back failed, too: a person has to look."""
    EXPIRED = "Expired"
    REFUSED = "Refused"

    @property
    def is_end(self) -> bool:
        """Whether nothing comes after it."""
        return self not in (TaskPhase.PENDING, TaskPhase.RUNNING)


class StepRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one step."""

    phase: StepPhase = StepPhase.PENDING
    attempts: int = 0
    boot_id: str = ""
    """The boot in which the last try began."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    changed: bool = False
    message: str = ""
    output: str = ""
    evidence: dict[str, str] = {}
    preview: TaskPreview | None = None
    inverse: bytes = b""
    """The former state, in the format of its performer; recorded before any change."""


class TaskRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one task."""

    uid: str
    token: int = 0
    phase: TaskPhase = TaskPhase.PENDING
    steps: tuple[StepRecord, ...] = ()
    undoing: bool = False
    message: str = ""
    claimed_at: datetime | None = None
    ended_at: datetime | None = None
    boot_id: str = ""
    """The boot in which it was claimed."""
    agent: str = ""
    """The id that tells its claim from those of other agents."""
    reason: str = ""
    """Why it was not done, in one word; empty = it was."""
    paused: str = ""
    """Why it does not go on now, for people: the host is held. Empty = it does."""

    @property
    def ends(self) -> int:
        """How many tries, and how much of the way back, have ended: what never becomes less."""
        return sum(_ends(one) for one in self.steps) + self.phase.is_end

    def with_step(self, place: int, step: StepRecord) -> TaskRecord:
        """Return it with another record of one step."""
        steps = (*self.steps[:place], step, *self.steps[place + 1 :])
        return msgspec.structs.replace(self, steps=steps)

    def without_inverses(self, but: Container[int] = ()) -> TaskRecord:
        """Return the record without the data for taking it back, which is mostly not needed after the end."""
        steps = tuple(
            one if place in but else msgspec.structs.replace(one, inverse=b"")
            for place, one in enumerate(self.steps)
        )
        return msgspec.structs.replace(self, steps=steps)


def _ends(step: StepRecord) -> int:
    match step.phase:
        case StepPhase.RUNNING:
            return step.attempts - 1
        case StepPhase.UNDONE | StepPhase.UNDO_FAILED:
            return step.attempts + 1
    return step.attempts
