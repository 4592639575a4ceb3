"""What a window allows at one moment, asked once for all hosts; and how long hosts take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.kube.go import durations

ENOUGH: Final = 3
"""How many visits of a host must be measured before its own times are used, and not those of all hosts."""


@dataclass(frozen=True, slots=True)
class WindowView:
    """Whether something may be begun with now."""

    open: bool = False
    closes_at: datetime | None = None
    """None: the window is shut, or it has no known end."""
    opens_at: datetime | None = None
    minimum: timedelta = timedelta()

    @property
    def last_start(self) -> datetime | None:
        """Until when work may begin; None: the window is shut, or it has no known end."""
        return self.closes_at - self.minimum if self.closes_at is not None else None

    def has_time(self, now: datetime, needed: timedelta) -> bool:
        """Tell whether work that takes so long may begin now."""
        if not self.open or self.closes_at is None:
            return self.open
        return self.closes_at - now >= max(self.minimum, needed) and now < self.closes_at


def view(calendar: Calendar, now: datetime) -> WindowView:
    """Return what a window allows now; raise ValueError if it cannot be read."""
    following = calendar.following(now, 2)
    minimum = timedelta(seconds=durations.parse(calendar.spec.minimum_time_left or "0"))
    if not following:
        return WindowView(minimum=minimum)
    first = following[0]
    if first.start > now:
        return WindowView(opens_at=first.start, minimum=minimum)
    then = following[1].start if len(following) > 1 else None
    return WindowView(open=True, closes_at=first.end, opens_at=then, minimum=minimum)


@dataclass(frozen=True, slots=True)
class Durations:
    """How long visits took, by host."""

    by_host: Mapping[str, Sequence[timedelta]] = field(default_factory=dict)
    all: timedelta | None = None
    """The p95 of all of them."""

    def expected(self, host: str) -> timedelta:
        """Return the time in which 95 % of visits end; zero if none was measured.

        A host with few visits of its own gets the time of all hosts.
        """
        own = self.by_host.get(host, ())
        if len(own) >= ENOUGH:
            return p95(own)
        return self.all or timedelta()


def measured(taken: Iterable[tuple[str, timedelta]]) -> Durations:
    """Return what measured visits say about how long hosts take."""
    by_host: dict[str, list[timedelta]] = {}
    for host, lasted in taken:
        by_host.setdefault(host, []).append(lasted)
    everything = [lasted for one in by_host.values() for lasted in one]
    return Durations(by_host, p95(everything) if everything else None)


def p95(values: Sequence[timedelta]) -> timedelta:
    """Return the smallest of the values that 95 % of them do not exceed."""
    return sorted(values)[math.ceil(len(values) * 0.95) - 1]
