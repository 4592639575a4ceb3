"""What the run under way, or the next one, will be: the plan of `fleet` for hosts that are left. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from nodemanager.api.maintenance.maintenance_status import RunState
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.maintenance.reading import MaintenanceReading
from nodemanager.controllers.node_maintenances import observing, undertaking
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.fleet.maintenance import openings
from nodemanager.fleet.maintenance import plan as plans
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.maintenance.openings import Durations
from nodemanager.fleet.maintenance.plan import MaintenancePlanInput, Plan
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.fleet.maintenance.reasons import OWN_FAULT
from nodemanager.fleet.series import HostGroup


def plan(judged: Judged, seen: MaintenanceSnapshot, run: RunState, around: MaintenanceReading) -> Plan | None:
    """Return the plan of a run, with the times of the hosts that can be begun with."""
    inputs = judged.inputs
    work, wrong = undertaking.work_of(seen, run, around.reader)
    if wrong is not None or not inputs.groups:
        return None
    uids = {one.metadata.name: one.metadata.uid for one in seen.nodes}
    made_of = MaintenancePlanInput(
        seen.maintenance.spec, run.slots, work, inputs.calendar.spec, inputs.groups, uids
    )
    taken = openings.measured(observing.durations(seen.tasks, seen.now))
    begin = _free_from(judged, seen, taken) if judged.run else max(judged.next_run or seen.now, seen.now)
    left = [
        HostGroup(group.name, tuple(host for host in group.hosts if not _is_over(judged, host)))
        for group in inputs.groups
    ]
    ahead = plans.plan(
        replace(made_of, groups=[group for group in left if group.hosts]), inputs.calendar, taken, begin
    )
    whole = plans.plan(made_of, inputs.calendar, taken, begin)
    return replace(whole, visits=ahead.visits, starts_at=ahead.starts_at, ends_at=ahead.ends_at)


def _is_over(judged: Judged, host: str) -> bool:
    """Tell whether a host has no future begin: it has begun, or it cannot begin."""
    found, wait = judged.hosts.progress.get(host), judged.hosts.waits.get(host)
    begun = found is not None and (found.is_end or found.stage is HostStage.RUNNING)
    return begun or (wait is not None and wait.reason in OWN_FAULT)


def _free_from(judged: Judged, seen: MaintenanceSnapshot, taken: Durations) -> datetime:
    """Return when the next host can be begun with: now, or when the first of those in work may be done."""
    ends = []
    for one in seen.nodes:
        claim = observing.claim_of(one)
        if isinstance(claim, Claim) and claim.holds and claim.run == judged.run:
            ends.append(claim.begun + (taken.expected(one.metadata.name) or plans.DEFAULT_VISIT))
    return max(seen.now, min(ends)) if ends and not judged.hosts.starts else seen.now
