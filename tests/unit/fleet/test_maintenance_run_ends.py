"""When a run stops and when it ends, at the edges: canaries, windows that never open, and patience."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.decide import PATIENCE, MaintenanceDecision, Stop, decide
from nodemanager.fleet.maintenance.facts import (
    GateFinding,
    HostFacts,
    HostHealth,
    MaintenanceFacts,
    Run,
    TaskFacts,
)
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.series import CANARIES, HostGroup

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
BEGAN = NOW - timedelta(minutes=30)
OPEN = WindowView(open=True)
SECOND = timedelta(seconds=1)
NEXT = NOW + timedelta(days=7)
DEAF = HostHealth(alive=False)


def host(name: str, **fields: Any) -> HostFacts:
    return HostFacts(name, f"uid-{name}", NOW - timedelta(days=30), **fields)


def claim(name: str, state: State = State.WORKING, **fields: Any) -> Claim:
    made = Claim("monday", "m", f"uid-{name}", "r1", 0, state, BEGAN, BEGAN, NOW + timedelta(hours=1))
    return msgspec.structs.replace(made, **fields)


def task(phase: str, ended: datetime = NOW - timedelta(minutes=20)) -> TaskFacts:
    return TaskFacts("t", phase, taken=True, ended=ended)


def known(
    *hosts: HostFacts, groups: Any = None, spec: dict[str, Any] | None = None, **fields: Any
) -> MaintenanceFacts:
    typed = msgspec.convert(
        {"operations": [], "budget": {"maxUnavailable": 10}, **(spec or {})}, NodeMaintenanceSpec
    )
    by_name = {one.name: one for one in hosts}
    groups = [HostGroup("", tuple(by_name))] if groups is None else groups
    return replace(
        MaintenanceFacts("m", typed, Run("r1", BEGAN), groups, by_name, NOW, window=OPEN), **fields
    )


def starts(found: MaintenanceDecision) -> list[str]:
    return [one.host for one in found.starts]


def reasons(found: MaintenanceDecision) -> dict[str, Reason]:
    return {one.host: one.reason for one in found.waits}


CANARY = [HostGroup(CANARIES, ("c1", "c2")), HostGroup("", ("a", "b"))]
FLEET = [host(name) for name in ("c1", "c2", "a", "b")]


@pytest.mark.parametrize(
    ("first", "second", "stopped"),
    [
        pytest.param("Failed", "Succeeded", ("c1",), id="one failed although the other succeeded"),
        pytest.param("Failed", "", ("c1",), id="one failed and the other has yet to"),
        pytest.param("Succeeded", "Succeeded", None, id="both succeeded"),
        pytest.param("Succeeded", "", None, id="one has yet to"),
    ],
)
def test_one_canary_that_fails_stops_all_however_many_may_fail(
    first: str, second: str, stopped: tuple[str, ...] | None
) -> None:
    tasks = {name: [task(phase)] for name, phase in (("c1", first), ("c2", second)) if phase}
    found = decide(known(*FLEET, groups=CANARY, spec={"stopAfter": 50}, tasks=tasks))
    assert [one.hosts for one in found.stops] == ([stopped] if stopped else [])


def test_canaries_that_are_gone_stop_all_until_somebody_has_the_run_go_on() -> None:
    gone = {name: [TaskFacts("t", "Running", taken=True)] for name in ("c1", "c2")}
    lost = known(*FLEET[2:], groups=CANARY, tasks=gone)
    found = decide(lost)
    assert [(one.reason, one.hosts) for one in found.stops] == [(Reason.STOPPED, ("c1", "c2"))]
    assert reasons(found) == {"a": Reason.STOPPED, "b": Reason.STOPPED}
    assert {wait.object for wait in found.waits} == {"managednode/c1 and 1 more"}
    again = decide(replace(lost, run=Run("r1", BEGAN, retried_at=NOW - SECOND)))
    assert (again.stops, starts(again)) == ((), ["a", "b"])
    one = decide(replace(lost, tasks={**gone, "c2": [task("Succeeded")]}))
    assert (one.stops, starts(one)) == ((), ["a", "b"]), "from one of them there was something to learn"


def test_a_run_that_was_stopped_stays_so_and_names_nobody_if_nobody_failed() -> None:
    found = decide(known(host("a"), run=Run("r1", BEGAN, stopped=True)))
    assert [(one.reason, one.hosts, one.object) for one in found.stops] == [(Reason.STOPPED, (), "")]
    assert (reasons(found), found.outcome) == ({"a": Reason.STOPPED}, "")
    assert Stop(Reason.STOPPED, ("a",)).object == "managednode/a"
    assert Stop(Reason.STOPPED, ("b", "a", "c")).object == "managednode/b and 2 more"


@pytest.mark.parametrize(("failed", "stops"), [(1, False), (2, True), (3, True)])
def test_a_run_stops_after_as_many_failures_as_it_says(failed: int, stops: bool) -> None:
    names = ["a", "b", "c", "d"]
    tasks = {name: [task("Failed")] for name in names[:failed]}
    assert bool(decide(known(*map(host, names), tasks=tasks, spec={"stopAfter": 2})).stops) is stops


def test_a_drain_that_stops_all_does_so_however_many_may_fail() -> None:
    stop = host("a", claim=claim("a", State.HALTED, reason=Reason.DRAIN_TIMED_OUT))
    assert decide(known(stop, host("b"), spec={"stopAfter": 50})).stops[0].hosts == ("a",)
    other = host("a", claim=claim("a", State.HALTED, reason=Reason.TASK_HALTED))
    assert not decide(known(other, host("b"), spec={"stopAfter": 50})).stops


GATE = GateFinding("http x: answered 503, not 200")


@pytest.mark.parametrize(
    ("state", "task_name", "gate", "about"),
    [
        pytest.param(State.WORKING, "t-1", GATE, "nodetask/t-1", id="works: the gate is asked later"),
        pytest.param(State.PROVING, "t-1", GATE, GATE.said, id="is proven"),
        pytest.param(State.PROVING, "t-1", None, "nodetask/t-1", id="all gates hold"),
        pytest.param(State.CORDONING, "", None, "", id="there is no task yet"),
    ],
)
def test_a_host_in_work_says_what_it_waits_for(
    state: State, task_name: str, gate: GateFinding | None, about: str
) -> None:
    visit = claim("a", state, task=task_name)
    [wait] = decide(known(host("a", claim=visit, health=HostHealth(failing_after=gate)))).waits
    assert (wait.object, wait.since, wait.next_check) == (about, BEGAN, visit.expires)


LONG_AGO = replace(known(host("a")), run=Run("r1", NOW - PATIENCE))


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        pytest.param(replace(LONG_AGO, window=WindowView()), "Succeeded", id="the window never opens again"),
        pytest.param(
            replace(LONG_AGO, window=WindowView(), run=Run("r1", NOW - PATIENCE + SECOND)), "",
            id="that may be mended yet",
        ),
        pytest.param(replace(LONG_AGO, window=WindowView(opens_at=NEXT)), "", id="it opens again"),
        pytest.param(
            replace(LONG_AGO, window=WindowView(), problem=(Reason.TEMPLATE_NOT_FOUND, "x")), "",
            id="something else has to be mended first",
        ),
        pytest.param(replace(LONG_AGO, approved=False), "", id="nobody approved it"),
        pytest.param(replace(LONG_AGO, hosts={"a": host("a", health=DEAF)}), "Succeeded", id="it is silent"),
        pytest.param(
            replace(LONG_AGO, run=Run("r1", BEGAN, superseded=True), hosts={"a": host("a", health=DEAF)}),
            "Succeeded", id="it is silent, and another slot is due",
        ),
        pytest.param(
            replace(LONG_AGO, run=Run("r1", BEGAN, superseded=True), window=WindowView(opens_at=NEXT)), "",
            id="another slot is due, and this host could be begun with",
        ),
        pytest.param(
            replace(known(host("a", health=DEAF), host("b")), run=Run("r1", NOW - PATIENCE),
                    tasks={"b": [task("Succeeded", NOW - SECOND)]}),
            "", id="the last of the others has just ended",
        ),
        pytest.param(
            replace(known(host("a", health=DEAF), host("b")), run=Run("r1", NOW - 2 * PATIENCE),
                    tasks={"b": [task("Succeeded", NOW - PATIENCE)]}),
            "Succeeded", id="the last of the others has ended long ago",
        ),
    ],
)  # fmt: skip
def test_a_run_waits_for_what_can_still_come_and_not_for_ever(facts: MaintenanceFacts, outcome: str) -> None:
    found = decide(facts)
    assert found.outcome == outcome
    waits = [one.host for one in found.waits]
    assert waits == ([] if outcome else ["a"])
    if outcome:
        assert (found.progress["a"].stage, found.progress["a"].reason) == (
            HostStage.SKIPPED, Reason.WAITED_TOO_LONG
        )  # fmt: skip
        assert found.counts()[HostStage.WAITING] == 0


def test_who_comes_next_are_those_that_only_wait_for_their_turn() -> None:
    hosts = [host("a"), host("b"), host("c", health=DEAF), host("d"), host("e")]
    found = decide(known(*hosts, spec={"budget": {"maxUnavailable": 2}}))
    assert starts(found) == ["a"]
    assert (found.coming(9), found.coming(1)) == (["b", "d", "e"], ["b"])
    assert found.counts() == {HostStage.WAITING: 5}


@pytest.mark.parametrize(
    ("opened", "minimum", "reason"),
    [
        pytest.param(WindowView(opens_at=NEXT), 0, Reason.WINDOW_CLOSED, id="shut"),
        pytest.param(
            WindowView(open=True, closes_at=NOW, opens_at=NEXT), 0, Reason.WINDOW_CLOSED, id="closes now"
        ),
        pytest.param(
            WindowView(open=True, closes_at=NOW + SECOND, opens_at=NEXT), 2, Reason.TIME_TOO_SHORT,
            id="about to close",
        ),
    ],
)  # fmt: skip
def test_hosts_wait_for_the_next_opening(opened: WindowView, minimum: int, reason: Reason) -> None:
    found = decide(known(host("a"), window=replace(opened, minimum=minimum * SECOND)))
    assert [(one.reason, one.next_check) for one in found.waits] == [(reason, NEXT)]


def test_a_host_that_nobody_can_tell_about_is_no_host_of_this_run_and_takes_no_place_twice() -> None:
    strange = host("x", claim=Unreadable("?"))
    found = decide(known(host("a"), strange, groups=[HostGroup("", ("a",))]))
    assert (starts(found), "x" in found.progress) == (["a"], False)
    left = host("x", claim=claim("x"))
    found = decide(known(host("a", claim=claim("a")), left, groups=[HostGroup("", ("a",))]))
    assert [(one.host, one.reason) for one in found.waits] == [("a", Reason.WORKING), ("x", Reason.WORKING)]
