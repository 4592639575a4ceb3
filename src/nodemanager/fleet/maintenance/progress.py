"""How far each host of a run is: from its claim, and from the NodeTasks of the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from nodemanager.fleet.maintenance import facts
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, TaskFacts
from nodemanager.fleet.maintenance.reasons import Reason

FIRST_RETRY: Final = timedelta(seconds=10)
LONGEST_RETRY: Final = timedelta(minutes=6)
"""The longest wait between two tries, the same as that of a Job."""
_NOT_ITS_FAULT: Final = frozenset((Reason.TIME_TOO_SHORT, Reason.DELETED, Reason.ABORTED))
"""Ends that do not count as a failed try: something else came in between before anything was done."""
_LEFT_OUT: Final = frozenset((Reason.DRAIN_TIMED_OUT, Reason.TIME_TOO_SHORT))
"""Ends after which a host counts as skipped, not as failed: nothing was done to it."""


class HostStage(StrEnum):
    """How far a host is."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


_ENDS: Final = frozenset((HostStage.SUCCEEDED, HostStage.FAILED, HostStage.SKIPPED))


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a host in a run."""

    stage: HostStage = HostStage.WAITING
    attempt: int = 0
    """The next try, or the one that is under way, or the last."""
    reason: Reason | None = None
    """How it ended, or what the last try ended with."""
    ended: datetime | None = None
    retry_at: datetime | None = None
    stops: bool = False
    """Whether the run must stop, however many failures are allowed: drain.onTimeout is stop."""

    @property
    def is_end(self) -> bool:
        """Whether the run has finished with this host."""
        return self.stage in _ENDS


_UNTOUCHED: Final = RunProgress()


@dataclass(frozen=True, slots=True)
class _End:
    attempt: int
    succeeded: bool
    reason: Reason
    at: datetime
    stops: bool = False


_TASK_ENDS: Final = {
    facts.SUCCEEDED: Reason.SUCCEEDED,
    facts.FAILED: Reason.TASK_FAILED,
    facts.UNDONE: Reason.TASK_UNDONE,
    facts.HALTED: Reason.TASK_HALTED,
    facts.EXPIRED: Reason.TASK_EXPIRED,
    facts.REFUSED: Reason.TASK_REFUSED,
}


def of_host(
    host: HostFacts | None,
    run: str,
    tasks: Sequence[TaskFacts],
    backoff_limit: int,
    retried_at: datetime | None = None,
) -> RunProgress:
    """Return the progress of a host. None: the host is gone, and only its tasks tell."""
    if not tasks and (host is None or host.claim is None):
        return _UNTOUCHED
    claim = host.claim if host is not None and isinstance(host.claim, Claim) else None
    own = claim if claim is not None and host is not None and _is_of(claim, host, run) else None
    if own is not None and own.holds:
        return RunProgress(HostStage.RUNNING, own.attempt)
    ends = sorted(_ends(own, tasks), key=lambda end: end.attempt)
    if not ends:
        return _UNTOUCHED
    last = ends[-1]
    if last.succeeded:
        return RunProgress(HostStage.SUCCEEDED, last.attempt, last.reason, last.at)
    tries = [
        end
        for end in ends
        if end.reason not in _NOT_ITS_FAULT and (retried_at is None or end.at > retried_at)
    ]
    if len(tries) > backoff_limit:
        left_out = last.reason in _LEFT_OUT and not last.stops
        stage = HostStage.SKIPPED if left_out else HostStage.FAILED
        return RunProgress(stage, last.attempt, last.reason, last.at, stops=last.stops)
    pause = min(FIRST_RETRY * 2 ** min(len(tries), 10), LONGEST_RETRY) if tries else timedelta()
    return RunProgress(HostStage.WAITING, last.attempt + 1, last.reason, last.at, retry_at=last.at + pause)


def _is_of(claim: Claim, host: HostFacts, run: str) -> bool:
    return claim.run == run and claim.host_uid == host.uid


def _ends(claim: Claim | None, tasks: Iterable[TaskFacts]) -> list[_End]:
    """Return how every try ended. While the claim is there, it decides about its own try."""
    found = {task.attempt: _end(task, task.ended) for task in tasks if task.is_end and task.ended is not None}
    if claim is not None:
        stops = claim.state is State.HALTED and claim.reason is Reason.DRAIN_TIMED_OUT
        done = claim.state is State.DONE
        reason = claim.reason or (Reason.SUCCEEDED if done else Reason.TASK_FAILED)
        found[claim.attempt] = _End(claim.attempt, done, reason, claim.since, stops)
    return list(found.values())


def _end(task: TaskFacts, at: datetime) -> _End:
    """Return how the try of a task ended, which is known also when another maintenance has the host now."""
    if task.phase == facts.SUCCEEDED and task.not_done is not None:
        return _End(task.attempt, succeeded=False, reason=task.not_done, at=at)
    reason = Reason.TIME_TOO_SHORT if task.missed_window else _TASK_ENDS[task.phase]
    return _End(task.attempt, task.phase == facts.SUCCEEDED, reason, at)
