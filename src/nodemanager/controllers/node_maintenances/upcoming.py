"""The run that a plan is about: the current one, or the next one, as it will begin. Pure."""

from __future__ import annotations

from datetime import datetime

from nodemanager.api.maintenance.maintenance_status import RunState
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_maintenances.status import remembering
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.passes import MaintenanceLook, Upkeep


def upkeep(seen: MaintenanceSnapshot) -> Upkeep:
    """Return the input of a look at runs."""
    status, created = seen.maintenance.status, seen.maintenance.metadata.creation_timestamp
    return Upkeep(
        operations=seen.inputs.operations,
        memories=remembering.memories(status),
        created=datetime.fromisoformat(created) if created else seen.now,
        calendar=seen.inputs.calendar,
        view=seen.inputs.view,
        running=frozenset(status.run.operations) if status.run is not None else frozenset(),
    )


def next_run(maintenance: NodeMaintenance, found: MaintenanceLook) -> RunState | None:
    """Return the next run; None if none is due."""
    nexts = {one.operation: one.next_run for one in found.judgements if one.next_run is not None}
    first = min(nexts.values(), default=None)
    if first is None:
        return None
    uid, by_name = maintenance.metadata.uid, {one.name: one for one in maintenance.spec.operations}
    due = {
        name: first.isoformat() if by_name[name].schedule else runs.one_shot_id(uid, by_name[name])
        for name, moment in nexts.items()
        if moment == first
    }
    return remembering.began(uid, due, first)


def run_of(
    maintenance: NodeMaintenance, found: MaintenanceLook, now: datetime, *, begins: bool
) -> RunState | None:
    """Return the current run, else the one that begins now, if it may, else the next one."""
    if maintenance.status.run is not None:
        return maintenance.status.run
    if begins and found.begins:
        return remembering.began(maintenance.metadata.uid, found.begins, now)
    return next_run(maintenance, found)
