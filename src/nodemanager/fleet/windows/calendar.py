"""A whole window: whether it is open at a moment, until when, and when it opens next.

Every start, retry, reboot and batch asks anew, and the answer depends on nothing that was remembered, so
that no restart and no jump of a clock opens a window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from nodemanager.api.maintenance.windows import WindowSchedule, WindowSpec
from nodemanager.fleet.windows import exclusions, openings, spans, wall_clock
from nodemanager.fleet.windows.exclusions import Calendars
from nodemanager.fleet.windows.spans import Span
from nodemanager.kube.go import durations

HORIZONS: Final = tuple(timedelta(days=days) for days in (8, 40, 400, 366 * 9))
"""How far to look ahead, in steps, until enough is found: 29 February may be eight years away."""
_ENOUGH: Final = HORIZONS[2]
"""A window that is open for so long counts as always open."""
MANY: Final = 2000
"""How many openings one round looks at."""
ROUNDS: Final = 16
"""How often to look further before giving up: a schedule of every minute has no end."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A span in which a window is open without a break."""

    start: datetime
    end: datetime | None
    """None = no end is known."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """A window that answers questions; the first question raises ValueError if the window cannot be read."""

    spec: WindowSpec
    calendars: Calendars = field(default_factory=dict)

    def opened(self, now: datetime) -> Opened | None:
        """Return the span that is open now."""
        found = next(iter(self.following(now, 1)), None)
        return found if found is not None and found.start <= now else None

    def has_time(self, now: datetime, needed: timedelta = timedelta()) -> bool:
        """Tell whether work that takes so long may begin now."""
        found = self.opened(now)
        if found is None or found.end is None:
            return found is not None
        least = timedelta(seconds=durations.parse(self.spec.minimum_time_left or "0"))
        return found.end - now >= max(least, needed)

    def zone(self) -> tzinfo:
        """Return the time zone for people: that of all schedules, if they agree."""
        zones = {one.time_zone or self.spec.time_zone for one in self.spec.schedules}
        return wall_clock.zone((zones.pop() if len(zones) == 1 else self.spec.time_zone) or "UTC")

    def following(self, now: datetime, count: int) -> list[Opened]:
        """Return the opening of now, if there is one, and the next ones."""
        self.zone()  # a window that is always open needs none, but is shut if people cannot be told of it
        found: list[Opened] = []
        for ahead in HORIZONS:
            limit = now + ahead
            known, complete = self._looked(Span(now, limit), count)
            found = [Opened(one.start, one.end if one.end < complete else None) for one in known]
            endless = bool(found) and found[-1].end is None and ahead >= _ENOUGH
            if complete < limit or len(found) > count or endless:
                break
        return found[:count]

    def _looked(self, limits: Span, count: int) -> tuple[list[Span], datetime]:
        """Return more than so many openings, if there are, and until when the list is complete."""
        found: list[Span] = []
        begin = limits.start
        for _ in range(ROUNDS):
            part, begin = self._within(Span(begin, limits.end))
            found = spans.union([*found, *part])
            if begin >= limits.end or len(found) > count:
                break
        return found, begin

    def _within(self, limits: Span) -> tuple[list[Span], datetime]:
        """Return the openings between two moments, and until when the list is complete."""
        complete = limits.end
        opened: list[Span] = [limits] if self.spec.always else []
        share = MANY // max(1, len(self.spec.schedules))
        for schedule in self.spec.schedules:
            ahead = itertools.takewhile(lambda one: one.start < limits.end, self._openings(schedule, limits))
            few = list(itertools.islice(ahead, share))
            if len(few) == share:
                complete = min(complete, few[-1].start)
            opened += few
        opened = spans.union(opened)
        shut = [
            span
            for exclusion in self.spec.exclude
            for span in exclusions.excluded(exclusion, self.spec.time_zone, opened, self.calendars)
        ]
        valid = Span(
            openings.in_utc(self.spec.valid_from) if self.spec.valid_from else _EVER.start,
            min(complete, openings.in_utc(self.spec.valid_until) if self.spec.valid_until else _EVER.end),
        )
        left = spans.within(spans.without(opened, shut), valid)
        return [span for span in left if span.end > limits.start], complete

    def _openings(self, schedule: WindowSchedule, limits: Span) -> Iterator[Span]:
        return openings.openings(schedule, self.spec.time_zone, limits.start)

    def remark(self, opened: Opened) -> str:
        """Return what a change of the clock does to an opening; empty = nothing."""
        if opened.end is None:
            return ""
        span = Span(opened.start, opened.end)
        said = (openings.remark(one, span, self.spec.time_zone) for one in self.spec.schedules)
        return next((text for text in said if text), "")


_EVER: Final = Span(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
