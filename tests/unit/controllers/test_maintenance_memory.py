"""What a maintenance remembers of its runs, and which run comes next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.maintenance_status import HostCounts, RunState
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_ABORT, ANNOTATION_RETRY, NodeMaintenance
from nodemanager.controllers.node_maintenances import upcoming
from nodemanager.controllers.node_maintenances.inputs import SHUT, Inputs
from nodemanager.controllers.node_maintenances.status import remembering
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.fleet.maintenance import runs
from nodemanager.fleet.maintenance.decide import MaintenanceDecision, Stop
from nodemanager.fleet.maintenance.facts import Run
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import MaintenanceLook, Upkeep
from nodemanager.fleet.maintenance.progress import HostStage, RunProgress
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import OperationJudgement, OperationMemory

NOW = datetime(2026, 11, 16, 6, 0, 0, 250_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)
AT = "2026-11-16T06:00:00Z"
WHEN = datetime(2026, 11, 16, 6, tzinfo=UTC)
RUN: dict[str, Any] = {"id": "r1", "operations": ["patch"], "startedAt": AT, "slots": {"patch": "one"}}
ONCE = {"name": "patch", "type": "one-shot"}
WEEKLY, DAILY = ({"name": name, "type": "cron", "schedule": "0 6 * * *"} for name in ("boot", "look"))


def maintenance(*operations: dict[str, Any], **fields: Any) -> NodeMaintenance:
    meta = {"name": "monday", "uid": "m-1", **fields.pop("metadata", {})}
    body = {"metadata": meta, "spec": {"operations": operations}, "status": fields}
    return msgspec.convert(body, NodeMaintenance)


def test_what_operations_are_remembered_by() -> None:
    known = [{"name": "patch", "done": "one"}, {"name": "boot", "lastSlot": AT}]
    found = remembering.memories(maintenance(operations=known).status)
    assert found == {"patch": OperationMemory(done="one"), "boot": OperationMemory(last_slot=WHEN)}


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        pytest.param(maintenance(), None, id="none"),
        pytest.param(maintenance(run={"id": "r1"}), None, id="one that never began"),
        pytest.param(maintenance(run=RUN), Run("r1", WHEN), id="under way"),
        pytest.param(
            maintenance(run={**RUN, "stoppedAt": AT, "retriedAt": AT}), Run("r1", WHEN, WHEN, stopped=True),
            id="stopped",
        ),
        pytest.param(maintenance(run={**RUN, "replaced": True}), Run("r1", WHEN, ending=Reason.REPLACED),
                     id="replaced"),
        pytest.param(
            maintenance(run=RUN, metadata={"annotations": {ANNOTATION_ABORT: "r1"}}),
            Run("r1", WHEN, ending=Reason.ABORTED), id="aborted",
        ),
        pytest.param(
            maintenance(run=RUN, metadata={"annotations": {ANNOTATION_ABORT: "r0"}}), Run("r1", WHEN),
            id="another one was aborted",
        ),
        pytest.param(
            maintenance(run={**RUN, "replaced": True}, metadata={"deletionTimestamp": AT}),
            Run("r1", WHEN, ending=Reason.DELETED), id="deleted",
        ),
    ],
)  # fmt: skip
def test_the_run_that_is_under_way(one: NodeMaintenance, wanted: Run | None) -> None:
    assert remembering.run_of(one) == wanted


def test_somebody_lets_a_run_go_on() -> None:
    retry = {"annotations": {ANNOTATION_RETRY: "r1"}}
    found = remembering.retried(maintenance(run={**RUN, "stoppedAt": AT}, metadata=retry), NOW)
    assert found is not None
    assert (found.retried_at, found.stopped_at, found.id) == ("2026-11-16T06:00:00.250000Z", None, "r1")
    assert remembering.retried(maintenance(run=RUN), NOW) is None
    assert remembering.retried(maintenance(run={**RUN, "id": "r2"}, metadata=retry), NOW) is None
    assert remembering.retried(maintenance(metadata=retry), NOW) is None


STOPS = MaintenanceDecision(stops=(Stop(Reason.STOPPED, ("a",)),))
REPLACES = (OperationJudgement("a"), OperationJudgement("b", replaces=True))


@pytest.mark.parametrize(
    ("stopped", "look", "wanted"),
    [
        (None, MaintenanceLook(WindowView(), ()), {}),
        (None, MaintenanceLook(WindowView(), (), decision=MaintenanceDecision()), {}),
        (None, MaintenanceLook(WindowView(), (), decision=STOPS), {"stopped_at": AT}),
        ("2026-11-16T05:00:00Z", MaintenanceLook(WindowView(), (), decision=STOPS), {}),
        (None, MaintenanceLook(WindowView(), REPLACES), {"replaced": True}),
        (None, MaintenanceLook(WindowView(), REPLACES[:1]), {}),
    ],
)
def test_a_run_that_goes_on_remembers_what_became_of_it(
    stopped: str | None, look: MaintenanceLook, wanted: dict[str, Any]
) -> None:
    run = RunState(id="r1", stopped_at=stopped)
    assert remembering.kept(run, look, NOW) == msgspec.structs.replace(run, **wanted)


def test_how_a_run_has_ended() -> None:
    run = msgspec.convert(RUN, RunState)
    decision = MaintenanceDecision(outcome="Failed", progress={"a": RunProgress(HostStage.FAILED)})
    found = remembering.ended(run, decision, NOW)
    assert (found.id, found.operations, found.outcome) == ("r1", ["patch"], "Failed")
    assert (found.started_at, found.ended_at) == (AT, AT)
    assert found.hosts == HostCounts(total=1, failed=1, text="0/1")


def due(name: str, next_run: datetime | None = None) -> OperationJudgement:
    return OperationJudgement(name, next_run=next_run)


def look(*judgements: OperationJudgement, **begins: str) -> MaintenanceLook:
    return MaintenanceLook(WindowView(), judgements, begins)


def test_the_next_run_is_of_all_that_is_due_first() -> None:
    one = maintenance(ONCE, WEEKLY, DAILY)
    found = upcoming.next_run(one, look(due("patch", WHEN), due("boot", WHEN), due("look", WHEN + SECOND)))
    assert found is not None
    identity = runs.one_shot_id("m-1", one.spec.operations[0])
    assert found.slots == {"patch": identity, "boot": "2026-11-16T06:00:00+00:00"}
    assert (found.operations, found.started_at) == (["patch", "boot"], AT)
    assert found.id == runs.run_id("m-1", found.slots)
    assert upcoming.next_run(one, look(due("patch"), due("boot"))) is None
    later = upcoming.next_run(one, look(due("patch"), due("look", WHEN)))
    assert later is not None
    assert later.operations == ["look"]


def test_a_plan_is_about_the_run_under_way_or_the_one_that_begins_or_the_next() -> None:
    one, found = maintenance(ONCE, WEEKLY), look(due("boot", WHEN + SECOND), patch="one")
    begins = upcoming.run_of(one, found, NOW, begins=True)
    assert begins == remembering.began("m-1", {"patch": "one"}, NOW)
    for begun, seen in ((False, found), (True, look(due("boot", WHEN + SECOND)))):
        later = upcoming.run_of(one, seen, NOW, begins=begun)
        assert later is not None
        assert later.operations == ["boot"]
    current = maintenance(ONCE, WEEKLY, run=RUN)
    assert upcoming.run_of(current, found, NOW, begins=True) == current.status.run


def test_a_look_at_runs_knows_since_when_there_are_any() -> None:
    inputs = Inputs(SHUT, WindowView(), (), (), {})

    def seen(**fields: Any) -> Upkeep:
        one = maintenance(ONCE, **fields)
        return upcoming.upkeep(MaintenanceSnapshot(one, NOW, (), inputs, (), None))

    made = seen(metadata={"creationTimestamp": AT}, run=RUN, operations=[{"name": "patch", "done": "x"}])
    assert (made.created, made.running) == (WHEN, frozenset({"patch"}))
    assert made.memories == {"patch": OperationMemory(done="x")}
    assert (seen().created, seen().running) == (NOW, frozenset())
