"""When an upgrade is due. Pure, so that every clock change can be tested.

    slot          a moment that the schedule names, in the host's time zone
    window        from the slot until `forgiveness` later; an upgrade starts within it, or not at all
    delay         least time between the starts of two upgrades

A host that was off, or whose group was busy, during the whole window waits for the next slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from nodemanager.api.schedules import Schedule

FORGIVENESS: Final = timedelta(minutes=1)
WRONG_CLOCK: Final = timedelta(days=1)
"""A remembered time so far ahead comes from a clock that was wrong, and is ignored."""
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class History:
    """What is remembered of earlier upgrades."""

    slot: datetime | None = None
    """The last slot that was used, whatever the result."""
    started: datetime | None = None
    """When the last upgrade that succeeded was started."""

    def trusted(self, now: datetime) -> History:
        """Return it without times that only a wrong clock can have made."""
        return History(_trusted(self.slot, now), _trusted(self.started, now))


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to upgrade now, and if not, when to look again."""

    slot: datetime | None = None
    """The slot, if an upgrade is due now."""
    wake: datetime | None = None
    """The next moment at which an upgrade may be due; None: there is none as things are."""


@dataclass(frozen=True, slots=True)
class UpgradeRule:
    """A schedule and what goes with it."""

    schedule: Schedule
    delay: timedelta = timedelta()
    forgiveness: timedelta = FORGIVENESS

    def decide(self, history: History, now: datetime, zone: tzinfo) -> Decision:
        """Tell whether an upgrade is due now.

        The next start is the first moment that is in the window of an unused slot and not within `delay`.
        """
        history = history.trusted(now)
        earliest = history.started + self.delay if history.started else now
        begin = max(now, earliest) - self.forgiveness
        if history.slot is not None:
            begin = max(begin, history.slot + _SECOND)
        slot = self.schedule.first(begin, zone)
        if slot is None:
            return Decision()
        start = max(slot, earliest)
        return Decision(slot, None) if start <= now else Decision(None, start)

    def newest(self, slot: datetime, now: datetime, zone: tzinfo) -> datetime:
        """Return the last slot that has come, from one on that has: its window is open for the longest."""
        step = now - slot
        while step >= _SECOND:
            later = self.schedule.first(slot + step, zone)
            if later is not None and later <= now:
                slot = later
            else:
                step /= 2
        return slot

    def upcoming(self, history: History, now: datetime, zone: tzinfo, count: int) -> tuple[datetime, ...]:
        """Return the next slots in which an upgrade can start, if each of them is used."""
        found: list[datetime] = []
        started = history.trusted(now).started
        begin = now + _SECOND
        while len(found) < count:
            if started is not None:
                begin = max(begin, started + self.delay - self.forgiveness)
            started = self.schedule.first(begin, zone)
            if started is None:
                break
            found.append(started)
            begin = started + _SECOND
        return tuple(found)


def _trusted(moment: datetime | None, now: datetime) -> datetime | None:
    return None if moment is not None and moment > now + WRONG_CLOCK else moment
