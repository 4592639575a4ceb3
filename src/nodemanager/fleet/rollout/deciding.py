"""How far a rollout may go now, from its status and what hosts report. Pure.

| phase       | means                                 | ends when                                           |
|-------------|---------------------------------------|-----------------------------------------------------|
| Waiting     | nobody can prove the change now, or   | a canary or a host of the stage is there;           |
|             | something keeps hosts from it         | it does not (`gates`)                               |
| Progressing | some host of the stage is not healthy | all are, or their deadline is over: they failed     |
| Soaking     | all are healthy                       | the soak is over: the next stage, or the end        |
| Paused      | somebody said so, or too many failed  | somebody says so                                    |
| Undoing     | hosts return to what is stable        | none that is alive reports the change any more      |

Whatever the phase: as many failed hosts as `stopAfter` stop it; in a soak, so does a gate of health. It is
over when all hosts have the change.
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
    RevisionRef,
    Rollout,
    RolloutStatus,
    ThresholdTurn,
)
from nodemanager.fleet.rollout import gates, looking, stages, widening
from nodemanager.fleet.rollout.beginning import called, is_stopped, stable
from nodemanager.fleet.rollout.facts import RolloutHost
from nodemanager.fleet.rollout.gates import Obstacle
from nodemanager.fleet.rollout.looking import RolloutHosts, RolloutLook, elapsed, seconds
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.telling import besides, in_phase, left_behind, named, not_returned, worked_on
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import times

NOT_RETURNED: Final = "; still have it: "
SILENCE_SECONDS: Final = 84.0
"""After so long, hosts that are gone are marked as silent: it is the patience of the liveness controller."""


class RolloutDecision(NamedTuple):
    """What to publish, and when to look again if no event comes."""

    status: RolloutStatus
    again: float | None = None
    """In seconds; None = only when an event comes."""
    witness: Witness = Witness()
    """What this process knows after the look."""


def decide(
    rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], look: RolloutLook
) -> RolloutDecision:
    """Return the next status; each look does one step."""
    if status.next is None:
        return _settled(rollout, status, hosts, look.now)
    status = stages.refitted(rollout, status, hosts, edited=look.edited)
    seen = looking.of(rollout, status, hosts, look)
    counted = msgspec.structs.replace(status, counts=seen.counts)
    if is_stopped(counted):
        return RolloutDecision(counted)
    if len(seen.failed) >= rollout.stop_after or (seen.failed and len(seen.failed) == len(seen.awake)):
        return RolloutDecision(_stopped(rollout, counted, seen, f"on {named(seen.failed)}", look.now))
    if rollout.paused:
        said = "somebody paused it: spec.rollout.paused"
        return RolloutDecision(in_phase(counted, PAUSED, RolloutReason.PAUSED, said, look.now))
    return _advance(rollout, counted, seen, look)


def _advance(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, look: RolloutLook
) -> RolloutDecision:
    now, no_canary = look.now, not any(one.canary for one in seen.hosts)
    if status.stage == 1 and status.canary is not None and rollout.canary is None and no_canary:
        status = msgspec.structs.replace(status, stage=0, canary=None, turns=[])  # nobody has begun it
    sizes = widening.sizes(rollout, status, seen)
    if status.stage == 0 and not (seen.awake or seen.put_off):
        return _first_stage(rollout, status, seen, sizes, look)
    words = f"stage {status.stage} of {len(sizes)}" if status.stage else f"before stage 1 of {len(sizes)}"
    size = sizes[status.stage - 1] if status.stage else len(seen.moved)
    if size == 0 and no_canary and seen.hosts:
        return _without_canary(rollout, status, words, look)
    # Also when those that should prove it have left or are silent.
    rises = widening.limit(rollout, status, seen, size, shared=False) > status.threshold
    rises = rises and widening.is_for_more(seen)
    limit = widening.limit(rollout, status, seen, size) if rises else status.threshold
    obstacle = _obstacle(seen, look, spent=limit <= status.threshold) if rises else None
    if rises and obstacle is None:
        return RolloutDecision(widening.raised(rollout, status, limit, words, now))
    wait = _waits(rollout, status, seen, words, look) if seen.moved or not rises else None
    if wait is not None:
        return wait if obstacle is None else RolloutDecision(wait.status, _sooner(wait, obstacle))
    if obstacle is not None and not (seen.moved and gates.says_no(look.gates)):
        return _kept_from(status, WAITING, obstacle, words, now)
    if (wait := _unwell(rollout, status, seen, words, look)) is not None:
        return wait
    return _proven(rollout, status, seen, sizes, look)


def _obstacle(seen: RolloutHosts, look: RolloutLook, *, spent: bool) -> Obstacle | None:
    """Return the first thing that keeps further hosts of a stage from the change.

    Gates of health come last: while something else is waited for, nobody has to know what they say.
    """
    budget = Obstacle(RolloutReason.BUDGET_SPENT, worked_on(seen), gates.LOOK_SECONDS) if spent else None
    return gates.shut(look.gates, look.now) or budget or gates.unwell(look.gates)


def _first_stage(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, sizes: Sequence[int], look: RolloutLook
) -> RolloutDecision:
    """Return what happens to a rollout if no host that has the change can prove it."""
    obstacle = gates.obstacle(look.gates, look.now)
    if obstacle is not None:
        return _kept_from(status, WAITING, obstacle, f"stage 1 of {len(sizes)}", look.now)
    if not seen.hosts and not status.turns:
        return RolloutDecision(stable(status, status.next, RolloutReason.NO_HOSTS, look.now))
    return RolloutDecision(widening.next_stage(rollout, status, seen, sizes, look.now))


def _without_canary(
    rollout: Rollout, status: RolloutStatus, words: str, look: RolloutLook
) -> RolloutDecision:
    now, obstacle = look.now, gates.obstacle(look.gates, look.now)
    told = in_phase(status, WAITING, RolloutReason.NO_CANARY, f"{words}: there is no canary", now)
    if obstacle is not None:
        return RolloutDecision(told, obstacle.again)
    wanted = rollout.canary.selector if rollout.canary else status.canary
    fresh = status.turns if wanted == status.canary else [ThresholdTurn(at=times.rfc3339(now))]
    return RolloutDecision(msgspec.structs.replace(told, canary=wanted, turns=fresh))


def _proven(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, sizes: Sequence[int], look: RolloutLook
) -> RolloutDecision:
    """Return what follows a stage whose hosts are all healthy: its soak, the next stage, or the end."""
    now, soak, failed = look.now, seconds(rollout.soak), left_behind(seen)
    words = f"stage {status.stage} of {len(sizes)}" if status.stage else f"before stage 1 of {len(sizes)}"
    well = f"{words}: all its hosts are healthy" + (f"; {failed}" if failed else "")
    told = in_phase(status, SOAKING, RolloutReason.SOAKING, well, now)
    left = max(soak - elapsed(told, now), min(soak, SILENCE_SECONDS) - look.watched)
    if soak > 0 and left > 0:
        return RolloutDecision(told, left)
    if late := seen.unproven:  # they do not begin the soak anew
        said = f"{words}: waits for {named(late)}, which fell silent or came back meanwhile"
        return RolloutDecision(in_phase(status, SOAKING, RolloutReason.SOAKING, said, now), seen.again)
    is_last = not widening.is_for_more(seen)
    obstacle = gates.unwell(look.gates) if is_last else gates.obstacle(look.gates, now)
    if obstacle is not None:
        return _kept_from(told, SOAKING, obstacle, f"{words} has soaked", now)
    if is_last:
        return RolloutDecision(stable(status, status.next, RolloutReason.ROLLED_OUT, now, failed))
    return RolloutDecision(widening.next_stage(rollout, status, seen, sizes, now))


def _unwell(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, words: str, look: RolloutLook
) -> RolloutDecision | None:
    """Return what gates of health do to a stage with healthy hosts; None = no change, or not now.

    A soak begins only when all gates hold. From then on a `no` stops it; a gate without an answer is waited
    for at its end.
    """
    found, blocks, soaks = look.gates.health, gates.unwell(look.gates), status.phase == SOAKING
    if found is None or blocks is None or (soaks and not found.is_no):
        return None
    told = _kept_from(status, WAITING, blocks, words, look.now)
    lasted = elapsed(told.status, look.now)
    if found.no_since is not None:  # without an answer now and then, the phase may be a new one each time
        lasted = max(lasted, (look.now - found.no_since).total_seconds())
    if found.is_no and (soaks or lasted >= found.patience):
        return RolloutDecision(_stopped(rollout, status, seen, f"at gate {found.said}", look.now))
    return told


def _kept_from(
    status: RolloutStatus, phase: str, obstacle: Obstacle, words: str, now: datetime
) -> RolloutDecision:
    told = in_phase(status, phase, obstacle.reason, f"{words}: {obstacle.message}", now)
    return RolloutDecision(told, obstacle.again)


def _sooner(wait: RolloutDecision, obstacle: Obstacle) -> float | None:
    return min((one for one in (wait.again, obstacle.again) if one is not None), default=None)


def _waits(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, words: str, look: RolloutLook
) -> RolloutDecision | None:
    """Return what a stage whose hosts all have the change still waits for; None = they are healthy."""
    if seen.holding or (seen.awake and not seen.healthy):
        said = f"{words}: waits for {named(seen.holding or seen.bad)}{besides(seen)}"
        told = in_phase(status, PROGRESSING, RolloutReason.HOSTS_UNPROVEN, said, look.now)
        same = told.since == status.since
        return RolloutDecision(
            told, seen.again if same else looking.of(rollout, told, seen.hosts, look).again
        )
    if seen.put_off:
        said = f"{words}: {named(seen.put_off)}"
        return RolloutDecision(in_phase(status, WAITING, RolloutReason.HOSTS_PUT_OFF, said, look.now))
    if not seen.awake:
        said = f"{words}: no host of it is there{besides(seen)}"
        return RolloutDecision(in_phase(status, WAITING, RolloutReason.HOSTS_SILENT, said, look.now))
    return None


def _stopped(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, where: str, now: datetime
) -> RolloutStatus:
    said = f"{called(status.next or RevisionRef())} failed {where}"
    if rollout.on_failure == PAUSE:
        return in_phase(status, PAUSED, RolloutReason.STOPPED, said, now)
    back = msgspec.structs.replace(
        status, next=None, refused=status.next, canary=None, threshold=0, stage=0, started_at=None, turns=[]
    )
    said = f"{said}, and is undone{not_returned(seen)}{besides(seen)}"
    return in_phase(back, UNDOING, RolloutReason.HOSTS_RETURNING, said, now)


def _settled(
    rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], now: datetime
) -> RolloutDecision:
    """Return how far hosts are that return from what was undone or reverted; else nothing is to be done."""
    if status.refused is None:
        return RolloutDecision(status)
    reverted, message = status.reason == RolloutReason.REVERTED, status.message.partition(NOT_RETURNED)[0]
    if late := looking.returning(hosts):
        reason = RolloutReason.REVERTED if reverted else RolloutReason.HOSTS_RETURNING
        told = in_phase(status, UNDOING, reason, message, now)
        if status.reason == RolloutReason.HOSTS_NOT_RETURNED:
            left = 0.0
        else:
            left = seconds(rollout.progress_deadline) - elapsed(told, now)
        if left > 0:
            return RolloutDecision(told, left)
        said = f"{message}{NOT_RETURNED}{named(late)}"
        late_reason = reason if reverted else RolloutReason.HOSTS_NOT_RETURNED
        return RolloutDecision(in_phase(status, UNDOING, late_reason, said, now))
    if reverted:
        return RolloutDecision(stable(status, status.stable, RolloutReason.NO_CHANGE, now))
    return RolloutDecision(in_phase(status, UNDONE, RolloutReason.HOSTS_FAILED, message, now))
