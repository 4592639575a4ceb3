"""The time axis of a picture: quiet times are cut, so that a week between two openings takes no room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nodemanager.fleet.simulation.record import SimVisit
from nodemanager.fleet.windows import spans as arithmetic
from nodemanager.fleet.windows.spans import Span as Period

GAP: Final = timedelta(minutes=30)
"""Longer quiet times are left out."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Tells the place of a moment on a line."""

    periods: tuple[Period, ...]
    width: int

    @property
    def shown(self) -> timedelta:
        """How much time is shown, without the parts that are left out."""
        return sum((end - start for start, end in self.periods), timedelta())

    def at(self, moment: datetime) -> float:
        """Return the place of a moment, from 0 to the width."""
        before = timedelta()
        for start, end in self.periods:
            if moment <= end:
                before += max(moment - start, timedelta())
                break
            before += end - start
        return self.width * (before / self.shown) if self.shown else 0.0


def axis(spans: Sequence[SimVisit], width: int) -> Axis:
    """Return the axis for visits."""
    wide = (Period(span.start, max(span.end, span.start + timedelta(seconds=1)) + GAP) for span in spans)
    busy = arithmetic.union(wide)
    return Axis(tuple(Period(start, end - GAP) for start, end in busy), width)
