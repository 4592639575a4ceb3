"""What one look at the hosts of a rollout finds: who has the change, who proved it, and who had their time.

Each host has a clock of its own. It begins with the stage, or when the host is heard again, or when it says
something new of the change. Time in which nobody could have heard it does not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from nodemanager.api.common.rollout import PROGRESSING, SOAKING, Rollout, RolloutCounts, RolloutStatus
from nodemanager.fleet.rollout import stages
from nodemanager.fleet.rollout.facts import Progress, RolloutHost
from nodemanager.kube import times
from nodemanager.kube.go import durations

PATIENCE_SECONDS: Final = 600.0
"""So long at most hosts are given anew after nobody could hear them: who looks may be restarted often."""


class Look(NamedTuple):
    """One look, and what is to be known of it."""

    now: datetime
    watched: float = math.inf
    """Seconds for which nothing that hosts say has gone unseen."""
    edited: bool = False
    """The spec has changed since the last look."""


class Seen(NamedTuple):
    """Hosts, by what matters."""

    hosts: Sequence[RolloutHost]
    moved: Sequence[RolloutHost]
    awake: Sequence[RolloutHost]
    """Those that moved, can be asked, and are not put off."""
    put_off: Sequence[RolloutHost]
    failed: Sequence[RolloutHost]
    """Those of the awake that say so, or had their time."""
    unproven: Sequence[RolloutHost]
    """The others that are not healthy; without as many as had their time before, whoever these are now."""
    holding: Sequence[RolloutHost]
    """Those of them for which a soak does not go on."""
    again: float | None
    """Seconds until the first that is not healthy had its time."""

    @property
    def bad(self) -> list[RolloutHost]:
        """The awake that are not healthy."""
        return [one for one in self.awake if one.progress is not Progress.HEALTHY]

    @property
    def healthy(self) -> int:
        """How many are."""
        return sum(one.progress is Progress.HEALTHY for one in self.awake)

    @property
    def counts(self) -> RolloutCounts:
        """What is published of it."""
        return RolloutCounts(
            hosts=len(self.hosts),
            moved=len(self.moved),
            healthy=self.healthy,
            failed=len(self.awake) - self.healthy - len(self.unproven),
            silent=len(self.moved) - len(self.awake) - len(self.put_off),
        )


def of(rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], look: Look) -> Seen:
    """Return what a look finds."""
    moved = stages.moved(status, hosts)
    awake = [one for one in moved if one.progress not in (Progress.ABSENT, Progress.PUT_OFF)]
    bad = [one for one in awake if one.progress is not Progress.HEALTHY]
    left = {one.name: _left(rollout, status, one, look) for one in bad}
    failed = [one for one in bad if one.progress is Progress.FAILED or left[one.name] <= 0]
    others = [one for one in bad if one not in failed]
    known = status.counts.failed if status.counts else 0
    given_up = max(0, min(known, len(bad)) - len(failed))
    unproven = others[given_up:]
    holding = [one for one in unproven if not _is_back(status, one)]
    again = min((left[one.name] for one in others), default=math.inf)
    put_off = [one for one in moved if one.progress is Progress.PUT_OFF]
    return Seen(hosts, moved, awake, put_off, failed, unproven, holding, again if again < math.inf else None)


def returning(hosts: Sequence[RolloutHost]) -> bool:
    """Tell whether some host still has what was undone."""
    return any(one.progress is Progress.UNPROVEN for one in hosts)


def elapsed(status: RolloutStatus, now: datetime) -> float:
    """Return for how many seconds it is in its phase; negative = it is in the future."""
    since = times.parse(status.since)
    return -1.0 if since is None else (now - since).total_seconds()


def seconds(text: str) -> float:
    """Return a duration of a spec."""
    return durations.parse(text) if text else 0.0


def _is_back(status: RolloutStatus, host: RolloutHost) -> bool:
    """Tell whether a host is heard again since a soak began."""
    since = times.parse(status.since)
    return status.phase == SOAKING and host.back is not None and since is not None and host.back > since


def _left(rollout: Rollout, status: RolloutStatus, host: RolloutHost, look: Look) -> float:
    """Return how many seconds a host has left to become healthy."""
    began = times.parse(status.since)
    if began is None or (status.phase != PROGRESSING and not _is_back(status, host)):
        return math.inf
    deadline = seconds(rollout.progress_deadline)
    # Who says something new again and again, or comes and goes, gets its time twice, and not for ever.
    most = began + timedelta(seconds=deadline)
    news = [one for one in (host.back, host.told) if one is not None and one <= look.now]
    start = max([began, *(one if _is_back(status, host) else min(one, most) for one in news)])
    ends = (start - look.now).total_seconds() + deadline
    return max(ends, min(deadline, PATIENCE_SECONDS) - look.watched)
