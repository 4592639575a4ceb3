"""Which hosts of a run begin, which wait and why, and when it has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.fleet.maintenance import budget, openings
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.decide import PATIENCE, MaintenanceDecision, decide
from nodemanager.fleet.maintenance.facts import (
    GateFinding,
    HostFacts,
    HostHealth,
    MaintenanceFacts,
    NodeFacts,
    Run,
    TaskFacts,
)
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.fleet.maintenance.reasons import REMEDIES, Reason
from nodemanager.fleet.series import CANARIES, LAST, HostGroup

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
BEGAN = NOW - timedelta(minutes=30)
OPEN = WindowView(open=True, closes_at=NOW + timedelta(hours=2), opens_at=NOW + timedelta(days=7))


def host(name: str, **fields: Any) -> HostFacts:
    return HostFacts(name, f"uid-{name}", NOW - timedelta(days=30), **fields)


def claim(name: str, state: State = State.WORKING, **fields: Any) -> Claim:
    made = Claim(
        maintenance="monday", uid="m", host_uid=f"uid-{name}", run="r1", attempt=0, state=state, since=BEGAN,
        begun=BEGAN, expires=NOW + timedelta(hours=1),
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def known(
    *hosts: HostFacts, groups: Any = None, spec: dict[str, Any] | None = None, **fields: Any
) -> MaintenanceFacts:
    typed = msgspec.convert(
        {"operations": [], "budget": {"maxUnavailable": 10}, **(spec or {})}, NodeMaintenanceSpec
    )
    by_name = {one.name: one for one in hosts}
    if groups is None:
        groups = [HostGroup("", tuple(by_name))]
    made = MaintenanceFacts("m", typed, Run("r1", BEGAN), groups, by_name, NOW, window=OPEN)
    return replace(made, **fields)


def starts(decision: MaintenanceDecision) -> list[str]:
    return [start.host for start in decision.starts]


def reasons(decision: MaintenanceDecision) -> dict[str, Reason]:
    return {wait.host: wait.reason for wait in decision.waits}


def task(phase: str, attempt: int = 0, ended: datetime = NOW - timedelta(minutes=20)) -> TaskFacts:
    return TaskFacts("t", phase, attempt, taken=True, ended=ended)


def test_without_a_budget_one_host_is_away_at_a_time() -> None:
    found = decide(known(host("a"), host("b"), spec={"budget": None}))
    assert (starts(found), reasons(found)) == (["a"], {"b": Reason.BUDGET_SPENT})


def test_of_hosts_outside_of_the_series_only_those_of_this_run_count() -> None:
    def left(name: str, uid: str) -> MaintenanceDecision:
        gone = host(name, claim=claim(name, uid=uid))
        groups = [HostGroup("", ("a", "b"))]
        return decide(
            known(host("a"), host("b"), gone, groups=groups, spec={"budget": {"maxUnavailable": 2}})
        )

    assert starts(left("x", "m")) == ["a"]
    assert starts(left("x", "another")) == ["a", "b"]


def test_hosts_begin_in_their_order_as_many_as_may_be_away() -> None:
    found = decide(known(host("a"), host("b"), host("c"), spec={"budget": {"maxUnavailable": 2}}))
    assert starts(found) == ["a", "b"]
    assert reasons(found) == {"c": Reason.BUDGET_SPENT}


@pytest.mark.parametrize(
    ("away", "reason"),
    [
        ({"health": HostHealth(alive=False)}, Reason.HOST_SILENT),
        ({"node": NodeFacts(ready=False)}, Reason.NODE_NOT_READY),
        ({"node": NodeFacts(cordoned=True)}, Reason.NODE_CORDONED),
        ({"health": HostHealth(upgrading=True)}, Reason.HOST_UPGRADING),
        ({"changing": "web"}, Reason.HOST_CHANGING),
        ({"claim": claim("a", uid="other", run="r9")}, Reason.HOST_BUSY),
        ({"claim": Unreadable("garbage")}, Reason.CLAIM_UNREADABLE),
    ],
)
def test_whoever_is_away_counts_whatever_the_cause(away: dict[str, Any], reason: Reason) -> None:
    found = decide(known(host("a", **away), host("b"), spec={"budget": {"maxUnavailable": 1}}))
    assert starts(found) == []
    assert reasons(found) == {"a": reason, "b": Reason.BUDGET_SPENT}


def test_who_waits_because_of_a_rollout_is_told_which_one() -> None:
    found = decide(known(host("a", changing="web"), host("b"), spec={"budget": {"maxUnavailable": 1}}))
    assert {wait.host: wait.object for wait in found.waits} == {"a": "configset/web", "b": "configset/web"}
    free = decide(known(host("a", changing="web"), host("b"), spec={"budget": {"maxUnavailable": 2}}))
    assert starts(free) == ["b"]


@pytest.mark.parametrize(
    ("health", "reason"),
    [
        (HostHealth(alive=None), Reason.HOST_WITHOUT_AGENT),
        (HostHealth(held=True), Reason.HOST_HELD),
        (HostHealth(failing_before=GateFinding("prometheus up")), Reason.GATE_BEFORE),
    ],
)
def test_what_a_host_waits_for_itself_holds_up_nobody_else(health: HostHealth, reason: Reason) -> None:
    groups = [HostGroup("z1", ("a",)), HostGroup("z2", ("b",))]
    found = decide(
        known(host("a", health=health), host("b"), groups=groups, spec={"budget": {"maxUnavailable": 1}})
    )
    assert starts(found) == ["b"]
    assert reasons(found) == {"a": reason}


def test_a_host_whose_gates_are_asked_keeps_its_place_and_those_after_it_are_not_asked() -> None:
    open_ = HostHealth(failing_before=GateFinding("http x: not asked yet", Reason.GATE_NOT_ASKED))
    hosts = [host(name, health=open_) for name in "abc"]
    found = decide(known(*hosts, spec={"budget": {"maxUnavailable": 1}}))
    assert starts(found) == []
    assert reasons(found) == {"a": Reason.GATE_NOT_ASKED, "b": Reason.BUDGET_SPENT, "c": Reason.BUDGET_SPENT}
    no = HostHealth(failing_before=GateFinding("http x: answered 503, not 200"))
    after = decide(known(host("a", health=no), *hosts[1:], spec={"budget": {"maxUnavailable": 1}}))
    assert reasons(after) == {"a": Reason.GATE_BEFORE, "b": Reason.GATE_NOT_ASKED, "c": Reason.BUDGET_SPENT}
    shut = decide(known(*hosts, window=WindowView()))
    assert set(reasons(shut).values()) == {Reason.WINDOW_CLOSED}


def test_a_host_that_is_not_proven_says_by_which_gate() -> None:
    health = HostHealth(failing_after=GateFinding("http x: answered 503, not 200"))
    found = decide(known(host("a", health=health, claim=claim("a", State.PROVING))))
    assert [(one.reason, one.object) for one in found.waits] == [
        (Reason.PROVING, "http x: answered 503, not 200")
    ]


def test_a_percentage_is_rounded_down_and_is_one_at_least() -> None:
    assert [budget.resolve("10%", total) for total in (1, 9, 19, 20, 1000)] == [1, 1, 1, 2, 100]
    assert budget.resolve("100%", 7) == 7
    assert budget.resolve(3, 1) == 3


def test_zones_and_groups_have_ceilings_of_their_own() -> None:
    hosts = [host(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1", "b2", "c1")]
    zone = {"budget": {"maxUnavailable": 9, "perZone": {"label": "zone", "maxUnavailable": 1, "maxZones": 2}}}
    found = decide(known(*hosts, spec=zone))
    assert starts(found) == ["a1", "b1"]
    assert reasons(found) == {
        "a2": Reason.ZONE_BUDGET_SPENT,
        "b2": Reason.ZONE_BUDGET_SPENT,
        "c1": Reason.ZONES_BUSY,
    }
    group = decide(known(host("a"), host("b"), spec={"budget": {"maxUnavailable": 9, "perGroup": 1}}))
    assert reasons(group) == {"b": Reason.GROUP_BUDGET_SPENT}


def test_canaries_come_first_and_the_control_plane_last() -> None:
    groups = [HostGroup(CANARIES, ("c",)), HostGroup("", ("a",)), HostGroup(LAST, ("z",))]
    found = decide(known(host("c"), host("a"), host("z"), groups=groups))
    assert starts(found) == ["c"]
    assert reasons(found) == {"a": Reason.CANARIES_FIRST, "z": Reason.CANARIES_FIRST}
    later = decide(known(host("c"), host("a"), host("z"), groups=groups, tasks={"c": [task("Succeeded")]}))
    assert starts(later) == ["a"]
    assert reasons(later) == {"z": Reason.EARLIER_GROUP}


def test_a_canary_that_cannot_begin_holds_up_all_and_one_that_fails_stops_all() -> None:
    groups = [HostGroup(CANARIES, ("c",)), HostGroup("", ("a",))]
    silent = host("c", health=HostHealth(alive=False))
    assert reasons(decide(known(silent, host("a"), groups=groups)))["a"] is Reason.CANARIES_FIRST
    failed = decide(
        known(host("c"), host("a"), groups=groups, spec={"stopAfter": 50}, tasks={"c": [task("Undone")]})
    )
    assert failed.stops[0].hosts == ("c",)
    assert reasons(failed) == {"a": Reason.STOPPED}


@pytest.mark.parametrize("done", [0, 40])
def test_trap_2_the_stop_rule_never_switches_itself_off(done: int) -> None:
    names = [f"h{number:02}" for number in range(50)]
    tasks = {name: [task("Succeeded")] for name in names[:done]}
    tasks[names[45]] = [task("Failed")]
    found = decide(known(*map(host, names), tasks=tasks))
    assert not found.starts
    assert found.stops[0].hosts == (names[45],)
    assert set(reasons(found).values()) == {Reason.STOPPED}
    assert not found.outcome


def test_a_run_that_somebody_has_go_on_forgives_what_failed_before() -> None:
    failed = known(host("a"), host("b"), tasks={"a": [task("Failed")]})
    assert decide(failed).stops
    again = decide(replace(failed, run=Run("r1", BEGAN, retried_at=NOW - timedelta(minutes=1))))
    assert not again.stops
    assert [(start.host, start.attempt) for start in again.starts] == [("a", 1), ("b", 0)]


def test_a_host_is_tried_again_as_often_as_it_may_and_after_a_while() -> None:
    once = {"a": [task("Failed", ended=NOW)]}
    found = decide(known(host("a"), tasks=once, spec={"backoffLimit": 1}))
    assert reasons(found) == {"a": Reason.BACKING_OFF}
    later = decide(known(host("a"), tasks=once, spec={"backoffLimit": 1}, now=NOW + timedelta(minutes=1)))
    assert [(start.host, start.attempt) for start in later.starts] == [("a", 1)]
    twice = {"a": [task("Failed"), task("Failed", 1)]}
    assert (
        decide(known(host("a"), tasks=twice, spec={"backoffLimit": 1})).progress["a"].stage
        is HostStage.FAILED
    )


def test_what_the_claim_says_of_a_try_is_the_last_word() -> None:
    undone = host("a", claim=claim("a", State.UNDONE, reason=Reason.NOT_PROVEN))
    found = decide(known(undone, tasks={"a": [task("Succeeded")]}))
    assert (found.progress["a"].stage, found.progress["a"].reason) == (HostStage.FAILED, Reason.NOT_PROVEN)


def test_a_host_that_was_not_proven_stays_failed_when_another_maintenance_has_visited_it() -> None:
    unproven = replace(task("Succeeded"), not_done=Reason.NOT_PROVEN)
    other = host("a", claim=claim("a", State.DONE, uid="other", run="r9"))
    found = decide(known(other, tasks={"a": [unproven]}))
    assert (found.progress["a"].stage, found.progress["a"].reason) == (HostStage.FAILED, Reason.NOT_PROVEN)


def test_a_host_that_took_no_task_before_the_window_closed_is_begun_with_again() -> None:
    late = replace(task("Expired"), taken=False, windowed=True)
    other = host("a", claim=claim("a", State.DONE, uid="other", run="r9"))
    found = decide(known(other, tasks={"a": [late]}))
    assert [(start.host, start.attempt) for start in found.starts] == [("a", 1)]


def test_a_host_that_a_drain_gave_back_is_skipped_unless_that_stops_all() -> None:
    back = host("a", claim=claim("a", State.UNDONE, reason=Reason.DRAIN_TIMED_OUT))
    found = decide(known(back, host("b")))
    assert found.progress["a"].stage is HostStage.SKIPPED
    assert starts(found) == ["b"]
    stop = host("a", claim=claim("a", State.HALTED, reason=Reason.DRAIN_TIMED_OUT))
    assert decide(known(stop, host("b"), spec={"stopAfter": 9})).stops


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"window": WindowView(opens_at=NOW + timedelta(days=1))}, Reason.WINDOW_CLOSED),
        ({"window": replace(OPEN, minimum=timedelta(hours=3))}, Reason.TIME_TOO_SHORT),
        ({"spec": {"paused": True}}, Reason.PAUSED),
        ({"approved": False}, Reason.NOT_APPROVED),
        ({"problem": (Reason.TEMPLATE_NOT_FOUND, "nodeoperationtemplate/x")}, Reason.TEMPLATE_NOT_FOUND),
    ],
)
def test_nothing_begins_and_it_is_said_why(change: dict[str, Any], reason: Reason) -> None:
    found = decide(known(host("a"), **change))
    assert not found.starts
    assert reasons(found) == {"a": reason}
    assert REMEDIES[reason]


def test_claim_3_a_host_begins_only_if_it_will_be_done_before_the_window_closes() -> None:
    slow = openings.measured([("a", timedelta(hours=3))] * 3 + [("b", timedelta(minutes=5))] * 3)
    found = decide(known(host("a"), host("b"), durations=slow))
    assert starts(found) == ["b"]
    assert reasons(found) == {"a": Reason.TIME_TOO_SHORT}
    assert found.waits[0].next_check == OPEN.opens_at
    assert slow.expected("unknown") == timedelta(hours=3)


def test_the_moment_at_which_a_window_closes_is_outside() -> None:
    shut = replace(OPEN, closes_at=NOW)
    assert reasons(decide(known(host("a"), window=shut))) == {"a": Reason.WINDOW_CLOSED}


def test_parallelism_is_below_the_budget() -> None:
    found = decide(known(host("a", claim=claim("a")), host("b"), host("c"), spec={"parallelism": 2}))
    assert starts(found) == ["b"]
    assert reasons(found) == {"a": Reason.WORKING, "c": Reason.PARALLELISM}


def test_hosts_that_came_later_or_were_made_anew_are_no_part_of_the_run() -> None:
    new = replace(host("new"), created=NOW - timedelta(minutes=1))
    anew = replace(new, name="anew")
    found = decide(known(host("a"), new, anew, tasks={"anew": [TaskFacts("t", "Running", taken=True)]}))
    assert starts(found) == ["a"]
    assert "new" not in found.progress
    assert (found.progress["anew"].stage, found.progress["anew"].reason) == (
        HostStage.SKIPPED,
        Reason.HOST_GONE,
    )


def test_a_host_that_leaves_the_series_ends_its_visit_and_counts_until_then() -> None:
    left = host("left", claim=claim("left"))
    found = decide(
        known(host("a"), left, groups=[HostGroup("", ("a",))], spec={"budget": {"maxUnavailable": 1}})
    )
    assert reasons(found) == {"a": Reason.BUDGET_SPENT, "left": Reason.WORKING}
    waiting = host("left", claim=claim("left", State.UNDONE, reason=Reason.TIME_TOO_SHORT))
    gone = decide(known(host("a"), waiting, groups=[HostGroup("", ("a",))]))
    assert gone.progress["left"].reason is Reason.HOST_LEFT_SERIES


def test_a_run_ends_when_all_its_hosts_have() -> None:
    done = {"a": [task("Succeeded")], "b": [task("Succeeded")]}
    assert decide(known(host("a"), host("b"), tasks=done)).outcome == "Succeeded"
    mixed = {**done, "b": [task("Failed")]}
    assert decide(known(host("a"), host("b"), tasks=mixed, spec={"stopAfter": 2})).outcome == "Failed"


def test_a_run_of_which_nobody_can_tell_the_hosts_ends_only_if_somebody_ends_it() -> None:
    nobody = known(groups=[], problem=(Reason.WINDOW_NOT_FOUND, "maintenancewindow/office"))
    assert decide(nobody).outcome == "Succeeded"  # a series that chooses no host any more
    unknown = replace(nobody, series_known=False)
    assert decide(unknown).outcome == ""
    assert decide(replace(unknown, run=replace(unknown.run, ending=Reason.ABORTED))).outcome == "Aborted"


def test_a_run_does_not_wait_for_ever_for_hosts_that_cannot_begin() -> None:
    left = known(host("a"), host("b", health=HostHealth(alive=False)), tasks={"a": [task("Succeeded")]})
    assert decide(left).outcome == ""
    assert decide(left).lonely
    later = decide(replace(left, now=NOW + PATIENCE, window=replace(OPEN, closes_at=None)))
    assert later.outcome == "Succeeded"
    assert later.progress["b"].reason is Reason.WAITED_TOO_LONG
    assert decide(replace(left, run=replace(left.run, superseded=True))).outcome == "Succeeded"


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [(Reason.DELETED, "Aborted"), (Reason.ABORTED, "Aborted"), (Reason.REPLACED, "Replaced")],
)
def test_a_run_that_is_ended_finishes_the_hosts_in_work(ending: Reason, outcome: str) -> None:
    run = Run("r1", BEGAN, ending=ending)
    busy = decide(known(host("a", claim=claim("a")), host("b"), run=run))
    assert reasons(busy) == {"a": Reason.WORKING, "b": ending}
    assert not busy.outcome
    assert decide(known(host("b"), run=run)).outcome == outcome
