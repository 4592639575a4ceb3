"""What a run will do before it begins: its hosts in order, their steps, the times; and a hash of that.

An approval names the hash. It is made of all that a person looked at: steps, hosts, order, ceilings, windows
and gates. Who changes any of it has another plan, which nobody approved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from nodemanager.api.maintenance.disruption import Budget
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApprovalSpec
from nodemanager.api.maintenance.nodemaintenance import Approval, NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.fleet.maintenance import budget
from nodemanager.fleet.maintenance.openings import Durations
from nodemanager.fleet.maintenance.steps import RunWork
from nodemanager.fleet.series import HostGroup
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.kube.go import durations as go_durations

DEFAULT_VISIT: Final = timedelta(minutes=10)
"""The expected length of a visit while none was measured."""
MAX_OPENINGS: Final = 200
_NOT_LOOKED_AT: Final = (
    "paused", "notify", "approval", "operations", "window", "windowRef", "series", "seriesRef",
    "ttlSecondsAfterFinished", "successfulRunsHistoryLimit", "failedRunsHistoryLimit",
)  # fmt: skip
"""Fields that do not change what is done, or whose meaning is in the plan already."""


def approves(said: MaintenanceApprovalSpec, maintenance: NodeMaintenance, plan_hash: str) -> bool:
    """Tell whether an approval is for this plan, and by a person who may approve it."""
    asked = maintenance.spec.approval or Approval()
    may = not asked.different_user or (bool(asked.requester) and said.approver != asked.requester)
    return may and said.maintenance == maintenance.metadata.name and said.plan_hash == plan_hash


def asked_for_by(spec: NodeMaintenanceSpec) -> dict[str, str]:
    """Return who requested a plan, if another person has to approve it: the hash then depends on that."""
    asked = spec.approval or Approval()
    return {"requester": asked.requester} if asked.different_user else {}


@dataclass(frozen=True, slots=True)
class MaintenancePlanInput:
    """What a plan is calculated from."""

    spec: NodeMaintenanceSpec
    due: Mapping[str, str]
    """What the run consists of: slot or one-shot, by operation."""
    work: RunWork
    window: WindowSpec
    groups: Sequence[HostGroup]
    uids: Mapping[str, str]
    """The uid of every host: a host of the same name that was made anew is another one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do."""

    hash: str
    groups: tuple[HostGroup, ...]
    work: RunWork
    at_once: int
    """How many hosts are worked on at once, at most."""
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    """None: no end is known."""
    visits: Mapping[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """When each host is expected to begin and to end."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, in their order."""
        return tuple(host for group in self.groups for host in group.hosts)


def hash_of(made_of: MaintenancePlanInput) -> str:
    """Return the hash of a plan: the same for the same plan, in every program."""
    spec = msgspec.to_builtins(made_of.spec)
    said: dict[str, Any] = {
        "spec": {name: value for name, value in spec.items() if name not in _NOT_LOOKED_AT},
        "due": dict(made_of.due),
        "steps": made_of.work.digest,
        "window": msgspec.to_builtins(made_of.window),
        "groups": [
            [group.name, [[host, made_of.uids.get(host, "")] for host in group.hosts]]
            for group in made_of.groups
        ],
        **asked_for_by(made_of.spec),
    }
    return digest(said)


def digest(said: Mapping[str, Any]) -> str:
    """Return the hash of what a person sees in the plan."""
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def plan(made_of: MaintenancePlanInput, calendar: Calendar, taken: Durations, begin: datetime) -> Plan:
    """Return the plan of a run that begins at a moment, or at the first opening after it."""
    at_once = _at_once(made_of)
    visits = _expected(made_of, calendar, taken, begin, at_once)
    hosts = [host for group in made_of.groups for host in group.hosts]
    whole = bool(hosts) and len(visits) == len(hosts)
    return Plan(
        hash_of(made_of),
        tuple(made_of.groups),
        made_of.work,
        at_once,
        min((start for start, _ in visits.values()), default=None),
        max(end for _, end in visits.values()) if whole else None,
        visits,
    )


def _at_once(made_of: MaintenancePlanInput) -> int:
    total = sum(len(group.hosts) for group in made_of.groups)
    most = budget.resolve((made_of.spec.budget or Budget()).max_unavailable, total) or 1
    return min(most, made_of.spec.parallelism or most)


def _expected(
    made_of: MaintenancePlanInput, calendar: Calendar, taken: Durations, begin: datetime, at_once: int
) -> dict[str, tuple[datetime, datetime]]:
    """Return when each host begins and ends, if all goes well.

    Hosts that fit no known opening are left out.
    """
    openings = calendar.following(begin, MAX_OPENINGS)
    soak = timedelta(seconds=go_durations.parse(made_of.spec.soak or "0"))
    found: dict[str, tuple[datetime, datetime]] = {}
    free_from = begin
    for group in made_of.groups:
        lanes = [free_from] * at_once  # a group begins when the one before has ended
        for host in group.hosts:
            lane = min(range(at_once), key=lanes.__getitem__)
            lasts = (taken.expected(host) or DEFAULT_VISIT) + soak
            start = next(
                (
                    max(one.start, lanes[lane])
                    for one in openings
                    if one.end is None or max(one.start, lanes[lane]) + lasts <= one.end
                ),
                None,
            )
            if start is None:
                return found
            lanes[lane] = start + lasts
            found[host] = (start, start + lasts)
        free_from = max(lanes)
    return found


def series_of(spec: NodeMaintenanceSpec, referred: SeriesSpec | None) -> SeriesSpec:
    """Return which hosts a maintenance means: its own series, the one that it refers to, or all hosts."""
    return spec.series or referred or SeriesSpec()
