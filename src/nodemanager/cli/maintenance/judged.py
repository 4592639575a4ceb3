"""What is known and decided about one maintenance at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.fleet.maintenance.decide import Wait
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.plan import Plan
from nodemanager.fleet.maintenance.progress import Progress
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.steps import Work
from nodemanager.fleet.series import HostGroup
from nodemanager.fleet.windows.calendar import Calendar


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing can be begun with."""

    reason: Reason
    object: str
    message: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a maintenance refers to."""

    calendar: Calendar
    window: WindowView
    groups: Sequence[HostGroup]
    work: Mapping[str, Work]
    """What each operation does that tasks are made of."""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What is to be said about a maintenance now."""

    maintenance: NodeMaintenance
    inputs: Inputs
    waits: Mapping[str, Wait]
    """Hosts that wait, or are in work."""
    starts: frozenset[str] = frozenset()
    """Hosts that are begun with at the operator's next look."""
    progress: Mapping[str, Progress] = field(default_factory=dict)
    run: str = ""
    """The run under way, or the one that begins now; empty = none."""
    next_run: datetime | None = None
    plan: Plan | None = None
    """None: nothing is due, or it cannot be read."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the series, in their order."""
        return tuple(host for group in self.inputs.groups for host in group.hosts)
