"""What happened in a simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodemanager.fleet.maintenance.claims import State
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.fleet.maintenance.reasons import Reason


@dataclass(frozen=True, slots=True)
class SimVisit:
    """A visit that has ended."""

    host: str
    maintenance: str
    start: datetime
    end: datetime
    state: State
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class SimRun:
    """A run that has ended."""

    maintenance: str
    id: str
    outcome: str
    started: datetime
    ended: datetime
    counts: Counter[HostStage]


@dataclass(slots=True)
class SimRecord:
    """Everything that a report is made of."""

    spans: list[SimVisit] = field(default_factory=list)
    runs: list[SimRun] = field(default_factory=list)
    skipped: Counter[Reason] = field(default_factory=Counter)
    """How many slots were skipped, by reason."""
    waited: dict[Reason, timedelta] = field(default_factory=dict)
    """How long hosts waited, by reason; the sum over all hosts."""
    peak: int = 0
    """The most hosts that were unavailable at once."""
    waits: Counter[Reason] = field(default_factory=Counter)
    """How many hosts wait now, by reason."""

    def passed(self, time: timedelta) -> None:
        """Add time that has passed."""
        for reason, count in self.waits.items():
            self.waited[reason] = self.waited.get(reason, timedelta()) + time * count
