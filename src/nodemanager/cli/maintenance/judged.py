"""What is decided about one maintenance at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodemanager.api.maintenance.maintenance_status import RealtimePlan
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_maintenances.inputs import Inputs, Problem
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.plan import Plan
from nodemanager.fleet.maintenance.progress import RunProgress


@dataclass(frozen=True, slots=True)
class HostsJudged:
    """What is decided about the hosts."""

    waits: Mapping[str, HostWait] = field(default_factory=dict)
    """Hosts that wait, or are in work."""
    starts: frozenset[str] = frozenset()
    """Hosts that begin at the operator's next look."""
    progress: Mapping[str, RunProgress] = field(default_factory=dict)
    """How far those of the run are."""


@dataclass(frozen=True, slots=True)
class RealtimeJudged:
    """What operations of type realtime enforce, if that needs an approval."""

    plan: RealtimePlan
    approvers: tuple[str, ...] = ()
    """The users who approved it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is to be said about a maintenance now."""

    maintenance: NodeMaintenance
    inputs: Inputs
    problem: Problem | None = None
    """Why no host can be begun with at all."""
    run: str = ""
    """The run under way, or the one that begins now; empty = none."""
    next_run: datetime | None = None
    hosts: HostsJudged = field(default_factory=HostsJudged)
    plan: Plan | None = None
    """None: nothing is due, or it cannot be read."""
    approvers: tuple[str, ...] = ()
    """The users who approved the plan."""
    realtime: RealtimeJudged | None = None
    """What is enforced at all times; None: nothing, or no approval is needed."""

    @property
    def names(self) -> tuple[str, ...]:
        """All hosts of the series, in their order."""
        return tuple(host for group in self.inputs.groups for host in group.hosts)
