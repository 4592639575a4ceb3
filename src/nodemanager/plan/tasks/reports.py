"""The status of a task, from its record. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common import reported
from nodemanager.api.maintenance.nodetask import (
    COMPLETE,
    NodeTask,
    NodeTaskSpec,
    NodeTaskStatus,
    TaskClaim,
    TaskStepStatus,
)
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition
from nodemanager.plan.tasks.admission import RefusedTask
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

# Why a task has to wait on this host, in one word each.
HELD: Final = "Held"
DUPLICATED: Final = "DuplicateHost"
UPGRADING: Final = "Upgrading"


def of_record(task: NodeTask, spec: NodeTaskSpec, record: TaskRecord, now: datetime) -> NodeTaskStatus:
    """Return the status of a task that this host took."""
    claim = TaskClaim(
        agent=record.agent, boot_id=record.boot_id, time=_time(record.claimed_at), fencing_token=record.token
    )
    phase = record.phase if record.phase.is_end else TaskPhase.RUNNING
    steps = [_step(step.name, known) for step, known in zip(spec.steps, record.steps, strict=False)]
    said = NodeTaskStatus(
        phase=phase, message=reported.text(record.paused or record.message), step=step_at(spec, record),
        finished_at=_time(record.ended_at), claim=claim, steps=steps,
    )  # fmt: skip
    return _judged(task, said, record.reason or (HELD if record.paused else phase), now)


def of_refusal(task: NodeTask, refused: RefusedTask, now: datetime) -> NodeTaskStatus:
    """Return the status of a task that this host does not do."""
    said = msgspec.structs.replace(
        task.status,
        phase=refused.phase,
        message=reported.text(refused.message),
        finished_at=times.rfc3339(now),
    )
    return _judged(task, said, refused.reason, now)


def of_wait(task: NodeTask, reason: str, message: str, now: datetime) -> NodeTaskStatus:
    """Return the status of a task that may not begin yet."""
    said = msgspec.structs.replace(task.status, phase=TaskPhase.PENDING, message=reported.text(message))
    return _judged(task, said, reason, now)


def _judged(task: NodeTask, said: NodeTaskStatus, reason: str, now: datetime) -> NodeTaskStatus:
    generation = task.metadata.generation
    done = conditions.TRUE if said.phase == TaskPhase.SUCCEEDED else conditions.FALSE
    complete = Condition(
        type=COMPLETE, status=done, reason=reason, message=said.message, observed_generation=generation
    )
    found = conditions.set_condition(task.status.conditions, complete, times.rfc3339(now))
    return msgspec.structs.replace(said, observed_generation=generation, conditions=found)


def step_at(spec: NodeTaskSpec, record: TaskRecord) -> str:
    """Return the step that a task is at: the one that is being done, else the last one that was."""
    busy = (StepPhase.RUNNING, StepPhase.UNDOING)
    named = list(zip((step.name for step in spec.steps), record.steps, strict=False))
    now = [name for name, known in named if known.phase in busy]
    done = [name for name, known in named if known.phase is not StepPhase.PENDING]
    return (now or done[-1:] or [""])[0]


def _step(name: str, known: StepRecord) -> TaskStepStatus:
    return TaskStepStatus(
        name=name,
        phase=known.phase,
        attempts=known.attempts,
        started_at=_time(known.started_at),
        finished_at=_time(known.finished_at) if known.phase is not StepPhase.RUNNING else None,
        exit_code=known.exit_code,
        changed=known.changed,
        message=reported.text(known.message),
        output=reported.text(known.output),
        evidence={key: reported.line(value)[:256] for key, value in known.evidence.items()},
        preview=known.preview,
    )


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else times.rfc3339(moment)
