"""How far a rollout may be now, from how far it was and what hosts report. Pure.

| phase       | means                                 | ends when                                           |
|-------------|---------------------------------------|-----------------------------------------------------|
| Waiting     | nobody can prove the change           | a canary or a host of the stage is there            |
| Progressing | some host of the stage is not healthy | all are, or the deadline is over: those have failed |
| Soaking     | all are healthy                       | the soak is over: the next stage, or the end        |
| Paused      | somebody said so, or too many failed  | somebody says so                                    |
| Undoing     | hosts return to what is stable        | none that is alive reports the change any more      |

Whatever the phase: as many failed hosts as `stopAfter` stop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common.rollout import (
    PAUSE,
    PAUSED,
    PROGRESSING,
    SOAKING,
    UNDOING,
    UNDONE,
    WAITING,
    Rollout,
    RolloutCounts,
    RolloutStatus,
)
from nodemanager.fleet.rollout import stages
from nodemanager.fleet.rollout.beginning import is_stopped, stable
from nodemanager.fleet.rollout.facts import Progress, RolloutHost
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times
from nodemanager.kube.go import durations
from nodemanager.kube.wording import plural

MAX_NAMED: Final = 5


class Decision(NamedTuple):
    """What is to be published, and when to look again if nothing happens."""

    status: RolloutStatus
    again: float | None = None
    """Seconds; None = only when something happens."""


class _Seen(NamedTuple):
    """Hosts, by what matters."""

    hosts: Sequence[RolloutHost]
    moved: Sequence[RolloutHost]
    awake: Sequence[RolloutHost]
    """Those that moved and are neither silent nor held."""
    bad: Sequence[RolloutHost]
    """Those of them that are not healthy."""
    failed: Sequence[RolloutHost]
    late: bool
    """Those that are not healthy had their time."""


def decide(rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], now: datetime) -> Decision:
    """Return the next status; one step per look."""
    if status.next is None:
        return _settled(status, hosts, now)
    seen = _look(rollout, status, hosts, now)
    given_up = _given_up(status, seen)
    counted = msgspec.structs.replace(status, counts=_counts(seen, given_up))
    if is_stopped(counted):
        return Decision(counted)
    if len(seen.failed) >= rollout.stop_after or (
        seen.late and seen.awake and len(seen.bad) == len(seen.awake)
    ):
        return Decision(_stopped(rollout, counted, seen, now))
    if not hosts:
        return Decision(stable(counted, counted.next, RolloutReason.NO_HOSTS, now))
    if rollout.paused:
        said = "somebody paused it: spec.rollout.paused"
        return Decision(_in(counted, PAUSED, RolloutReason.PAUSED, said, now))
    return _advance(rollout, counted, seen, given_up, now)


def _look(rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], now: datetime) -> _Seen:
    moved = stages.moved(status, hosts)
    awake = [one for one in moved if one.progress is not Progress.ABSENT]
    bad = [one for one in awake if one.progress is not Progress.HEALTHY]
    deadline = _seconds(rollout.progress_deadline)
    late = status.phase == PROGRESSING and _elapsed(status, now) >= deadline
    failed = bad if late else [one for one in bad if one.progress is Progress.FAILED]
    return _Seen(hosts, moved, awake, bad, failed, late)


def _given_up(status: RolloutStatus, seen: _Seen) -> int:
    """Return how many hosts that are not healthy the stage does not wait for any more: fewer than stop it."""
    if seen.late:
        return len(seen.bad)
    known = status.counts.failed if status.phase == SOAKING and status.counts else 0
    return known if len(seen.bad) <= known else 0


def _counts(seen: _Seen, given_up: int) -> RolloutCounts:
    return RolloutCounts(
        hosts=len(seen.hosts),
        moved=len(seen.moved),
        healthy=len(seen.awake) - len(seen.bad),
        failed=max(len(seen.failed), min(given_up, len(seen.bad))),
        silent=len(seen.moved) - len(seen.awake),
    )


def _advance(rollout: Rollout, status: RolloutStatus, seen: _Seen, given_up: int, now: datetime) -> Decision:
    canaries = (rollout.canary if status.stage == 0 else status.canary) is not None
    sizes = stages.sizes(rollout, len(seen.hosts), canaries=canaries)
    if status.stage == 0:
        return _begin_stage(rollout, status, seen, sizes, now)
    size = sizes[min(status.stage, len(sizes)) - 1]
    words = f"stage {min(status.stage, len(sizes))} of {len(sizes)}"
    if size == 0 and not any(one.canary for one in seen.hosts):
        wanted = rollout.canary.selector if rollout.canary else status.canary
        told = _in(status, WAITING, RolloutReason.NO_CANARY, f"{words}: there is no canary", now)
        return Decision(msgspec.structs.replace(told, canary=wanted))
    limit = stages.threshold(seen.hosts, _part(rollout, seen, size), status.threshold) if size else 0
    if limit > status.threshold:  # also when those that were to prove it have left or fallen silent
        return Decision(_raised(status, limit, words, now))
    if not seen.awake:
        said = f"{words}: no host of it is there"
        return Decision(_in(status, WAITING, RolloutReason.HOSTS_SILENT, said, now))
    if len(seen.bad) > given_up:
        said = f"{words}: waits for {_named(seen.bad)}"
        told = _in(status, PROGRESSING, RolloutReason.HOSTS_UNPROVEN, said, now)
        return Decision(told, _seconds(rollout.progress_deadline) - _elapsed(told, now))
    told = _in(status, SOAKING, RolloutReason.SOAKING, f"{words}: all its hosts are healthy", now)
    if (left := _seconds(rollout.soak) - _elapsed(told, now)) > 0:
        return Decision(told, left)
    if status.stage >= len(sizes) or len(seen.moved) == len(seen.hosts):
        return Decision(stable(status, status.next, RolloutReason.ROLLED_OUT, now))
    return _begin_stage(rollout, status, seen, sizes, now)


def _begin_stage(
    rollout: Rollout, status: RolloutStatus, seen: _Seen, sizes: Sequence[int], now: datetime
) -> Decision:
    stage = status.stage + 1
    while stage < len(sizes) and 0 < sizes[stage - 1] <= len(seen.moved):
        stage += 1  # so many have it already
    size = sizes[stage - 1]
    canary = rollout.canary.selector if rollout.canary and not status.stage else status.canary
    limit = stages.threshold(seen.hosts, _part(rollout, seen, size), status.threshold) if size else 0
    begun = msgspec.structs.replace(status, stage=stage, canary=canary)
    return Decision(_raised(begun, limit, f"stage {stage} of {len(sizes)}", now))


def _part(rollout: Rollout, seen: _Seen, size: int) -> int:
    """Return how many hosts may have it now: never more on their way to it than maxUnavailable."""
    if rollout.max_unavailable is None:
        return size
    room = stages.count(rollout.max_unavailable, len(seen.hosts)) - len(seen.bad)
    return min(size, len(seen.moved) + max(0, room))


def _raised(status: RolloutStatus, limit: int, words: str, now: datetime) -> RolloutStatus:
    return msgspec.structs.replace(
        status,
        threshold=limit,
        phase=PROGRESSING,
        reason=RolloutReason.HOSTS_UNPROVEN,
        message=f"{words} has begun",
        since=times.rfc3339(now),
    )


def _stopped(rollout: Rollout, status: RolloutStatus, seen: _Seen, now: datetime) -> RolloutStatus:
    bad = seen.failed or seen.bad
    number = status.next.revision if status.next else 0
    if rollout.on_failure == PAUSE:
        return _in(status, PAUSED, RolloutReason.STOPPED, f"revision {number} failed on {_named(bad)}", now)
    back = msgspec.structs.replace(
        status, next=None, refused=status.next, canary=None, threshold=0, stage=0, started_at=None
    )
    said = f"revision {number} failed on {_named(bad)}, and is undone"
    return _in(back, UNDOING, RolloutReason.HOSTS_RETURNING, said, now)


def _settled(status: RolloutStatus, hosts: Sequence[RolloutHost], now: datetime) -> Decision:
    """Return how far hosts are that return from what was undone; otherwise nothing is to be done."""
    if status.refused is None:
        return Decision(status)
    if any(one.has_refused for one in hosts):
        return Decision(_in(status, UNDOING, RolloutReason.HOSTS_RETURNING, status.message, now))
    return Decision(_in(status, UNDONE, RolloutReason.HOSTS_FAILED, status.message, now))


def _in(
    status: RolloutStatus, phase: str, reason: RolloutReason, message: str, now: datetime
) -> RolloutStatus:
    """Return the status in a phase; since when is kept while that is the same, and not in the future."""
    kept = status.phase == phase and status.reason == reason and _elapsed(status, now) >= 0
    since = status.since if kept else times.rfc3339(now)
    return msgspec.structs.replace(status, phase=phase, reason=reason, message=message, since=since)


def _elapsed(status: RolloutStatus, now: datetime) -> float:
    since = times.parse(status.since)
    return -1.0 if since is None else (now - since).total_seconds()


def _seconds(text: str) -> float:
    return durations.parse(text) if text else 0.0


def _named(hosts: Sequence[RolloutHost]) -> str:
    names = sorted(one.name for one in hosts)
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {plural(more, 'more host')}" if more > 0 else "")
