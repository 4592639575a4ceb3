"""Judges which hosts are alive, by when this process *saw* their Leases renewed; the caller has the clock.

    a Lease changed its renewTime           -> seen
    no change for 1.4 times its duration    -> silent

The clock of a host is never asked: a `renewTime` is compared with the one before it, and means nothing else.
Time in which we could not have seen a renewal does not count either. After a start, and after an outage of
the API, every host gets as long to be seen again before it is called silent.

The 0.4 are for the renewal that was about to come: a host that is frozen, or cut off, for almost as long as
its Lease lasts may have renewed it up to a third of that before. So it is not called silent, and one that is
really silent is called so within one and a half durations.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Final

from nodemanager.fleet import lease_times
from nodemanager.fleet.lease_times import DEFAULT_DURATION

PATIENCE: Final = 1.4
"""Durations after which a Lease that was not renewed means silence."""


class Life(enum.Enum):
    """The state of a host."""

    ALIVE = "alive"
    SILENT = "silent"
    UNTOLD = "untold"
    """It has a Lease, but we have not watched it for long enough to judge."""
    NEVER = "never"
    """It has no Lease: its agent has never run, or sends no heartbeats."""


@dataclass(frozen=True, slots=True)
class LivenessJudgement:
    """The state of one host, and how long that stays true without an event."""

    life: Life
    silent_for: float = 0.0
    """Seconds since its Lease was last seen to be renewed."""
    again_in: float = math.inf
    """Seconds after which to judge again, if no renewal is seen before."""


@dataclass(slots=True)
class _Heartbeat:
    """The Lease of one host, as we saw it."""

    renewed: str
    """Its renewTime, which is only compared, never read as a time."""
    duration: float
    at: float
    """When it last changed, or when we saw it first."""
    changed: bool = False
    """Whether we saw it change, and not only saw it."""


TICK: Final = 1e-6
"""Seconds by which sums of times may be off by rounding, so that a caller that waited is not too early."""


class Heartbeats:
    """The Leases of all hosts; all times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._known: dict[str, _Heartbeat] = {}
        self._missing: dict[str, float] = {}
        """Since when we know of a host without a Lease: a new host gets one a moment later."""
        self._steady_since = -math.inf
        """The end of the last time in which a renewal could have been missed."""

    def saw(self, host: str, renewed: str, duration: float | None, now: float) -> bool:
        """Take note of a Lease; tell whether it was renewed since we saw it last."""
        seconds = lease_times.believed(duration)
        known = self._known.get(host)
        self._missing.pop(host, None)
        if known is None:
            self._known[host] = _Heartbeat(renewed, seconds, now)
            return False
        known.duration = seconds
        if renewed == known.renewed:
            return False
        known.renewed, known.at, known.changed = renewed, now, True
        return True

    def lost(self, host: str) -> None:
        """Forget the Lease of a host: it was deleted."""
        self._known.pop(host, None)

    def forget(self, host: str) -> None:
        """Forget a host: it is gone for good."""
        self._known.pop(host, None)
        self._missing.pop(host, None)

    def missed(self, now: float) -> None:
        """Remember that renewals until now may have been missed, because the API did not answer."""
        self._steady_since = max(self._steady_since, now)

    def judge(self, host: str, now: float) -> LivenessJudgement:
        """Return the judgement of a host."""
        known = self._known.get(host)
        if known is None:
            since = max(self._missing.setdefault(host, now), self._steady_since)
            left = since + DEFAULT_DURATION - now
            return (
                LivenessJudgement(Life.UNTOLD, again_in=left)
                if left > TICK
                else LivenessJudgement(Life.NEVER)
            )
        silent_for = now - known.at
        limit = PATIENCE * known.duration
        left = max(known.at, self._steady_since) + limit - now
        if left <= TICK:
            return LivenessJudgement(Life.SILENT, silent_for)
        trusted = known.changed and silent_for < limit
        return LivenessJudgement(Life.ALIVE if trusted else Life.UNTOLD, silent_for, left)
