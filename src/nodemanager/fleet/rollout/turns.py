"""When each host had its turn. The published form has the same size for any number of hosts and parts.

Parts that follow each other within a quarter of the deadline are noted as one, with the time of the last:
so a host has its deadline, and at most that quarter more. Old ones are noted ever more coarsely.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common.rollout import MAX_TURNS, RolloutStatus, ThresholdTurn
from nodemanager.kube import times

PARTS: Final = 4
"""Into how many parts a deadline is divided."""


class RolloutTurns(NamedTuple):
    """When hosts had their turn, prepared for many questions."""

    thresholds: Sequence[int]
    moments: Sequence[datetime]
    began: datetime | None

    @property
    def first(self) -> datetime | None:
        """The time of the first turn; while it is not known, the beginning of the rollout."""
        return self.moments[0] if self.moments else self.began

    def earliest(self, position: int, *, canary: bool) -> datetime | None:
        """Return the earliest time at which the turn of a host can have begun; None = unknown."""
        at = 0 if canary else bisect_right(self.thresholds, position)
        return self.moments[max(0, at - 1)] if at < len(self.moments) else self.began

    def latest(self, position: int, *, canary: bool) -> datetime | None:
        """Return the time by which the turn of a host has certainly begun."""
        at = 0 if canary else bisect_right(self.thresholds, position)
        return self.moments[at] if at < len(self.moments) else None


def of(status: RolloutStatus) -> RolloutTurns:
    """Return the turns in a status."""
    known = [(one.threshold, moment) for one in status.turns if (moment := times.parse(one.at)) is not None]
    return RolloutTurns([one for one, _ in known], [one for _, one in known], times.parse(status.started_at))


def noted(status: RolloutStatus, threshold: int, now: datetime, deadline: float) -> RolloutStatus:
    """Return the status with another threshold, and since when it is in force."""
    known = of(status)
    marks = [one for one in zip(known.thresholds, known.moments, strict=True) if one[1] <= now]
    begun = status.threshold > 0 or (status.canary is not None and status.stage > 1)
    if not marks and begun and known.began is not None:
        marks = [(status.threshold, min(now, known.began))]  # by a version that did not record it
    if not marks or threshold > marks[-1][0]:
        span = timedelta(seconds=deadline / PARTS)
        if len(marks) > 1 and now - marks[-2][1] <= span:
            marks.pop()
        marks.append((threshold, now))
    while len(marks) > MAX_TURNS:
        del marks[_needless(marks, now - timedelta(seconds=deadline))]
    told = [ThresholdTurn(threshold=one, at=times.rfc3339(moment)) for one, moment in marks]
    return msgspec.structs.replace(status, threshold=threshold, turns=told)


def _needless(marks: Sequence[tuple[int, datetime]], late: datetime) -> int:
    """Return which turn to forget: its hosts had their time, and its neighbours are near for their age."""
    old = [number for number in range(1, len(marks) - 1) if marks[number + 1][1] <= late] or [1]
    now = marks[-1][1]

    def gap(number: int) -> float:
        before, after = marks[number - 1][1], marks[number + 1][1]
        return (after - before).total_seconds() / (1.0 + (now - before).total_seconds())

    return min(old, key=gap)
