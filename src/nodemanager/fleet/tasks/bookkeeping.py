"""What happens to a task without its host: it was not taken in time, its host is gone, or it ended long ago.

    not taken until its deadline or the end of its window       ->  Expired
    its host is gone for a while                                ->  Expired, or Halted if it had begun
    it ended, and its time is up                                ->  removed, unless its run goes on

The report of the agent wins: a task that was taken is ended here only when its host is gone.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.maintenance.nodetask import HOST_GONE, RUN, NodeTask, NodeTaskSpec, is_ended
from nodemanager.kube import times

EXPIRED: Final = "Expired"
HALTED: Final = "Halted"
SKEW: Final = timedelta(seconds=30)
"""How long after its deadline by our clock a task may still be in time for a host whose clock differs."""
GONE_FOR: Final = timedelta(minutes=5)
"""How long tasks wait for a deleted ManagedNode: if that was a mistake, its agent makes it anew."""
KEEP: Final = timedelta(days=7)
"""How long ended tasks are kept that do not declare it."""
KEPT_AGAIN: Final = timedelta(minutes=10)
"""When to look again at a task that is kept only for its run."""


@dataclass(frozen=True, slots=True)
class EndForHost:
    """The task has to be ended for its host."""

    phase: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class LookAgain:
    """No action is needed before this moment; None = before the task changes."""

    at: datetime | None


@dataclass(frozen=True, slots=True)
class Remove:
    """The task was kept long enough."""


Verdict = EndForHost | LookAgain | Remove


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Other facts about a task."""

    now: datetime
    gone_since: datetime | None = None
    """Since when we know that its host has no ManagedNode; None = it has one."""
    ended_since: datetime | None = None
    """Since when we know that it has ended."""
    going_on: Container[str] = ()
    """Runs that have not ended."""


def judge(task: NodeTask, known: Circumstances) -> Verdict:
    """Return the action for a task."""
    if is_ended(task.status):
        return _kept(task, known)
    due = []
    if known.gone_since is not None:
        due.append(known.gone_since + GONE_FOR)
        if known.now >= due[-1]:
            return _gone(task)
    if task.status.claim is None:
        until = _latest(task.spec)
        due.append((times.parse(until) or known.now - SKEW) + SKEW)
        if known.now >= due[-1]:
            said = f"nobody took it until {until}: see whether the host is alive and not held"
            return EndForHost(EXPIRED, EXPIRED, said)
    return LookAgain(min(due, default=None))


def _latest(spec: NodeTaskSpec) -> str:
    """Return when it is too late to begin: at the deadline, or earlier, when a window closes."""
    closes = times.parse(spec.not_after)
    deadline = times.parse(spec.deadline)
    if spec.not_after is None or closes is None or (deadline is not None and deadline <= closes):
        return spec.deadline
    return spec.not_after


def is_kept(task: NodeTask, going_on: Container[str]) -> bool:
    """Tell whether a task has to stay because its run goes on and counts it."""
    return task.metadata.labels.get(RUN, "") in going_on


def _gone(task: NodeTask) -> EndForHost:
    host = task.spec.node_name
    if task.status.claim is None:
        return EndForHost(
            EXPIRED, HOST_GONE, f"there is no ManagedNode {host} any more, and nobody took the task"
        )
    said = f"there is no ManagedNode {host} any more: what it did of the task is not known; look at the host"
    return EndForHost(HALTED, HOST_GONE, said)


def _kept(task: NodeTask, known: Circumstances) -> LookAgain | Remove:
    seconds = task.spec.ttl_seconds_after_finished
    until = ended_at(task, known) + (KEEP if seconds is None else timedelta(seconds=seconds))
    if known.now < until:
        return LookAgain(until)
    return LookAgain(known.now + KEPT_AGAIN) if is_kept(task, known.going_on) else Remove()


def ended_at(task: NodeTask, known: Circumstances) -> datetime:
    """Return when a task ended: as it says, but neither before it was made nor after we saw it."""
    seen = known.ended_since or known.now
    said = (task.status.finished_at, *(step.finished_at for step in task.status.steps))
    found = max((one for one in map(times.parse, said) if one is not None), default=seen)
    made = times.parse(task.metadata.creation_timestamp) or found
    return min(max(found, made), seen)
