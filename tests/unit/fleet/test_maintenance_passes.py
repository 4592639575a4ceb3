"""One look at a maintenance: which run begins, which goes on, and which one gives way to the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.api.maintenance.operations import Operation
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.fleet.maintenance import passes
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth, MaintenanceFacts, Run, TaskFacts
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import MaintenanceLook, Upkeep
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.runs import OperationMemory
from nodemanager.fleet.series import HostGroup
from nodemanager.fleet.windows.calendar import Calendar

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
SLOT = NOW - timedelta(minutes=30)
STEPS = [{"name": "touch", "execution": {"argv": ["touch", "/x"]}}]
ALWAYS = Calendar(msgspec.convert({"always": True}, WindowSpec))
OPEN = WindowView(open=True)


def operation(name: str = "it", **fields: Any) -> Operation:
    return msgspec.convert({"name": name, "steps": STEPS, **fields}, Operation)


CRON = operation(type="cron", schedule="0 6 * * *")
ONCE = operation("once", type="one-shot")


def upkeep(*operations: Operation, last: datetime | None = None, **fields: Any) -> Upkeep:
    memories = {"it": OperationMemory(last)} if last is not None else {}
    return Upkeep(operations, memories, NOW - timedelta(days=3), fields.pop("calendar", ALWAYS), **fields)


def host(name: str, **fields: Any) -> HostFacts:
    return HostFacts(name, f"uid-{name}", NOW - timedelta(days=30), **fields)


DEAF = HostHealth(alive=False)
WORKED_ON = Claim("monday", "uid", "uid-a", "r1", 0, State.WORKING, SLOT, SLOT, NOW + timedelta(hours=1))
DONE = {"a": [TaskFacts("t", "Succeeded", taken=True, ended=NOW - timedelta(minutes=5))]}


def under_way(*hosts: HostFacts, **fields: Any) -> MaintenanceFacts:
    spec = msgspec.convert({"operations": [], "budget": {"maxUnavailable": 9}}, NodeMaintenanceSpec)
    by_name = {one.name: one for one in hosts}
    run = fields.pop("run", Run("r1", NOW - timedelta(days=2)))
    return MaintenanceFacts("uid", spec, run, [HostGroup("", tuple(by_name))], by_name, NOW, **fields)


def look(known: MaintenanceFacts | None, *operations: Operation, **fields: Any) -> MaintenanceLook:
    return passes.look(upkeep(*operations, **fields), known, "uid", NOW)


def test_what_is_due_begins_together_and_whoever_is_running_no_more_is_not_asked() -> None:
    found = look(None, CRON, ONCE, running=frozenset(("it",)))
    assert list(found.begins) == ["it", "once"]
    assert found.begins["it"] == SLOT.isoformat()
    assert (found.reason, found.decision, found.window.open) == (None, None, True)
    assert [one.operation for one in found.judgements] == ["it", "once"]


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        pytest.param([], Reason.NOTHING_DUE, id="nothing there"),
        pytest.param([CRON], Reason.NOTHING_DUE, id="its slot is done"),
        pytest.param([CRON, replace_ := operation("off", type="one-shot", suspend=True)], Reason.SUSPENDED,
                     id="another one is suspended"),
        pytest.param([replace_, CRON], Reason.SUSPENDED, id="suspended first"),
    ],
)  # fmt: skip
def test_why_nothing_begins(operations: list[Operation], reason: Reason) -> None:
    found = look(None, *operations, last=SLOT)
    assert (dict(found.begins), found.reason) == ({}, reason)


def test_the_window_that_is_known_already_is_not_looked_up_again() -> None:
    shut = WindowView(opens_at=NOW + timedelta(hours=1))
    assert look(None, CRON, view=shut).window == shut
    found = look(under_way(host("a")), CRON, last=SLOT, view=shut)
    assert found.window == shut
    assert found.decision is not None
    assert [wait.reason for wait in found.decision.waits] == [Reason.WINDOW_CLOSED]
    assert look(under_way(host("a")), CRON, last=SLOT).window.open


def test_a_run_goes_on_and_nothing_else_begins_meanwhile() -> None:
    found = look(under_way(host("a")), CRON, last=SLOT, running=frozenset(("it",)))
    assert found.decision is not None
    assert [one.host for one in found.decision.starts] == ["a"]
    assert (dict(found.begins), found.reason, found.decision.outcome) == ({}, None, "")


LEFT = under_way(host("a"), host("b", health=DEAF), tasks=DONE)
"""A run of which only a host is left that cannot be begun with."""


def test_a_run_that_only_waits_gives_way_to_the_next_slot() -> None:
    found = look(LEFT, CRON, running=frozenset(("it",)))
    assert found.decision is not None
    assert found.decision.outcome == "Succeeded"
    assert found.decision.progress["b"].reason is Reason.WAITED_TOO_LONG
    assert [one.due for one in found.judgements] == [SLOT.isoformat()]


@pytest.mark.parametrize(
    ("known", "operations", "last"),
    [
        pytest.param(LEFT, [CRON], SLOT, id="no further slot is due"),
        pytest.param(LEFT, [CRON, ONCE], SLOT, id="what is due is no slot"),
        pytest.param(
            under_way(host("a", claim=WORKED_ON), host("b", health=DEAF)),
            [CRON],
            None,
            id="a host is in work",
        ),
    ],
)
def test_a_run_goes_on_to_wait(
    known: MaintenanceFacts, operations: list[Operation], last: datetime | None
) -> None:
    found = look(known, *operations, last=last, running=frozenset(("it",)))
    assert found.decision is not None
    assert found.decision.outcome == ""
    assert Reason.HOST_SILENT in [wait.reason for wait in found.decision.waits]


def test_when_a_run_has_ended_what_is_due_is_judged_as_if_none_were_under_way() -> None:
    ended = under_way(host("a"), tasks=DONE)
    forbids = operation(type="cron", schedule="0 6 * * *", concurrencyPolicy="Forbid")
    found = look(ended, forbids, running=frozenset(("it",)))
    assert found.decision is not None
    assert found.decision.outcome == "Succeeded"
    assert [one.due for one in found.judgements] == [SLOT.isoformat()]
    busy = look(under_way(host("a", claim=WORKED_ON)), forbids, running=frozenset(("it",)))
    assert [one.due for one in busy.judgements] == [""]


REPLACES = operation(type="cron", schedule="0 6 * * *", concurrencyPolicy="Replace")


def test_a_slot_that_replaces_the_run_ends_it_after_the_hosts_in_work() -> None:
    known = under_way(host("a", claim=WORKED_ON), host("b"))
    found = look(known, REPLACES, running=frozenset(("it",)))
    assert found.decision is not None
    assert {one.host: one.reason for one in found.decision.waits} == {
        "a": Reason.WORKING, "b": Reason.REPLACED
    }  # fmt: skip
    assert found.decision.starts == ()
    waits = look(under_way(host("b")), REPLACES, running=frozenset(("it",)))
    assert waits.decision is not None
    assert waits.decision.outcome == "Replaced"


def test_a_run_that_is_ended_already_says_on_why() -> None:
    known = under_way(host("a", claim=WORKED_ON), host("b"), run=Run("r1", SLOT, ending=Reason.ABORTED))
    found = look(known, REPLACES, running=frozenset(("it",)))
    assert found.decision is not None
    assert {one.host: one.reason for one in found.decision.waits}["b"] is Reason.ABORTED


def test_nothing_else_is_due_while_a_host_is_in_work() -> None:
    other = operation("other", type="cron", schedule="15 6 * * *")
    found = look(under_way(host("a", claim=WORKED_ON)), REPLACES, other, running=frozenset(("it",)))
    assert [one.operation for one in found.judgements if one.due] == []
    free = look(LEFT, REPLACES, other, running=frozenset(("it",)))
    assert [one.operation for one in free.judgements if one.due] == ["it", "other"]
