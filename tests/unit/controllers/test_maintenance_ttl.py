"""When a maintenance that has ended goes: only if it says so itself, and consists of one-shots alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.maintenance_status import (
    COMPLETE,
    EndedRun,
    NodeMaintenanceStatus,
    OperationState,
    RunState,
)
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.operations import Operation
from nodemanager.controllers.node_maintenances import deleting
from nodemanager.controllers.node_maintenances.inputs import SHUT, Inputs
from nodemanager.controllers.node_maintenances.status import recording
from nodemanager.controllers.node_maintenances.status.recording import Record
from nodemanager.controllers.node_maintenances.undertaking import Seen
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import Look
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import Judgement
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectMeta

ENDED = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
ONE = Operation(name="a", type="one-shot")
ENDED_ONE = OperationState(name="a", done=runs.one_shot_id("m-1", ONE))
DONE: dict[str, Any] = {
    "observed_generation": 3, "phase": "Succeeded",
    "history": [EndedRun(id="x", ended_at="2026-11-16T12:00:00Z")], "operations": [ENDED_ONE],
}  # fmt: skip


def is_over(after: int, ttl: int | None = 60, *operations: Operation, **status: Any) -> bool:
    maintenance = NodeMaintenance(
        metadata=ObjectMeta(name="m", uid="m-1", generation=3),
        spec=NodeMaintenanceSpec(ttl_seconds_after_finished=ttl, operations=list(operations) or [ONE]),
        status=NodeMaintenanceStatus(**{**DONE, **status}),
    )
    inputs = Inputs(SHUT, WindowView(), (), (), {})
    return deleting.is_over(Seen(maintenance, ENDED + timedelta(seconds=after), (), inputs, (), None))


def test_it_goes_so_long_after_its_end() -> None:
    assert [is_over(after) for after in (0, 59, 60, 3600)] == [False, False, True, True]
    assert is_over(0, 0)
    assert is_over(60, 60, phase="Failed")


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Stopped"},
        {"phase": "Running", "run": RunState(id="y")},
        {"observed_generation": 2},
        {"phase": "WaitingForSlot"},
    ],
    ids=["stopped", "running", "changed-since", "not-begun"],
)
def test_what_has_not_ended_stays(status: dict[str, Any]) -> None:
    assert not is_over(3600, 60, **status)


@pytest.mark.parametrize("change", [{"suspend": True}, {}], ids=["suspended", "no-window"])
def test_new_work_stays_also_if_nobody_knows_when_it_is_due(change: dict[str, Any]) -> None:
    """It does not count as done that another runID has ended."""
    again = msgspec.structs.replace(ONE, run_id="2", **change)
    assert not is_over(3600, 60, again)
    look = Look(WindowView(), (Judgement("a", reason=Reason.SUSPENDED),), reason=Reason.SUSPENDED)

    def told(operation: Operation) -> tuple[str, str]:
        maintenance = NodeMaintenance(
            metadata=ObjectMeta(name="m", uid="m-1"),
            spec=NodeMaintenanceSpec(operations=[operation]),
            status=NodeMaintenanceStatus(**DONE),
        )
        status = recording.status_of(Record(maintenance, look, None, None, None, None, ENDED))
        complete = conditions.get(status.conditions, COMPLETE)
        return status.phase, complete.status if complete is not None else ""

    assert told(ONE) == ("Succeeded", "True")
    assert told(again) == ("WaitingForSlot", "False")


def test_what_comes_again_or_does_not_say_so_stays() -> None:
    assert not is_over(3600, None)
    assert not is_over(3600, 60, ONE, Operation(name="b", type="cron", schedule="0 6 * * 1"))
    assert not is_over(3600, 60, ONE, Operation(name="b", type="realtime"))


def test_one_that_remembers_no_run_goes_by_when_it_began() -> None:
    began = [msgspec.structs.replace(ENDED_ONE, last_run="2026-11-16T11:59:00Z")]
    assert is_over(60, 120, history=[], operations=began)
    assert not is_over(59, 120, history=[], operations=began)
