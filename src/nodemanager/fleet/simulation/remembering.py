"""A calendar that remembers its openings: a simulation asks it a thousand times about the same week."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nodemanager.fleet.maintenance.runs import NEXT_OPENINGS
from nodemanager.fleet.windows.calendar import Calendar, Opened

AHEAD: Final = NEXT_OPENINGS + 14


@dataclass(slots=True)
class _Known:
    since: datetime
    openings: list[Opened]
    whole: bool
    """Whether there are no other openings."""


@dataclass(frozen=True, slots=True)
class RememberingCalendar(Calendar):
    """Gives the answers of the calendar, from memory while these stay the same."""

    _known: list[_Known] = field(default_factory=list, compare=False)

    def following(self, now: datetime, count: int) -> list[Opened]:
        """Return the opening of now, if there is one, and the next ones."""
        known = self._known[0] if self._known else None
        if known is not None and now >= known.since:
            left = [one for one in known.openings if one.end is None or one.end > now]
            if known.whole or len(left) >= count or (left and left[-1].end is None):
                return left[:count]
        found = Calendar.following(self, now, AHEAD)
        if known is None or now >= known.since:
            self._known[:] = [_Known(now, found, len(found) < AHEAD)]
        return found[:count]
