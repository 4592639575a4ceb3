"""The run that a plan is about: the one under way, or the next one, as it will be when it begins. Pure."""

from __future__ import annotations

from datetime import datetime

from nodemanager.api.maintenance.maintenance_status import RunState
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_maintenances.status import remembering
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.passes import Look


def next_run(maintenance: NodeMaintenance, found: Look) -> RunState | None:
    """Return the run that comes next; None if nothing is due."""
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


def run_of(maintenance: NodeMaintenance, found: Look, now: datetime, *, begins: bool) -> RunState | None:
    """Return the run under way, else the one that begins now, if any may, else the next one."""
    if maintenance.status.run is not None:
        return maintenance.status.run
    if begins and found.begins:
        return remembering.began(maintenance.metadata.uid, found.begins, now)
    return next_run(maintenance, found)
