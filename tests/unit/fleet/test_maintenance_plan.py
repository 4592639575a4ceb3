"""What a run will be, its hash, how its visits begin, and one look at a maintenance as a whole."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApprovalSpec
from nodemanager.api.maintenance.nodemaintenance import Approval, NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.fleet.maintenance import beginning, openings, plan, steps
from nodemanager.fleet.maintenance.beginning import VisitOwner
from nodemanager.fleet.maintenance.claims import State
from nodemanager.fleet.maintenance.facts import HostFacts, NodeFacts
from nodemanager.fleet.maintenance.openings import Durations, WindowView
from nodemanager.fleet.maintenance.plan import MaintenancePlanInput
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.fleet.series import HostGroup
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.kube.objects import ObjectMeta
from support import fleets

SUNDAY = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
MONDAY = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
BOOT = {"name": "boot", "reboot": {"when": "always"}}
TOUCH = {"name": "touch", "execution": {"argv": ["touch", "/x"]}}
WINDOW = {"schedules": [{"weekdays": ["Mon"], "start": "06:00", "duration": "3h"}]}


def made_of(
    hosts: tuple[str, ...] = ("a", "b", "c"), step: dict[str, Any] = BOOT, **fields: Any
) -> MaintenancePlanInput:
    operation = {"name": "up", "type": "cron", "schedule": "0 6 * * 1", "steps": [step]}
    spec = msgspec.convert({"window": WINDOW, "operations": [operation], **fields}, NodeMaintenanceSpec)
    assert spec.window is not None
    work = steps.work(spec.operations, {})
    uids = {name: f"uid-{name}" for name in hosts}
    return MaintenancePlanInput(
        spec, {"up": MONDAY.isoformat()}, work, spec.window, [HostGroup("", hosts)], uids
    )


def planned(found: MaintenancePlanInput, taken: Durations | None = None) -> plan.Plan:
    return plan.plan(found, Calendar(found.window), taken or Durations(), SUNDAY)


def test_a_plan_has_the_same_hash_whoever_asks_and_whenever() -> None:
    one = planned(made_of())
    assert one.hash == planned(made_of()).hash
    assert len(one.hash) == 64
    for unimportant in ({"paused": True}, {"notify": [{"name": "x"}]}, {"ttlSecondsAfterFinished": 3}):
        assert planned(made_of(**unimportant)).hash == one.hash


@pytest.mark.parametrize(
    "change",
    [
        {"hosts": ("a", "c", "b")},
        {"hosts": ("a", "b")},
        {"step": TOUCH},
        {"budget": {"maxUnavailable": 2}},
        {"window": {"always": True}},
        {"health": {"after": [{"ready": True}]}},
        {"disruption": {"cordon": False}},
        {"stopAfter": 2},
        {"backoffLimit": 1},
        {"soak": "5m"},
        {"activeDeadlineSeconds": 600},
    ],
    ids=str,
)
def test_whatever_is_changed_makes_another_plan(change: dict[str, Any]) -> None:
    assert planned(made_of(**change)).hash != planned(made_of()).hash


def test_another_slot_and_a_host_that_was_made_anew_make_another_plan() -> None:
    one = made_of()
    assert plan.hash_of(replace(one, due={"up": "later"})) != plan.hash_of(one)
    assert plan.hash_of(replace(one, uids={**one.uids, "a": "uid-new"})) != plan.hash_of(one)


def test_a_plan_says_when_each_host_is_expected_to_begin_and_when_all_are_done() -> None:
    found = planned(made_of(), openings.measured([("a", timedelta(minutes=50))]))
    assert found.starts_at == MONDAY
    assert found.visits["b"] == (MONDAY + timedelta(minutes=50), MONDAY + timedelta(minutes=100))
    assert found.ends_at == MONDAY + timedelta(minutes=150)
    assert found.at_once == 1


def test_hosts_that_do_not_fit_are_expected_in_the_next_opening() -> None:
    found = planned(made_of(), openings.measured([("a", timedelta(hours=2))]))
    assert found.visits["b"][0] == MONDAY + timedelta(days=7)
    assert found.ends_at == MONDAY + timedelta(days=14, hours=2)
    never = planned(made_of(), openings.measured([("a", timedelta(hours=4))]))
    assert (never.visits, never.ends_at) == ({}, None)


def test_a_host_that_nobody_has_measured_is_expected_to_take_a_while_and_to_soak_after_it() -> None:
    found = planned(made_of(soak="5m"))
    assert found.visits["a"] == (MONDAY, MONDAY + plan.DEFAULT_VISIT + timedelta(minutes=5))
    assert found.visits["b"][0] == found.visits["a"][1]


@pytest.mark.parametrize(
    ("lasts", "fit"),
    [
        pytest.param(timedelta(hours=1), 3, id="the last one ends with the opening"),
        pytest.param(timedelta(hours=1, seconds=1), 2, id="a second too long for the last one"),
    ],
)
def test_what_ends_as_the_opening_does_fits(lasts: timedelta, fit: int) -> None:
    found = planned(made_of(), openings.measured([("a", lasts)]))
    assert [start < MONDAY + timedelta(days=1) for start, _ in found.visits.values()].count(True) == fit


def test_a_run_that_begins_while_the_window_is_open_begins_then() -> None:
    now = MONDAY + timedelta(hours=1)
    one = made_of()
    found = plan.plan(one, Calendar(one.window), Durations(), now)
    assert found.starts_at == now
    always = made_of(window={"always": True})
    found = plan.plan(always, Calendar(always.window), openings.measured([("a", timedelta(days=9))]), now)
    assert found.ends_at == now + timedelta(days=27), "what never closes has room for anything"


def test_a_plan_of_which_only_a_part_is_in_sight_has_no_end() -> None:
    most = {"weekdays": ["Mon"], "start": "06:00", "duration": "1h"}
    window = {"schedules": [most], "validUntil": "2026-11-17T00:00:00Z"}
    found = planned(made_of(window=window), openings.measured([("a", timedelta(minutes=40))]))
    assert (found.starts_at, found.ends_at, list(found.visits)) == (MONDAY, None, ["a"])
    nobody = planned(made_of(hosts=()))
    assert (nobody.starts_at, nobody.ends_at, nobody.hosts, nobody.at_once) == (None, None, (), 1)


@pytest.mark.parametrize(
    ("fields", "at_once"),
    [
        ({}, 1),
        ({"budget": {"maxUnavailable": 2}}, 2),
        ({"budget": {"maxUnavailable": "67%"}}, 2),
        ({"budget": {"maxUnavailable": "10%"}}, 1),
        ({"budget": {"maxUnavailable": 3}, "parallelism": 2}, 2),
        ({"budget": {"maxUnavailable": 2}, "parallelism": 3}, 2),
    ],
)
def test_as_many_at_once_as_budget_and_parallelism_allow(fields: dict[str, Any], at_once: int) -> None:
    found = planned(made_of(**fields))
    assert found.at_once == at_once
    assert [start for start, _ in found.visits.values()].count(MONDAY) == at_once


def test_which_hosts_are_meant() -> None:
    own, referred = SeriesSpec(names=["a"]), SeriesSpec(names=["b"])
    assert plan.series_of(NodeMaintenanceSpec(series=own), referred) == own
    assert plan.series_of(NodeMaintenanceSpec(), referred) == referred
    assert plan.series_of(NodeMaintenanceSpec(), None) == SeriesSpec()


def test_groups_are_expected_one_after_the_other() -> None:
    groups = [HostGroup("canaries", ("a",)), HostGroup("", ("b", "c"))]
    found = planned(replace(made_of(budget={"maxUnavailable": 2}), groups=groups))
    assert found.visits["b"] == found.visits["c"]
    assert found.visits["b"][0] == found.visits["a"][1]


def test_a_visit_begins_as_the_node_and_the_steps_want_it() -> None:
    owner = VisitOwner("monday", "m", 3, "r1")
    node = HostFacts("a", "uid-a", SUNDAY, node=NodeFacts())
    reboots, touches = made_of(), made_of(step=TOUCH)
    rules = beginning.rules_of(reboots.spec, reboots.window, reboots.work)
    claim = beginning.claim(owner, node, 0, reboots.spec, rules, MONDAY)
    assert (claim.state, claim.cordoned, claim.generation) == (State.CORDONING, True, 3)
    assert claim.expires == MONDAY + timedelta(hours=2)
    foreign = replace(node, node=NodeFacts(cordoned=True))
    assert not beginning.claim(owner, foreign, 0, reboots.spec, rules, MONDAY).cordoned
    harmless = beginning.rules_of(touches.spec, touches.window, touches.work)
    assert beginning.claim(owner, node, 0, touches.spec, harmless, MONDAY).state is State.WORKING


@pytest.mark.parametrize(
    ("policy", "cut"), [("", False), ("finishHost", False), ("stop", True), ("abortAndUndo", True)]
)
def test_the_end_of_the_window_reaches_the_host_as_the_deadline_of_its_task(policy: str, cut: bool) -> None:
    window = msgspec.convert({"always": True, "onClose": policy}, WindowSpec)
    found = made_of()
    rules = beginning.rules_of(found.spec, window, found.work)
    host = HostFacts("a", "uid-a", SUNDAY)
    claim = beginning.claim(VisitOwner("m", "m", 1, "r"), host, 0, found.spec, rules, MONDAY)
    view = WindowView(open=True, closes_at=MONDAY + timedelta(minutes=30))
    assert beginning.task_deadline(claim, window, view) == (view.closes_at if cut else claim.expires)
    assert rules.undo_expired == (policy == "abortAndUndo")


def test_a_run_goes_on_in_the_next_opening_and_its_one_shot_does_not_end_it() -> None:
    operations = [
        {"name": "up", "type": "cron", "schedule": "0 6 * * 1", "steps": [BOOT]},
        {"name": "note", "type": "one-shot", "steps": [TOUCH]},
    ]
    rng = random.Random(1)
    engine = fleets.engine(rng)
    engine.hosts = {one.name: one for one in (fleets.host(number, rng, SUNDAY) for number in range(30))}
    engine.dice.behaviour.failures = 0
    engine.now = SUNDAY
    engine.maintenances = [fleets.maintenance("m", {"window": WINDOW, "operations": operations}, SUNDAY)]
    engine.run_until(SUNDAY + timedelta(days=30), rounds=1)
    (run,) = engine.record.runs
    assert run.outcome == "Succeeded"
    assert sum(run.counts.values()) == len(engine.hosts)
    assert run.ended - run.started > timedelta(days=7)
    assert engine.record.peak == 1
    assert engine.maintenances[0].memories["note"].done


def test_a_silent_host_does_not_keep_the_next_slot_from_beginning() -> None:
    daily = {"name": "up", "type": "cron", "schedule": "0 6 * * *", "steps": [TOUCH]}
    rng = random.Random(1)
    engine = fleets.engine(rng)
    engine.hosts = {one.name: one for one in (fleets.host(number, rng, SUNDAY) for number in range(3))}
    engine.dice.behaviour.failures = 0
    engine.now = SUNDAY
    engine.hosts["host-000"].silent_until = SUNDAY + timedelta(days=40)
    spec = {"window": {"always": True}, "operations": [daily], "budget": {"maxUnavailable": 2}}
    engine.maintenances = [fleets.maintenance("m", spec, SUNDAY)]
    engine.run_until(SUNDAY + timedelta(days=4))
    assert [run.outcome for run in engine.record.runs] == ["Succeeded"] * 3
    assert all(
        run.counts[HostStage.SKIPPED] == 1 and run.counts[HostStage.SUCCEEDED] == 2
        for run in engine.record.runs
    )


def test_an_approval_counts_for_its_plan_and_of_somebody_else_where_that_is_asked_for() -> None:
    def counts(approver: str, **asked: object) -> bool:
        approval = msgspec.convert({"required": True, **asked}, Approval)
        owner = NodeMaintenance(
            metadata=ObjectMeta(name="monday"), spec=NodeMaintenanceSpec(approval=approval)
        )
        said = MaintenanceApprovalSpec(maintenance="monday", plan_hash="a" * 64, approver=approver)
        assert not plan.approves(said, owner, "b" * 64)
        renamed = msgspec.structs.replace(owner, metadata=ObjectMeta(name="tuesday"))
        assert not plan.approves(said, renamed, "a" * 64)
        return plan.approves(said, owner, "a" * 64)

    said = MaintenanceApprovalSpec(maintenance="monday", plan_hash="a" * 64, approver="jane")
    assert plan.approves(said, NodeMaintenance(metadata=ObjectMeta(name="monday")), "a" * 64)
    assert counts("jane")
    assert counts("jane", requester="jane")  # who asked for it does not matter then
    assert counts("jane", differentUser=True, requester="joe")
    assert not counts("jane", differentUser=True, requester="jane")
    assert not counts("jane", differentUser=True)


def test_who_asked_for_a_plan_is_part_of_it_where_somebody_else_has_to_approve() -> None:
    def hashed(requester: str, *, different: bool) -> str:
        asked = {"required": True, "differentUser": different, "requester": requester}
        return plan.hash_of(made_of(approval=asked))

    assert hashed("jane", different=True) != hashed("joe", different=True)
    assert hashed("jane", different=False) == hashed("joe", different=False) == plan.hash_of(made_of())
