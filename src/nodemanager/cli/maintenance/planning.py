"""What the run under way, or the next one, will be: the plan of `fleet` for hosts that are left. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.cli.maintenance import observing
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.maintenance.reading import Surroundings
from nodemanager.fleet.maintenance import plan as plans
from nodemanager.fleet.maintenance import runs, steps
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.maintenance.openings import Durations
from nodemanager.fleet.maintenance.passes import Look
from nodemanager.fleet.maintenance.plan import Plan, PlanInput
from nodemanager.fleet.maintenance.progress import Stage
from nodemanager.fleet.maintenance.steps import StepsError
from nodemanager.fleet.series import HostGroup


def due(maintenance: NodeMaintenance, found: Look) -> dict[str, str]:
    """Return what the run under way, or the next one, consists of."""
    run = maintenance.status.run
    if run is not None and run.started_at:
        return dict(run.slots) or dict.fromkeys(run.operations, "")
    if found.begins:
        return dict(found.begins)
    nexts = {one.operation: one.next_run for one in found.judgements if one.next_run is not None}
    first = min(nexts.values(), default=None)
    by_name = {one.name: one for one in maintenance.spec.operations}
    return {
        name: moment.isoformat()
        if by_name[name].schedule
        else runs.one_shot_id(maintenance.metadata.uid, by_name[name])
        for name, moment in nexts.items()
        if moment == first
    }


def plan(judged: Judged, of: Mapping[str, str], durations: Durations, around: Surroundings) -> Plan | None:
    """Return the plan, with the times of the hosts that are not done with."""
    inputs, spec = judged.inputs, judged.maintenance.spec
    chosen = [one for one in spec.operations if one.name in of]
    if not chosen or not inputs.groups or any(one.name not in inputs.work for one in chosen):
        return None
    try:
        work = steps.work(chosen, around.referred.templates)
    except StepsError:  # each is good by itself, and all together are too long for one task
        return None
    uids = {one.metadata.name: one.metadata.uid for one in around.hosts}
    made_of = PlanInput(spec, of, work, inputs.calendar.spec, inputs.groups, uids)
    begin = _free_from(judged, around, durations) if judged.run else judged.next_run or around.now
    whole = plans.plan(made_of, inputs.calendar, durations, begin)
    left = [
        HostGroup(group.name, tuple(host for host in group.hosts if not _is_over(judged, host)))
        for group in inputs.groups
    ]
    ahead = plans.plan(
        replace(made_of, groups=[group for group in left if group.hosts]), inputs.calendar, durations, begin
    )
    return replace(whole, visits=ahead.visits, starts_at=ahead.starts_at, ends_at=ahead.ends_at)


def _is_over(judged: Judged, host: str) -> bool:
    found = judged.progress.get(host)
    return found is not None and (found.is_end or found.stage is Stage.RUNNING)


def _free_from(judged: Judged, around: Surroundings, durations: Durations) -> datetime:
    """Return when the next host can be begun with: now, or when the first of those in work may be done."""
    ends = []
    for one in around.hosts:
        claim = observing.host(one, None).claim
        if isinstance(claim, Claim) and claim.holds and claim.run == judged.run:
            ends.append(claim.begun + (durations.expected(one.metadata.name) or plans.DEFAULT_VISIT))
    return max(around.now, min(ends)) if ends and not judged.starts else around.now
