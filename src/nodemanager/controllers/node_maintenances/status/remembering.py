"""The memory of a maintenance about its runs, in its status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from nodemanager.api.maintenance.maintenance_status import EndedRun, NodeMaintenanceStatus, RunState
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_ABORT, ANNOTATION_RETRY, NodeMaintenance
from nodemanager.controllers.node_maintenances.status import recording
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.decide import MaintenanceDecision
from nodemanager.fleet.maintenance.facts import Run
from nodemanager.fleet.maintenance.passes import MaintenanceLook
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import OperationMemory
from nodemanager.kube import times


def memories(status: NodeMaintenanceStatus) -> dict[str, OperationMemory]:
    """Return what the status remembers of operations."""
    return {one.name: OperationMemory(_moment(one.last_slot), one.done) for one in status.operations}


def run_of(maintenance: NodeMaintenance) -> Run | None:
    """Return the current run."""
    run = maintenance.status.run
    if run is None or not run.started_at:
        return None
    notes = maintenance.metadata.annotations
    ending: Reason | None = None
    if maintenance.metadata.deletion_timestamp:
        ending = Reason.DELETED
    elif notes.get(ANNOTATION_ABORT) == run.id:
        ending = Reason.ABORTED
    elif run.replaced:
        ending = Reason.REPLACED
    return Run(
        run.id,
        datetime.fromisoformat(run.started_at),
        retried_at=_moment(run.retried_at),
        stopped=run.stopped_at is not None,
        ending=ending,
    )


def retried(maintenance: NodeMaintenance, now: datetime) -> RunState | None:
    """Return the current run, if a person has just let it go on in spite of failures."""
    run = maintenance.status.run
    if run is None or maintenance.metadata.annotations.get(ANNOTATION_RETRY) != run.id:
        return None
    # To the microsecond: a failure in the same second was before it.
    return msgspec.structs.replace(run, retried_at=times.rfc3339_micro(now), stopped_at=None)


def began(uid: str, due: Mapping[str, str], now: datetime) -> RunState:
    """Return a run that begins now."""
    return RunState(
        id=runs.run_id(uid, due),
        operations=list(due),
        started_at=times.rfc3339(now),
        slots=dict(due),
    )


def kept(run: RunState, look: MaintenanceLook, now: datetime) -> RunState:
    """Return a run that goes on, and remembers that it was stopped, or is being replaced."""
    changes: dict[str, object] = {}
    if look.decision is not None and look.decision.stops and run.stopped_at is None:
        changes["stopped_at"] = times.rfc3339(now)
    if any(one.replaces for one in look.judgements):
        changes["replaced"] = True
    return msgspec.structs.replace(run, **changes)


def ended(run: RunState, decision: MaintenanceDecision, now: datetime) -> EndedRun:
    """Return a run that has ended."""
    return EndedRun(
        id=run.id, operations=run.operations, outcome=decision.outcome, started_at=run.started_at,
        ended_at=times.rfc3339(now), hosts=recording.host_counts(decision),
    )  # fmt: skip


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
