"""How far a rollout may be now, from how far it was and what hosts report. Pure.

| phase       | means                                 | ends when                                           |
|-------------|---------------------------------------|-----------------------------------------------------|
| Waiting     | nobody can prove the change now       | a canary or a host of the stage is there            |
| Progressing | some host of the stage is not healthy | all are, or their deadline is over: they failed     |
| Soaking     | all are healthy                       | the soak is over: the next stage, or the end        |
| Paused      | somebody said so, or too many failed  | somebody says so                                    |
| Undoing     | hosts return to what is stable        | none that is alive reports the change any more      |

Whatever the phase: as many failed hosts as `stopAfter` stop it. It is over when all hosts have the change.
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
    RolloutStatus,
    Turn,
)
from nodemanager.fleet.rollout import looking, stages, turns
from nodemanager.fleet.rollout.beginning import is_stopped, stable
from nodemanager.fleet.rollout.facts import UNAWARE, Progress, RolloutHost
from nodemanager.fleet.rollout.looking import Look, Seen, elapsed, seconds
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import times, wording
from nodemanager.kube.wording import plural

MAX_NAMED: Final = 5
MAX_MESSAGE: Final = 1024
"""Characters, as in the schema of the status."""
NOT_RETURNED: Final = "; still have it: "
SILENCE_SECONDS: Final = 84.0
"""After so long, hosts that are gone are known to be: the patience of whoever judges signs of life."""


class Decision(NamedTuple):
    """What is to be published, and when to look again if nothing happens."""

    status: RolloutStatus
    again: float | None = None
    """Seconds; None = only when something happens."""
    witness: Witness = Witness()
    """What this process knows after it."""


def decide(rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], look: Look) -> Decision:
    """Return the next status; one step per look."""
    if status.next is None:
        return _settled(rollout, status, hosts, look.now)
    status = stages.refitted(rollout, status, hosts, edited=look.edited)
    seen = looking.of(rollout, status, hosts, look)
    counted = msgspec.structs.replace(status, counts=seen.counts)
    if is_stopped(counted):
        return Decision(counted)
    if len(seen.failed) >= rollout.stop_after or (seen.failed and len(seen.failed) == len(seen.awake)):
        return Decision(_stopped(rollout, counted, seen, look.now))
    if rollout.paused:
        said = "somebody paused it: spec.rollout.paused"
        return Decision(_in(counted, PAUSED, RolloutReason.PAUSED, said, look.now))
    if not hosts and not status.stage and not status.turns:
        return Decision(stable(counted, counted.next, RolloutReason.NO_HOSTS, look.now))
    return _advance(rollout, counted, seen, look)


def _advance(rollout: Rollout, status: RolloutStatus, seen: Seen, look: Look) -> Decision:
    now, no_canary = look.now, not any(one.canary for one in seen.hosts)
    if status.stage == 1 and status.canary is not None and rollout.canary is None and no_canary:
        status = msgspec.structs.replace(status, stage=0, canary=None, turns=[])  # nobody has begun it
    sizes = _sizes(rollout, status, seen)
    if status.stage == 0 and not (seen.awake or seen.put_off):
        return Decision(_begin_stage(rollout, status, seen, sizes, now))
    words = f"stage {status.stage} of {len(sizes)}" if status.stage else f"before stage 1 of {len(sizes)}"
    size = sizes[status.stage - 1] if status.stage else len(seen.moved)
    if size == 0 and no_canary and seen.hosts:
        wanted = rollout.canary.selector if rollout.canary else status.canary
        told = _in(status, WAITING, RolloutReason.NO_CANARY, f"{words}: there is no canary", now)
        fresh = status.turns if wanted == status.canary else [Turn(at=times.rfc3339(now))]
        return Decision(msgspec.structs.replace(told, canary=wanted, turns=fresh))
    limit, all_have_it = _limit(rollout, status, seen, size), len(seen.moved) == len(seen.hosts)
    if (
        limit > status.threshold and not all_have_it
    ):  # also when those that were to prove it have left or fallen silent
        return Decision(_raised(rollout, status, limit, words, now))
    if (wait := _waits(rollout, status, seen, words, look)) is not None:
        return wait
    well = f"{words}: all its hosts are healthy{_left_behind(seen)}"
    told = _in(status, SOAKING, RolloutReason.SOAKING, well, now)
    soak = seconds(rollout.soak)
    left = max(soak - elapsed(told, now), min(soak, SILENCE_SECONDS) - look.watched)
    if left > 0:
        return Decision(told, left)
    if late := seen.unproven:  # they do not begin the soak anew
        said = f"{words}: waits for {_named(late)}, which fell silent or came back meanwhile"
        return Decision(_in(status, SOAKING, RolloutReason.SOAKING, said, now), seen.again)
    if all_have_it:
        return Decision(stable(status, status.next, RolloutReason.ROLLED_OUT, now, _left_behind(seen)[2:]))
    return Decision(_begin_stage(rollout, status, seen, sizes, now))


def _waits(rollout: Rollout, status: RolloutStatus, seen: Seen, words: str, look: Look) -> Decision | None:
    """Return what a stage waits for that has all its hosts; None = they are healthy."""
    if seen.holding or (seen.awake and not seen.healthy):
        said = f"{words}: waits for {_named(seen.holding or seen.bad)}{_besides(seen)}"
        told = _in(status, PROGRESSING, RolloutReason.HOSTS_UNPROVEN, said, look.now)
        same = told.since == status.since
        return Decision(told, seen.again if same else looking.of(rollout, told, seen.hosts, look).again)
    if seen.put_off:
        said = f"{words}: {_named(seen.put_off)}"
        return Decision(_in(status, WAITING, RolloutReason.HOSTS_PUT_OFF, said, look.now))
    if not seen.awake:
        said = f"{words}: no host of it is there{_besides(seen)}"
        return Decision(_in(status, WAITING, RolloutReason.HOSTS_SILENT, said, look.now))
    return None


def _sizes(rollout: Rollout, status: RolloutStatus, seen: Seen) -> list[int]:
    canaries = (status.canary if _has_begun(status) else rollout.canary) is not None
    return stages.sizes(rollout, len(seen.hosts), canaries=canaries)


def _begin_stage(
    rollout: Rollout, status: RolloutStatus, seen: Seen, sizes: Sequence[int], now: datetime
) -> RolloutStatus:
    stage = status.stage + 1
    while stage < len(sizes) and 0 < sizes[stage - 1] <= len(seen.moved):
        stage += 1  # so many have it already
    canary = rollout.canary.selector if rollout.canary and not _has_begun(status) else status.canary
    begun = msgspec.structs.replace(status, stage=stage, canary=canary)
    limit = _limit(rollout, begun, seen, sizes[stage - 1])
    return _raised(rollout, begun, limit, f"stage {stage} of {len(sizes)}", now)


def _limit(rollout: Rollout, status: RolloutStatus, seen: Seen, size: int) -> int:
    """Return the threshold for a stage: never more hosts on their way to it than maxUnavailable."""
    if size == 0:
        return status.threshold
    part = size
    if rollout.max_unavailable is not None:
        room = stages.count(rollout.max_unavailable, len(seen.hosts)) - len(seen.unproven) - len(seen.put_off)
        part = len(seen.moved) + max(0, room)
    return stages.in_parts(seen.hosts, size, part, status.threshold)


def _has_begun(status: RolloutStatus) -> bool:
    return bool(status.stage or status.threshold or status.turns)


def _raised(rollout: Rollout, status: RolloutStatus, limit: int, words: str, now: datetime) -> RolloutStatus:
    """Return the status with more hosts; the clocks of those before them go on."""
    begun = turns.noted(status, limit, now, seconds(rollout.progress_deadline))
    return _in(begun, PROGRESSING, RolloutReason.HOSTS_UNPROVEN, f"{words} has begun", now)


def _stopped(rollout: Rollout, status: RolloutStatus, seen: Seen, now: datetime) -> RolloutStatus:
    number = status.next.revision if status.next else 0
    said = f"revision {number} failed on {_named(seen.failed)}"
    if rollout.on_failure == PAUSE:
        return _in(status, PAUSED, RolloutReason.STOPPED, said, now)
    back = msgspec.structs.replace(
        status, next=None, refused=status.next, canary=None, threshold=0, stage=0, started_at=None, turns=[]
    )
    lost = [one for one in seen.awake if one.progress is Progress.LOST]
    silent = f"; {_named(lost)} did not say that they returned" if lost else ""
    said = f"{said}, and is undone{silent}{_besides(seen)}"
    return _in(back, UNDOING, RolloutReason.HOSTS_RETURNING, said, now)


def _settled(
    rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], now: datetime
) -> Decision:
    """Return how far hosts are that return from what was undone or reverted; else nothing is to be done."""
    if status.refused is None:
        return Decision(status)
    reverted, message = status.reason == RolloutReason.REVERTED, status.message.partition(NOT_RETURNED)[0]
    if late := looking.returning(hosts):
        reason = RolloutReason.REVERTED if reverted else RolloutReason.HOSTS_RETURNING
        told = _in(status, UNDOING, reason, message, now)
        if status.reason == RolloutReason.HOSTS_NOT_RETURNED:
            left = 0.0
        else:
            left = seconds(rollout.progress_deadline) - elapsed(told, now)
        if left > 0:
            return Decision(told, left)
        said = f"{message}{NOT_RETURNED}{_named(late)}"
        late_reason = reason if reverted else RolloutReason.HOSTS_NOT_RETURNED
        return Decision(_in(status, UNDOING, late_reason, said, now))
    if reverted:
        return Decision(stable(status, status.stable, RolloutReason.NO_CHANGE, now))
    return Decision(_in(status, UNDONE, RolloutReason.HOSTS_FAILED, message, now))


def _in(
    status: RolloutStatus, phase: str, reason: RolloutReason, message: str, now: datetime
) -> RolloutStatus:
    """Return the status in a phase; since when is kept while that is the same, and not in the future."""
    kept = status.phase == phase and status.reason == reason and elapsed(status, now) >= 0
    since = status.since if kept else times.rfc3339(now)
    said = wording.shorten(message, MAX_MESSAGE)
    return msgspec.structs.replace(status, phase=phase, reason=reason, message=said, since=since)


def _named(hosts: Sequence[RolloutHost]) -> str:
    names = sorted(f"{one.name} ({one.why})" if one.why else one.name for one in hosts)
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {plural(more, 'more host')}" if more > 0 else "")


def _left_behind(seen: Seen) -> str:
    """Return what has to be said of hosts that failed, and are too few to stop it."""
    count = seen.counts.failed
    if not count:
        return ""
    return f"; {_named(seen.failed) or plural(count, 'host')} failed, fewer than stopAfter"


def _besides(seen: Seen) -> str:
    """Return what has to be said of hosts that nobody waits for."""
    unaware = sum(one.why == UNAWARE for one in seen.hosts)
    if not unaware:
        return ""
    return f"; {plural(unaware, 'host')} took it at once and will not return: the agent there knows no stages"
