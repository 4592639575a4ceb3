"""Whether a task is taken: only one for this host, for now, and newer than all before it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.maintenance.nodetask import (
    COMPLETE,
    HOST_GONE,
    NodeTask,
    NodeTaskSpec,
    NodeTaskStatus,
    TaskClaim,
    is_ended,
    upgrade_slot,
)
from nodemanager.api.maintenance.task_steps import INVERTIBLE, TaskStep
from nodemanager.kube import conditions, known_words
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

FOREIGN: Final = "Foreign"
STALE: Final = "Stale"
EXPIRED: Final = "Expired"
OTHER_BOOT: Final = "OtherBoot"
FORGOTTEN: Final = "Forgotten"
CLAIMED_ELSEWHERE: Final = "ClaimedElsewhere"
INVALID: Final = "Invalid"
REFUSALS: Final = (FOREIGN, STALE, EXPIRED, OTHER_BOOT, FORGOTTEN, CLAIMED_ELSEWHERE, INVALID)
"""Why a task is not done, in one word each."""
SKEW: Final = timedelta(minutes=5)
"""How far our clock may be behind that of the server."""
_ORDER: Final = tuple(StepPhase)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What this host remembers of tasks."""

    records: Mapping[str, TaskRecord] = field(default_factory=dict)
    """By uid; ended ones are kept for a while."""
    fence: int = 0
    """The highest token that was ever seen."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a host is, and when, as far as tasks matter."""

    host: str
    boot_id: str
    now: datetime
    sure: bool = True
    """Whether no other agent can work under our name: then a claimed task that we do not know was forgotten.
    """
    doubt: timedelta = timedelta(minutes=2)
    """How old a claim has to be for that: before, another agent may have made it unnoticed."""
    used_slot: datetime | None = None
    """The slot of the last upgrade, whether host or operator began it: no slot is used twice."""


@dataclass(frozen=True, slots=True)
class Taken:
    """It may begin now."""


@dataclass(frozen=True, slots=True)
class KnownTask:
    """It was taken before: go on with it, or repeat what became of it."""

    record: TaskRecord


@dataclass(frozen=True, slots=True)
class Later:
    """It may begin at another time."""

    at: datetime


@dataclass(frozen=True, slots=True)
class RefusedTask:
    """The task is not carried out."""

    phase: TaskPhase
    reason: str
    message: str
    silent: bool = False
    """Whether another agent has to write its status."""


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing is left to do or to say about it."""


Answer = Taken | KnownTask | Later | RefusedTask | Over


def admit(task: NodeTask, ledger: Ledger, here: Situation) -> Answer:
    """Return what to do about a task that was seen."""
    try:
        return _admit(task, ledger, here)
    except (ValueError, TypeError) as error:  # an older server lets through what is no time
        return RefusedTask(TaskPhase.REFUSED, INVALID, f"it cannot be read: {error}")


def _admit(task: NodeTask, ledger: Ledger, here: Situation) -> Answer:
    spec, claim = task.spec, task.status.claim
    if spec.node_name != here.host:
        said = f"it is for {spec.node_name}, and this is {here.host}"
        return RefusedTask(TaskPhase.REFUSED, FOREIGN, said, silent=True)
    known = ledger.records.get(task.metadata.uid)
    if known is None and is_ended(task.status):
        return Over()
    if claim is not None and (known is None or claim.agent != known.agent):
        return _claimed(claim, here)
    if known is not None:
        if is_ahead(task.status, known):
            return RefusedTask(TaskPhase.HALTED, FORGOTTEN, _FORGOTTEN)
        return KnownTask(known)
    return _fresh(task, ledger, here)


def _claimed(claim: TaskClaim, here: Situation) -> Answer:
    """Judge a task that an agent of our name claimed, and that we do not know."""
    if here.sure and (claim.time is None or datetime.fromisoformat(claim.time) + here.doubt <= here.now):
        return RefusedTask(TaskPhase.HALTED, FORGOTTEN, _FORGOTTEN)
    said = "an agent took it that has the name of this host, and it is not this one"
    return RefusedTask(TaskPhase.REFUSED, CLAIMED_ELSEWHERE, said, silent=True)


def _fresh(task: NodeTask, ledger: Ledger, here: Situation) -> Answer:
    spec = task.spec
    if unknown := next(filter(None, map(_unknown, spec.steps)), ""):
        return RefusedTask(TaskPhase.REFUSED, INVALID, f"{unknown}; upgrade it")
    if spec.fencing_token <= ledger.fence:
        said = f"its fencing token {spec.fencing_token} is not above {ledger.fence}, which was seen before"
        return RefusedTask(TaskPhase.REFUSED, STALE, said)
    slot = upgrade_slot(spec)
    if slot is not None and here.used_slot is not None and slot <= here.used_slot:
        said = f"it is for the slot {spec.not_before}, which was used: a host upgrades once per slot"
        return RefusedTask(TaskPhase.REFUSED, STALE, said)
    if late := too_late(spec, here.now):
        return RefusedTask(TaskPhase.EXPIRED, EXPIRED, late)
    if spec.boot_id and spec.boot_id != here.boot_id:
        said = f"it was planned in boot {spec.boot_id}, and this is boot {here.boot_id}"
        return RefusedTask(TaskPhase.REFUSED, OTHER_BOOT, said)
    begin = [datetime.fromisoformat(spec.not_before)] if spec.not_before is not None else []
    if task.metadata.creation_timestamp:
        # A clock that is behind knows nothing of deadlines: it is waited for.
        begin.append(datetime.fromisoformat(task.metadata.creation_timestamp) - SKEW)
    latest = max(begin, default=here.now)
    return Later(latest) if here.now < latest else Taken()


def too_late(spec: NodeTaskSpec, now: datetime) -> str:
    """Return why a task does not begin any more; empty = it may."""
    if now >= datetime.fromisoformat(spec.deadline):
        return f"its deadline {spec.deadline} passed before it began"
    if spec.not_after is not None and now >= datetime.fromisoformat(spec.not_after):
        return f"it had to begin before {spec.not_after}, when the window closed"
    return ""


def _unknown(step: TaskStep) -> str:
    """Return what a newer version means by a step, and we do not know; empty = we know all of it."""
    undo = step.undo
    if not step.action or (undo and not any(getattr(undo, one) is not None for one in INVERTIBLE)):
        return f"step {step.name} is of a kind that this agent does not know"
    if found := known_words.unknown_word(step):
        return f"step {step.name} has {found[1]!r} as {found[0]}, which this agent does not know"
    return ""


def is_ahead(status: NodeTaskStatus, record: TaskRecord) -> bool:
    """Tell whether we reported more than we remember: our disk is an older copy of itself.

    Everything is written down before it is reported, so that otherwise we always remember more.
    """
    complete = conditions.get(status.conditions, COMPLETE)
    if is_ended(status) and (complete is None or complete.reason != HOST_GONE):
        return not record.phase.is_end
    return any(_further(one.attempts, one.phase, known)
               for one, known in zip(status.steps, record.steps, strict=False))  # fmt: skip


def _further(attempts: int, phase: str, known: StepRecord) -> bool:
    if attempts != known.attempts:
        return attempts > known.attempts
    return bool(phase) and _ORDER.index(StepPhase(phase)) > _ORDER.index(known.phase)


_FORGOTTEN: Final = (
    "this host reported that it took the task or how far it got, and remembers nothing of it: its state was"
    " lost or restored from an older copy; look what was done, and make a new task"
)
