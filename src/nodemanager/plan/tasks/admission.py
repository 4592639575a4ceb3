"""Whether a task is taken: only what is meant for this host, now, and newer than everything before it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.plan.tasks.record import TaskPhase, TaskRecord

FOREIGN: Final = "Foreign"
STALE: Final = "Stale"
EXPIRED: Final = "Expired"
OTHER_BOOT: Final = "OtherBoot"
FORGOTTEN: Final = "Forgotten"


@dataclass(frozen=True, slots=True)
class Ledger:
    """What this host remembers of tasks."""

    records: Mapping[str, TaskRecord] = field(default_factory=dict)
    """By uid; those that ended are kept for a while."""
    fence: int = 0
    """The highest token that was ever seen."""


@dataclass(frozen=True, slots=True)
class Taken:
    """It may begin now."""


@dataclass(frozen=True, slots=True)
class Known:
    """It was taken before: go on with it, or repeat what became of it."""

    record: TaskRecord


@dataclass(frozen=True, slots=True)
class Later:
    """It may begin at another time."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not done."""

    phase: TaskPhase
    reason: str
    message: str


Answer = Taken | Known | Later | Refused


def admit(task: NodeTask, host: str, ledger: Ledger, boot_id: str, now: datetime) -> Answer:
    """Return what to do about a task that was seen."""
    spec, uid = task.spec, task.metadata.uid
    if spec.node_name != host:
        return Refused(TaskPhase.REFUSED, FOREIGN, f"it is for {spec.node_name}, and this is {host}")
    if (known := ledger.records.get(uid)) is not None:
        return Known(known)
    if task.status.claim is not None:
        # Our own disk knows nothing of what we reported: it was restored, or wiped. What was done is not known.
        return Refused(TaskPhase.HALTED, FORGOTTEN, _FORGOTTEN)
    if spec.fencing_token <= ledger.fence:
        said = f"its fencing token {spec.fencing_token} is not above {ledger.fence}, which was seen before"
        return Refused(TaskPhase.REFUSED, STALE, said)
    if now >= datetime.fromisoformat(spec.deadline):
        return Refused(TaskPhase.EXPIRED, EXPIRED, f"its deadline {spec.deadline} passed before it began")
    if spec.boot_id and spec.boot_id != boot_id:
        said = f"it was planned in boot {spec.boot_id}, and this is boot {boot_id}"
        return Refused(TaskPhase.REFUSED, OTHER_BOOT, said)
    if spec.not_before is not None and now < (begin := datetime.fromisoformat(spec.not_before)):
        return Later(begin)
    return Taken()


_FORGOTTEN: Final = (
    "this host reported that it took the task, and remembers nothing of it: its state was lost or restored from an"
    " older copy; look what was done, and make a new task"
)
