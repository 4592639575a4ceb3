"""When a maintenance that has ended goes: only if it says so itself, and consists of one-shots alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.maintenance_status import (
    COMPLETE,
    EndedRun,
    NodeMaintenanceStatus,
    OperationState,
    RunState,
)
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT, NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.maintenance.operations import Operation
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import CORDONED
from nodemanager.controllers.node_maintenances import deleting
from nodemanager.controllers.node_maintenances.ahead import HostsAhead, TasksAhead
from nodemanager.controllers.node_maintenances.inputs import SHUT, Inputs
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.controllers.node_maintenances.status import recording
from nodemanager.controllers.node_maintenances.status.recording import StatusInputs
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.fleet.maintenance import claims, runs
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import MaintenanceLook
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import OperationJudgement
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache
from support.visited_api import VisitedApi

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
    return deleting.is_over(
        MaintenanceSnapshot(maintenance, ENDED + timedelta(seconds=after), (), inputs, (), None)
    )


def test_it_goes_so_long_after_its_end() -> None:
    assert [is_over(after) for after in (0, 59, 60, 3600)] == [False, False, True, True]
    assert is_over(0, 0)
    assert is_over(60, 60, phase="Failed")


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Stopped"},
        {"phase": "Running", "run": RunState(id="y")},
        {"run": RunState(id="y")},
        {"observed_generation": 2},
        {"phase": "WaitingForSlot"},
    ],
    ids=["stopped", "running", "begun-again", "changed-since", "not-begun"],
)
def test_what_has_not_ended_stays(status: dict[str, Any]) -> None:
    assert not is_over(3600, 60, **status)


@pytest.mark.parametrize("change", [{"suspend": True}, {}], ids=["suspended", "no-window"])
def test_new_work_stays_also_if_nobody_knows_when_it_is_due(change: dict[str, Any]) -> None:
    """It does not count as done that another runID has ended."""
    again = msgspec.structs.replace(ONE, run_id="2", **change)
    assert not is_over(3600, 60, again)
    look = MaintenanceLook(
        WindowView(), (OperationJudgement("a", reason=Reason.SUSPENDED),), reason=Reason.SUSPENDED
    )

    def told(operation: Operation) -> tuple[str, str]:
        maintenance = NodeMaintenance(
            metadata=ObjectMeta(name="m", uid="m-1"),
            spec=NodeMaintenanceSpec(operations=[operation]),
            status=NodeMaintenanceStatus(**DONE),
        )
        status = recording.status_of(StatusInputs(maintenance, look, None, None, None, None, ENDED))
        complete = conditions.get(status.conditions, COMPLETE)
        return status.phase, complete.status if complete is not None else ""

    assert told(ONE) == ("Succeeded", "True")
    assert told(again) == ("WaitingForSlot", "False")


def test_what_comes_again_or_does_not_say_so_stays() -> None:
    assert not is_over(3600, None)
    assert not is_over(3600, 60, ONE, Operation(name="b", type="cron", schedule="0 6 * * 1"))
    assert not is_over(3600, 60, ONE, Operation(name="b", type="realtime"))


def test_a_one_shot_that_comes_again_from_now_on_is_not_over() -> None:
    weekly = Operation(name="a", type="cron", schedule="0 6 * * 1", run_id="7")
    done = [OperationState(name="a", done=runs.one_shot_id("m-1", weekly))]
    assert not is_over(3600, 60, weekly, operations=done)
    assert is_over(3600, 60, msgspec.structs.replace(weekly, type="one-shot"), operations=done)


def test_one_that_remembers_no_run_goes_by_when_it_began() -> None:
    began = [msgspec.structs.replace(ENDED_ONE, last_run="2026-11-16T11:59:00Z")]
    assert is_over(60, 120, history=[], operations=began)
    assert not is_over(59, 120, history=[], operations=began)


def test_one_of_which_nobody_knows_when_it_ended_stays() -> None:
    assert not is_over(3600, 60, history=[])


# What is given back after a deletion

HELD = '{"namespace":"ns","maintenance":"m","uid":"m-1"}'


class Deleted:
    """A maintenance that is being deleted, and one of the hosts that it visited."""

    def __init__(self, notes: dict[str, str]) -> None:
        self.api = VisitedApi()
        client = Client(self.api)
        cache = Cache(client, MANAGED_NODES)
        self.hosts = HostsAhead(cache)
        self.orders = Orders(client, self.hosts, TasksAhead(Cache(client, NODE_TASKS)))
        self.api.put("managednodes/ns/web1", metadata={"annotations": notes})
        cache._put(
            ObjectKey("ns", "web1"), msgspec.convert(self.api.objects["managednodes/ns/web1"], ManagedNode)
        )
        self.api.put("nodes/web1", metadata={"annotations": {CORDONED: HELD}}, spec={"unschedulable": True})

    async def restore(self) -> bool:
        """Return whether something is still going on."""
        one = NodeMaintenance(metadata=ObjectMeta(name="m", namespace="ns", uid="m-1"))
        return await deleting.restore(self.orders, one, self.hosts)

    @property
    def is_held(self) -> bool:
        return "unschedulable" in self.api.objects["nodes/web1"]["spec"]

    @property
    def is_claimed(self) -> bool:
        return ANNOTATION_VISIT in self.api.objects["managednodes/ns/web1"]["metadata"]["annotations"]


def visit(state: State, uid: str = "m-1", *, cordoned: bool = True) -> dict[str, str]:
    made = Claim(
        maintenance="m", uid=uid, host_uid="uid-web1", run="r", attempt=0, state=state, since=ENDED,
        begun=ENDED, expires=ENDED, cordoned=cordoned,
    )  # fmt: skip
    return {ANNOTATION_VISIT: claims.encode(made)}


@pytest.mark.parametrize(
    ("notes", "busy", "held", "claimed"),
    [
        pytest.param(visit(State.WORKING), True, True, True, id="at work"),
        pytest.param(visit(State.HALTED), False, False, False, id="nobody knows how it is"),
        pytest.param(visit(State.DONE, cordoned=False), False, True, False, id="others cordoned it"),
        pytest.param(visit(State.HALTED, "m-2"), False, True, True, id="of another maintenance"),
        pytest.param({ANNOTATION_VISIT: "?"}, False, True, True, id="nobody can read that"),
    ],
)
async def test_hosts_are_given_back_when_their_visits_have_ended(
    notes: dict[str, str], busy: bool, held: bool, claimed: bool
) -> None:
    world = Deleted(notes)
    assert await world.restore() is busy
    assert (world.is_held, world.is_claimed) == (held, claimed)
    if not claimed:
        assert not await world.restore()


async def test_a_host_that_is_gone_or_changed_meanwhile_ends_nothing() -> None:
    world = Deleted(visit(State.HALTED))
    world.api.put("managednodes/ns/web1", metadata={"annotations": visit(State.HALTED)})
    assert await world.restore(), "it is looked at again"
    assert world.is_claimed
    assert not world.is_held
    del world.api.objects["managednodes/ns/web1"]
    assert not await world.restore()
