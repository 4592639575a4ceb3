"""Lets further hosts take a change: the next stage, or the next part of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from nodemanager.api.common.rollout import PROGRESSING, Rollout, RolloutStatus
from nodemanager.fleet.rollout import stages, telling, turns
from nodemanager.fleet.rollout.looking import RolloutHosts, seconds
from nodemanager.fleet.rollout.reasons import RolloutReason


def has_begun(status: RolloutStatus) -> bool:
    """Tell whether a host had its turn, or canaries should have had it."""
    return bool(status.stage or status.threshold or status.turns)


def is_for_more(seen: RolloutHosts) -> bool:
    """Tell whether there are hosts that had no turn yet."""
    return len(seen.moved) < len(seen.hosts)


def sizes(rollout: Rollout, status: RolloutStatus, seen: RolloutHosts) -> list[int]:
    """Return how many hosts have the change after each stage; 0 is the stage of the canaries."""
    canaries = (status.canary if has_begun(status) else rollout.canary) is not None
    return stages.sizes(rollout, len(seen.hosts), canaries=canaries)


def limit(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, size: int, *, shared: bool = True
) -> int:
    """Return the threshold for a stage: never more hosts on their way to it than maxUnavailable allows.

    Hosts that are unavailable for other causes count, too; `shared=False` leaves those out.
    """
    if size == 0:
        return status.threshold
    part = size
    if rollout.max_unavailable is not None:
        room = stages.count(rollout.max_unavailable, len(seen.hosts)) - len(seen.unproven) - len(seen.put_off)
        if shared and seen.away and (room := room - len(seen.away)) <= 0:
            return status.threshold
        part = len(seen.moved) + max(0, room)
    return stages.in_parts(seen.hosts, size, part, status.threshold)


def next_stage(
    rollout: Rollout, status: RolloutStatus, seen: RolloutHosts, found: Sequence[int], now: datetime
) -> RolloutStatus:
    """Return the status in the next stage; `found` are the sizes of all."""
    stage = status.stage + 1
    while stage < len(found) and 0 < found[stage - 1] <= len(seen.moved):
        stage += 1  # so many have it already
    canary = rollout.canary.selector if rollout.canary and not has_begun(status) else status.canary
    begun = msgspec.structs.replace(status, stage=stage, canary=canary)
    to = limit(rollout, begun, seen, found[stage - 1])
    return raised(rollout, begun, to, f"stage {stage} of {len(found)}", now)


def raised(rollout: Rollout, status: RolloutStatus, to: int, words: str, now: datetime) -> RolloutStatus:
    """Return the status with more hosts; the clocks of earlier hosts go on."""
    begun = turns.noted(status, to, now, seconds(rollout.progress_deadline))
    return telling.in_phase(begun, PROGRESSING, RolloutReason.HOSTS_UNPROVEN, f"{words} has begun", now)
