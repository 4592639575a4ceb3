"""What one look at the hosts of a rollout finds: which have the change, proved it, or ran out of time.

Each host has a clock of its own. It begins with its turn, or when the host is heard again, or when it is not
healthy any more. Time in which nobody could have heard it does not count. The clock of one that is lost is
how long it is silent, in every phase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from nodemanager.api.common.rollout import PROGRESSING, SOAKING, Rollout, RolloutCounts, RolloutStatus
from nodemanager.fleet.rollout import stages
from nodemanager.fleet.rollout.facts import RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.gates import RolloutGates
from nodemanager.fleet.rollout.remembering import HostMemory
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import times
from nodemanager.kube.go import durations

PATIENCE_SECONDS: Final = 600.0
"""The longest extra time a host gets after the operator could not hear it; the operator may restart often."""


class RolloutLook(NamedTuple):
    """One look, and what must be known for it."""

    now: datetime
    watched: float = math.inf
    """Seconds since we last might have missed a report."""
    edited: bool = False
    """Whether the spec has changed since the last look."""
    witness: Witness = Witness()
    gates: RolloutGates = RolloutGates()
    memory: HostMemory | None = None
    """Results of earlier looks. They only save work: the decision is the same without them."""


class RolloutHosts(NamedTuple):
    """Hosts, grouped by what the decision needs."""

    hosts: Sequence[RolloutHost]
    moved: Sequence[RolloutHost]
    awake: Sequence[RolloutHost]
    """Hosts whose turn it is or was, without those that are absent or put off."""
    put_off: Sequence[RolloutHost]
    failed: Sequence[RolloutHost]
    """Awake hosts that report a failure or ran out of time."""
    unproven: Sequence[RolloutHost]
    """Other unhealthy hosts, less as many as were counted as failed before and are not in `failed` now."""
    holding: Sequence[RolloutHost]
    """Unproven hosts that interrupt a soak: all but those that came back or fell silent since it began."""
    again: float | None
    """Seconds until the next unhealthy host runs out of time; None = no host will."""

    @property
    def bad(self) -> list[RolloutHost]:
        """The awake hosts that are not healthy."""
        return [one for one in self.awake if one.progress is not RolloutProgress.HEALTHY]

    @property
    def away(self) -> list[RolloutHost]:
        """All hosts that are unavailable for another cause than this rollout."""
        own = {one.name for one in (*self.unproven, *self.put_off)}
        return [one for one in self.hosts if one.away and one.name not in own]

    @property
    def healthy(self) -> int:
        """How many of the awake hosts are healthy."""
        return sum(one.progress is RolloutProgress.HEALTHY for one in self.awake)

    @property
    def counts(self) -> RolloutCounts:
        """The numbers that the status publishes."""
        return RolloutCounts(
            hosts=len(self.hosts),
            moved=len(self.moved),
            healthy=self.healthy,
            failed=len(self.awake) - self.healthy - len(self.unproven),
            silent=len(self.moved) - len(self.awake) - len(self.put_off),
        )


def of(
    rollout: Rollout, status: RolloutStatus, hosts: Sequence[RolloutHost], look: RolloutLook
) -> RolloutHosts:
    """Return what a look finds."""
    moved = stages.moved(status, hosts)
    awake = [one for one in moved if one.progress not in (RolloutProgress.ABSENT, RolloutProgress.PUT_OFF)]
    bad = [one for one in awake if one.progress is not RolloutProgress.HEALTHY]
    clock = _Clock(seconds(rollout.progress_deadline), times.parse(status.since), status.phase, look)
    left = {one.name: clock.left(one) for one in bad}
    failed = [one for one in bad if one.progress is RolloutProgress.FAILED or left[one.name] <= 0]
    gone = {one.name for one in failed}
    others = [one for one in bad if one.name not in gone]
    known = status.counts.failed if status.counts else 0
    given_up = max(0, min(known, len(bad)) - len(failed))
    unproven = others[given_up:]
    holding = [one for one in unproven if not clock.is_back(one)]
    again = min((left[one.name] for one in others), default=math.inf)
    put_off = [one for one in moved if one.progress is RolloutProgress.PUT_OFF]
    return RolloutHosts(
        hosts, moved, awake, put_off, failed, unproven, holding, again if again < math.inf else None
    )


def returning(hosts: Sequence[RolloutHost]) -> list[RolloutHost]:
    """Return the hosts that still have what was undone."""
    return [one for one in hosts if one.progress is RolloutProgress.UNPROVEN]


def elapsed(status: RolloutStatus, now: datetime) -> float:
    """Return how many seconds the rollout is in its phase; negative = its beginning is in the future."""
    since = times.parse(status.since)
    return -1.0 if since is None else (now - since).total_seconds()


def seconds(text: str) -> float:
    """Return a duration of a spec."""
    return durations.parse(text) if text else 0.0


class _Clock(NamedTuple):
    """Calculates how much time hosts have left."""

    deadline: float
    since: datetime | None
    """When the phase began."""
    phase: str
    look: RolloutLook

    def is_back(self, host: RolloutHost) -> bool:
        """Tell whether a host came back, or fell silent, since a soak began."""
        since = self.since
        return self.phase == SOAKING and host.back is not None and since is not None and host.back > since

    def left(self, host: RolloutHost) -> float:
        """Return how many seconds a host has left to become healthy."""
        now, starts = self.look.now, [host.back]
        if host.progress is not RolloutProgress.LOST:
            if self.since is None or (self.phase != PROGRESSING and not self.is_back(host)):
                return math.inf
            starts += [self.since, host.turn, self.look.witness.relapsed.get(host.name)]
        start = max((one for one in starts if one is not None and one <= now), default=now)
        ends = (start - now).total_seconds() + self.deadline
        return max(ends, min(self.deadline, PATIENCE_SECONDS) - self.look.watched)
