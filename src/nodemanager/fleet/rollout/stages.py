"""How many hosts are in a stage, and which threshold gives that number."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from nodemanager.api.common.rollout import SCALE, STAGES, Rollout, RolloutStatus
from nodemanager.fleet.rollout.facts import RolloutHost, RolloutProgress


def count(size: int | str, total: int) -> int:
    """Return a number of hosts, or a percentage of them: rounded down, but at least 1."""
    text = str(size)
    return max(1, total * int(text[:-1]) // 100) if text.endswith("%") else int(text)


def sizes(rollout: Rollout, total: int, *, canaries: bool) -> list[int]:
    """Return how many hosts have the change after each stage; 0 is the stage of the canaries."""
    found = [min(total, count(one, total)) for one in rollout.stages or STAGES]
    if found[-1] < total:
        found.append(total)
    return [0, *found] if canaries else found


def moved(status: RolloutStatus, hosts: Sequence[RolloutHost]) -> list[RolloutHost]:
    """Return the hosts whose turn is now or was before."""
    return [one for one in hosts if one.canary or one.position < status.threshold]


def refitted(
    rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], *, edited: bool
) -> RolloutStatus:
    """Return the status in its stage after the sizes were edited: the last stage that its hosts fill.

    No further host takes the change because of an edit: its stage must be proven before the next one. If
    they do not even fill the first stage, it is stage 0.
    """
    found = sizes(rollout, len(hosts), canaries=status.canary is not None)
    if status.stage == 0 or not (edited or status.stage > len(found)):
        return status
    have = len(moved(status, hosts))
    done = [number for number, size in enumerate(found[: status.stage], 1) if size <= have]
    return msgspec.structs.replace(status, stage=max(done, default=0 if have else 1))


def threshold(hosts: Sequence[RolloutHost], size: int, old: int = 0) -> int:
    """Return the threshold at which so many hosts have the change, never less than it was.

    Canaries have it anyway, and count. If all that would take it are silent, it goes on to the first that is
    not: somebody has to prove it. Of hosts at the same place all or none take it.
    """
    if size >= len(hosts):
        return SCALE
    others = sorted(one.position for one in hosts if not one.canary)
    room = size - (len(hosts) - len(others))
    found = _just_above(others, room) if room > 0 else 0
    awake = [one for one in hosts if one.progress is not RolloutProgress.ABSENT]
    if awake and not any(one.canary or one.position < max(found, old) for one in awake):
        found = min(one.position for one in awake) + 1
    return max(old, found)


def in_parts(hosts: Sequence[RolloutHost], size: int, part: int, old: int) -> int:
    """Return the threshold on the way to that of a stage, at which at most `part` hosts have the change.

    Hosts at the same place go together, also where that is one more than there is room for.
    """
    whole, found = threshold(hosts, size, old), threshold(hosts, min(size, part), old)
    if found > old or whole <= old or part <= sum(one.canary or one.position < old for one in hosts):
        return found
    following = min(one.position for one in hosts if not one.canary and one.position >= old)
    return min(whole, following + 1)


def _just_above(positions: Sequence[int], room: int) -> int:
    last = positions[room - 1]
    shared = room < len(positions) and positions[room] == last
    below = [one for one in positions[:room] if one < last]
    return below[-1] + 1 if shared and below else last + 1
