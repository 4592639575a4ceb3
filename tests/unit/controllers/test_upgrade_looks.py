"""Upgrades of many hosts: what one look costs, that no host stops another, and who is marked when."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeSpec, ManagedNodeStatus
from nodemanager.api.common.node_upgrades import UpcomingUpgrades, Upgrade
from nodemanager.api.maintenance.nodetask import UPGRADES, VISIT
from nodemanager.api.rights import host_references
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.node_maintenances import waking
from nodemanager.controllers.node_maintenances.upgrades import marks as upgrade_marks
from nodemanager.controllers.node_maintenances.upgrades.marks import UpgradeMarks
from nodemanager.controllers.node_maintenances.upgrades.visits import AT_ONCE, UpgradeVisits
from nodemanager.controllers.registration import Caches
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache, Change
from support import virtual_time

NOW = datetime(2026, 11, 16, 3, tzinfo=UTC)
HOUR = timedelta(hours=1)


def host(name: str, **notes: str) -> ManagedNode:
    keys = {"mark": UPGRADES, "visit": VISIT}
    meta = ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}",
                      annotations={keys[key]: value for key, value in notes.items()})  # fmt: skip
    return ManagedNode(meta, ManagedNodeSpec(upgrade=Upgrade(schedule="0 3 * * *", group="web")))


class Marking:
    """Orders that only mark."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.tried: list[str] = []
        self.marks: dict[str, str] = {}

    async def mark(self, one: ManagedNode, mark: str) -> None:
        self.tried.append(one.metadata.name)
        if one.metadata.name.startswith(self.refused or "-"):
            raise errors.Forbidden("no")
        self.marks[one.metadata.name] = mark


def marks_of(orders: Marking, *nodes: str) -> UpgradeMarks:
    cache = Cache(cast("Client", None), NODES)
    for name in nodes:
        cache._put(ObjectKey("", name), Node(ObjectMeta(name=name)))
    return UpgradeMarks(cast("Any", orders), cache)


async def test_a_look_tries_one_mark_if_they_are_refused_everywhere() -> None:
    orders = Marking(refused="h")
    marks, hosts = marks_of(orders), [host(f"h{number}") for number in range(1000)]
    assert not await marks.renew(hosts, NOW)
    assert orders.tried == ["h0"]


async def test_a_host_that_cannot_be_marked_keeps_nobody_from_being_marked() -> None:
    orders = Marking(refused="a")
    marks, hosts = marks_of(orders), [host("a"), host("b")]
    await marks.renew(hosts, NOW)
    await marks.renew(hosts, NOW)
    assert orders.marks.keys() == {"b"}
    await marks.renew(hosts[:1], NOW + HOUR)
    assert orders.tried == ["a", "b", "a"]


async def test_a_look_marks_some_hosts_and_says_that_others_are_left() -> None:
    orders = Marking()
    marks, hosts = marks_of(orders), [host(f"h{number}") for number in range(upgrade_marks.MARKS + 1)]
    assert await marks.renew(hosts, NOW)
    assert not await marks.renew(hosts[-1:], NOW)
    assert len(orders.marks) == len(orders.tried) == len(hosts)


LATER, DRAINED = "2026-11-18T03:00:00Z", "2026-11-18T03:00:00Z drained"


@pytest.mark.parametrize(
    ("mark", "may_drain", "wanted"),
    [
        pytest.param("", True, DRAINED, id="new"),
        pytest.param(DRAINED, True, None, id="as it should be"),
        pytest.param(LATER, True, DRAINED, id="it became a Node"),
        pytest.param("2026-11-16T09:00:00Z drained", True, DRAINED, id="it runs out"),
        pytest.param(LATER, False, "", id="it had no Node: nothing is lost"),
        pytest.param(DRAINED, False, "2026-11-16T03:00:00Z drained", id="nobody drains it any more"),
        pytest.param("2026-11-16T02:00:00Z drained", False, None, id="it knows that"),
        pytest.param("2026-11-16T03:00:00Z drained", False, None, id="it has just been told"),
        pytest.param("x drained", False, "2026-11-16T03:00:00Z drained", id="nobody knows until when"),
        pytest.param("", False, None, id="never marked"),
    ],
)
async def test_what_a_node_is_marked_with(
    mark: str, may_drain: bool, wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Marking()
    monkeypatch.setattr(UpgradeMarks, "may_drain", lambda _: may_drain)
    await marks_of(orders, "a").renew([host("a", **({"mark": mark} if mark else {}))], NOW)
    assert orders.marks == ({} if wanted is None else {"a": wanted})


async def test_a_host_that_is_no_node_is_not_marked_again_and_again() -> None:
    orders = Marking()
    await marks_of(orders, "b").renew([host("a", mark=LATER), host("c")], NOW)
    assert orders.marks == {"c": LATER}


@pytest.mark.parametrize("upgrade", [None, Upgrade(group="web")])
async def test_a_host_without_a_schedule_is_marked_no_more(upgrade: Upgrade | None) -> None:
    orders = Marking()
    marked, never = (
        msgspec.structs.replace(host(name, **notes), spec=ManagedNodeSpec(upgrade=upgrade))
        for name, notes in (("a", {"mark": DRAINED}), ("b", {}))
    )
    await marks_of(orders).renew([marked, never], NOW)
    assert orders.marks == {"a": ""}


@pytest.mark.parametrize("kind", [errors.Conflict, errors.NotFound, errors.InternalError])
async def test_a_mark_that_fails_is_tried_again_at_the_next_look(
    kind: type[errors.KubeError], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Marking):
        async def mark(self, one: ManagedNode, mark: str) -> None:
            self.tried.append(one.metadata.name)
            raise kind("no")

    orders = Failing()
    marks, hosts = marks_of(orders), [host("a"), host("b")]
    for _ in range(2):
        assert not await marks.renew(hosts, NOW)
    assert orders.tried == ["a", "b", "a", "b"]
    assert ("cannot mark host a" in caplog.text) is (kind is errors.InternalError), "somebody was faster"


def test_a_mark_wakes_nobody() -> None:
    none = Caches("", {})
    for before, after in (
        (host("a"), host("a", mark=LATER)),
        (host("a", mark=LATER), host("a", mark=DRAINED)),
    ):
        assert list(waking.on_host(Change(ObjectKey("ns", "a"), before, after), none)) == []


def test_a_host_that_asks_may_take_the_lease_of_its_group_all_the_same() -> None:
    """Nobody could give it back to a host whose operator is gone, or whose agent is an older one again."""
    said = ManagedNodeStatus(upgrade=UpcomingUpgrades(asks=True))
    asking = msgspec.structs.replace(host("a", mark=LATER), status=said)
    assert host_references.needs(asking, [], [], []).leases == ("web",)


class Looks(UpgradeVisits):
    """Visits that take a while each; those of some hosts fail in a way that nobody foresaw."""

    begun: list[str] = []
    ended: list[str] = []

    async def _go_on(self, host: ManagedNode, now: datetime) -> None:
        self.begun.append(host.metadata.name)
        await asyncio.sleep(10)
        if host.metadata.name == "h1":
            raise OverflowError("date value out of range")
        self.ended.append(host.metadata.name)


@virtual_time.test
async def test_visits_go_on_side_by_side_and_a_look_that_was_cut_off_goes_on_with_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = Claim(
        "managednode/h", "u", "u", upgrade_tasks.run_of(NOW), 0, State.DRAINING, NOW, NOW, NOW + HOUR
    )
    hosts = [host(f"h{number}", visit=claims.encode(made)) for number in range(3 * AT_ONCE)]
    none: Any = None
    looks = Looks(none, none, none, none, none, none, none, none)
    looks.begun.clear()
    looks.ended.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(15):
            await looks._go_on_with(hosts, NOW)
    assert len(looks.begun) == 2 * AT_ONCE
    assert len(looks.ended) == AT_ONCE - 1
    assert "cannot see to the upgrade of host h1" in caplog.text
    async with asyncio.timeout(35):
        await looks._go_on_with(hosts, NOW)
    assert looks.begun[2 * AT_ONCE : 3 * AT_ONCE] == [one.metadata.name for one in hosts[2 * AT_ONCE :]]
    assert looks._had_turn == set()
