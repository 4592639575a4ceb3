"""The conditions of a maintenance; pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.maintenance.maintenance_status import (
    COMPLETE,
    PROGRESSING,
    VALID,
    NodeMaintenanceStatus,
)
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.realtime_sets import RealtimeKept
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import conditions, times, wording
from nodemanager.kube.conditions import Condition

REALTIME_KEPT: Final = "RealtimeKept"
"""Condition type: the declarations of realtime operations are enforced. Absent if there are none."""
KEPT: Final = "Kept"
NOT_KEPT: Final = "NotKept"
GOOD: Final = "Good"
SHOWN: Final = 5


def conditions_of(
    maintenance: NodeMaintenance,
    made: NodeMaintenanceStatus,
    problem: Problem | None,
    realtime: RealtimeKept | None,
    now: datetime,
    stopped: str = "",
) -> list[Condition]:
    """Return the conditions for a new status, with why the run `stopped`; unchanged ones keep their time."""
    found = list(maintenance.status.conditions)
    spoken = [*_said(made, problem, stopped)]
    if realtime is not None:
        spoken.append(_realtime(realtime, maintenance.metadata.name))
    else:
        found = [one for one in found if one.type != REALTIME_KEPT]
    for said in spoken:
        dated = msgspec.structs.replace(said, observed_generation=maintenance.metadata.generation)
        found = conditions.set_condition(found, dated, times.rfc3339(now))
    return found


def _said(made: NodeMaintenanceStatus, problem: Problem | None, stopped: str) -> Iterable[Condition]:
    if problem is not None:
        yield Condition(type=VALID, status=conditions.FALSE, reason=problem.reason, message=problem.message)
    else:
        yield Condition(type=VALID, status=conditions.TRUE, reason=GOOD)
    runs_now = made.phase == "Running"
    reason = made.waiting[0].reason if made.waiting else made.phase
    message = made.waiting[0].remedy if made.waiting else ""
    if stopped:
        reason, message = Reason.STOPPED, stopped
    yield Condition(
        type=PROGRESSING,
        status=conditions.TRUE if runs_now else conditions.FALSE,
        reason=reason,
        message=message,
    )
    done = made.phase == "Succeeded"
    yield Condition(type=COMPLETE, status=conditions.TRUE if done else conditions.FALSE, reason=made.phase)


def _realtime(kept: RealtimeKept, name: str) -> Condition:
    """Return whether operations of type realtime have become ConfigSets."""
    if kept.problems:
        said = "; ".join(kept.problems)
        return Condition(
            type=REALTIME_KEPT, status=conditions.FALSE, reason=NOT_KEPT, message=wording.shorten(said, 1024)
        )
    if not kept.approved:
        said = f"nothing of it is enforced before somebody says yes: nodemanager maintenance approve {name}"
        return Condition(
            type=REALTIME_KEPT, status=conditions.FALSE, reason=Reason.NOT_APPROVED, message=said
        )
    named = ", ".join(kept.sets[:SHOWN])
    return Condition(
        type=REALTIME_KEPT, status=conditions.TRUE, reason=KEPT, message=f"see ConfigSet {named}"
    )
