"""Which hosts may put back what drifted, and why the others wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.enforcement import EnforcedSpan, Enforcement
from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.disruption import Budget
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.controllers.disruption import holding
from nodemanager.controllers.node_maintenances import observing
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.budget import BudgetPlace, BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth, NodeFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.repairs import deciding, looking, turns
from nodemanager.fleet.repairs.deciding import Budgets, DriftedHost, RepairedSet
from nodemanager.fleet.repairs.looking import Around, MaintenanceBudget
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector
from support import examples
from support.repair_world import World

NOW = datetime(2026, 11, 17, 3, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
ROOM = "configset/motd"


def during(*minutes: tuple[float, float]) -> Enforcement:
    return Enforcement(
        openings=[
            EnforcedSpan(start=times.rfc3339(NOW + one * MINUTE), end=times.rfc3339(NOW + end * MINUTE))
            for one, end in minutes
        ]
    )


def claim(maintenance: str = "configset/motd", state: State = State.WORKING, **fields: Any) -> Claim:
    found = Claim(maintenance, "uid-a", "uid-a", "r1", 0, state, NOW, NOW, NOW + 10 * MINUTE)
    return msgspec.structs.replace(found, **fields)


def asking(name: str = "a", *, since: datetime = NOW, wanted: str = "motd", **facts: Any) -> DriftedHost:
    return DriftedHost(HostFacts(name, f"uid-{name}", NOW, **facts), wanted, since)


def room(most: int, *hosts: str) -> BudgetRoom:
    return BudgetRoom(Budget(max_unavailable=most), {host: BudgetPlace("") for host in hosts})


def turns_of(
    *hosts: DriftedHost,
    rooms: dict[str, BudgetRoom] | None = None,
    window: Enforcement | None = None,
    **more: Any,
) -> tuple[list[str], dict[str, Reason]]:
    rooms = rooms if rooms is not None else {ROOM: room(1, *(one.facts.name for one in hosts))}
    sets = {"motd": RepairedSet.at(ROOM, window, NOW)}
    found = deciding.decide(hosts, sets, Budgets(rooms, **more), NOW)
    return [one.host.name for one in found.starts], {wait.host: wait.reason for _, wait in found.waits}


def test_nobody_has_a_turn_while_nothing_may_begin() -> None:
    sets, rooms = {"motd": RepairedSet.at(ROOM, None, NOW)}, {ROOM: room(1, "a")}
    stopped = Reason.AUDIT_BROKEN, "auditcheckpoint/log"
    found = deciding.decide([asking("a")], sets, Budgets(rooms), NOW, stopped)
    assert found.starts == ()
    assert [(wait.reason, wait.object) for _, wait in found.waits] == [stopped]


HALTED = claim(state=State.HALTED, reason=Reason.NOT_REPAIRED)


@pytest.mark.parametrize(
    ("host", "window", "reason"),
    [
        pytest.param(asking(), None, None, id="no window"),
        pytest.param(asking(), during((-1, 1)), None, id="open"),
        pytest.param(asking(), during((1, 9)), Reason.WINDOW_CLOSED, id="shut"),
        pytest.param(asking(), Enforcement(), Reason.WINDOW_CLOSED, id="never open"),
        pytest.param(asking(), during((-9, 0.4)), Reason.TIME_TOO_SHORT, id="about to close"),
        pytest.param(asking(wanted="gone"), None, Reason.CONFIG_SET_UNKNOWN, id="no such set"),
        pytest.param(asking(health=HostHealth(alive=False)), None, Reason.HOST_SILENT, id="silent"),
        pytest.param(asking(health=HostHealth(alive=None)), None, Reason.HOST_WITHOUT_AGENT, id="new"),
        pytest.param(asking(health=HostHealth(held=True)), None, Reason.HOST_HELD, id="held"),
        pytest.param(asking(claim=claim()), None, Reason.HOST_BUSY, id="has its turn"),
        pytest.param(asking(claim=claim("tuesday")), None, Reason.HOST_BUSY, id="in maintenance"),
        pytest.param(asking(node=NodeFacts(cordoned=True)), None, Reason.NODE_CORDONED, id="cordoned"),
        pytest.param(asking(claim=HALTED), None, Reason.NOT_REPAIRED, id="its last turn was in vain"),
        pytest.param(
            asking(claim=msgspec.structs.replace(HALTED, since=NOW - deciding.RETRY)), None, None, id="again"
        ),
        pytest.param(
            asking(claim=msgspec.structs.replace(HALTED, maintenance="configset/other")), None, None,
            id="that was about another set",
        ),
    ],
)  # fmt: skip
def test_why_a_host_waits(host: DriftedHost, window: Enforcement | None, reason: Reason | None) -> None:
    assert turns_of(host, window=window) == ((["a"], {}) if reason is None else ([], {"a": reason}))


def test_who_waits_longest_comes_first_and_budgets_hold() -> None:
    hosts = [asking("a"), asking("b", since=NOW - MINUTE), asking("c")]
    spent = Reason.BUDGET_SPENT
    assert turns_of(*hosts) == (["b"], {"a": spent, "c": spent})
    assert turns_of(*hosts, rooms={ROOM: room(2, "a", "b", "c")}) == (["b", "a"], {"c": spent})
    # Who is not known to the budget of the set may not spend it.
    assert turns_of(*hosts, rooms={ROOM: room(3, "a", "b")}) == (
        ["b", "a"], {"c": Reason.CONFIG_SET_UNKNOWN}
    )  # fmt: skip
    full = room(1, "a", "x")
    full.take("x")
    rooms = {ROOM: room(3, "a", "b", "c"), "nodemaintenance/tuesday": full}
    assert turns_of(*hosts, rooms=dict(rooms)) == (["b", "a", "c"], {}), "only while it has a run"
    full = room(1, "a", "x")
    full.take("x")
    rooms = {ROOM: room(3, "a", "b", "c"), "nodemaintenance/tuesday": full}
    found = turns_of(*hosts, rooms=rooms, running={"nodemaintenance/tuesday"})
    assert found == (["b", "c"], {"a": spent})


def test_who_had_a_turn_in_vain_keeps_nobody_from_his() -> None:
    vain = msgspec.structs.replace(HALTED, since=NOW - deciding.RETRY)
    liar = asking("a", since=NOW - timedelta(days=365), claim=vain)
    assert turns_of(liar, asking("b"))[0] == ["b"]


@pytest.mark.parametrize("state", [State.DONE, State.HALTED])
@pytest.mark.parametrize("last", ["motd", "other"])
def test_who_had_a_turn_has_not_waited_longer_than_since_then(state: State, last: str) -> None:
    """Else one that says what it likes would have every turn, by asking for two sets alternately."""
    had = claim(f"configset/{last}", state, since=NOW - deciding.RETRY)
    liar = asking("a", since=NOW - timedelta(days=365), claim=had)
    assert turns_of(liar, asking("b", since=NOW - 20 * MINUTE))[0] == ["b"]


RECORD = claim("tuesday", State.HALTED, uid="uid-tuesday", reason=Reason.DRAIN_TIMED_OUT, since=NOW - HOUR)


@pytest.mark.parametrize(
    ("visit", "run", "waits"),
    [
        pytest.param(RECORD, "r1", True, id="the only record of how the visit ended"),
        pytest.param(RECORD, "r2", False, id="of an earlier run"),
        pytest.param(RECORD, "", False, id="of a run that has ended"),
        pytest.param(msgspec.structs.replace(RECORD, state=State.DONE), "r1", False, id="its task tells"),
        pytest.param(claim("managednode/a", State.HALTED), "", True, id="the host has yet to hear of it"),
        pytest.param(
            claim("managednode/a", State.HALTED, since=NOW - deciding.RETRY), "", False, id="it has heard"
        ),
    ],
)
def test_a_turn_does_not_replace_the_record_of_a_visit_that_others_need(
    visit: Claim, run: str, waits: bool
) -> None:
    meta = ObjectMeta(name="a", uid="uid-a", annotations={VISIT: claims.encode(visit)})
    asks = LeftDrifts(asks=[LeftDrift(configset="motd", since=times.rfc3339(NOW))])
    alive = Condition(type="Alive", status="True")
    node = ManagedNode(metadata=meta, status=ManagedNodeStatus(conditions=[alive], left_drifts=asks))
    motd = ConfigSet(metadata=ObjectMeta(name="motd"), spec=ConfigSetSpec(node_selector=LabelSelector()))
    tuesday = MaintenanceBudget("tuesday", "uid-tuesday", None, [], run)
    facts = {"a": observing.host_facts(node, None, None, {})}
    found = looking.decide(Around([node], facts, {"motd": motd}, [tuesday]), NOW)
    assert [one.host.name for one in found.starts] == ([] if waits else ["a"])
    assert [(wait.reason, wait.object) for _, wait in found.waits] == (
        [(Reason.HOST_BUSY, visit.object)] if waits else []
    )


def test_a_host_has_one_turn_at_a_time_and_none_beyond_its_window() -> None:
    sets = {"motd": RepairedSet.at(ROOM, during((-1, 3)), NOW), "other": RepairedSet(ROOM)}
    budgets = Budgets({ROOM: room(5, "a")})
    found = deciding.decide([asking(), asking(wanted="other")], sets, budgets, NOW)
    (start,) = found.starts
    assert (start.config_set, start.until) == ("motd", NOW + 3 * MINUTE)
    ((name, wait),) = found.waits
    assert (name, wait.reason) == ("other", Reason.HOST_BUSY)


@pytest.mark.parametrize(
    ("left", "minutes", "end"),
    [
        (None, 0, None),
        (LeftDrifts(used="r0"), 69, None),
        (LeftDrifts(used="r1"), 0, (State.DONE, Reason.SUCCEEDED)),
        (LeftDrifts(used="r1", asks=[LeftDrift(configset="other")]), 0, (State.DONE, Reason.SUCCEEDED)),
        (LeftDrifts(used="r1", asks=[LeftDrift(configset="motd")]), 0, (State.HALTED, Reason.NOT_REPAIRED)),
        (LeftDrifts(used="r0"), 70, (State.HALTED, Reason.TURN_NOT_USED)),
    ],
)
def test_how_a_turn_ends(left: LeftDrifts | None, minutes: int, end: object) -> None:
    found = turns.ended(claim(), left, NOW + minutes * MINUTE)
    assert (None if found is None else (found.state, found.reason)) == end


@pytest.mark.parametrize(
    ("visit", "used", "mine"),
    [
        (claim(), "", True),
        (claim(), "r1", False),
        (claim(state=State.DONE), "", False),
        (claim(host_uid="another"), "", False),
        (claim("tuesday"), "", False),
        (claim("managednode/a"), "", False),
    ],
)
def test_which_turn_a_host_takes_for_its_own(visit: Claim, used: str, mine: bool) -> None:
    meta = ObjectMeta(name="a", uid="uid-a", annotations={VISIT: claims.encode(visit)})
    node = ManagedNode(metadata=meta, status=ManagedNodeStatus(left_drifts=LeftDrifts(used=used)))
    assert (turns.turn_of(node) is not None) == mine


@pytest.mark.parametrize("state", [State.WORKING, State.HALTED])
def test_a_turn_keeps_no_node_cordoned(state: State) -> None:
    """Its uid is that of the host, as that of an upgrade, which may have left a cordon behind."""
    for whom, kept in (("configset/motd", ""), ("managednode/a", "uid-a")):
        meta = ObjectMeta(name="a", annotations={VISIT: claims.encode(claim(whom, state))})
        assert holding.visitor(ManagedNode(metadata=meta)) == kept


def test_a_time_that_is_to_come_is_now() -> None:
    later = times.rfc3339(NOW + MINUTE)
    asks = [LeftDrift(configset=name, since=since) for name, since in (("a", later), ("b", "?"), ("", later))]
    node = ManagedNode(status=ManagedNodeStatus(left_drifts=LeftDrifts(asks=asks)))
    assert turns.asks_of(node, NOW) == [("a", NOW), ("b", NOW)]


@pytest.mark.parametrize("chunk", range(4))
def test_budgets_and_windows_hold_for_random_fleets_and_all_is_put_back_in_the_end(chunk: int) -> None:
    repairs = 0
    for seed in range(examples.some(25)):
        world = World(seed * 4 + chunk)
        for _ in range(60):
            world.step()
        world.windows = dict.fromkeys(world.windows)  # open from now on, and nobody is in the way
        for host in world.hosts:
            if host.visit is not None and host.visit.maintenance == "tuesday":
                host.visit = msgspec.structs.replace(host.visit, state=State.DONE)
        for _ in range(200):
            world.step(calm=True)
        assert {host.name: host.drifted for host in world.hosts if host.drifted} == {}, world.now
        repairs += world.repairs
    assert repairs > 25, "or nothing was shown"
