"""Hosts that fall silent are marked in time, hosts that live are not, and nothing is written twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from nodemanager.agent.report.heartbeat import DURATION, INTERVAL
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.controllers.liveness import watcher
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.kube.core import Lease
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache, Change
from support import virtual_time
from support.pretend_fleet import NAMESPACE, PretendFleet

LATEST = 1.5 * DURATION
"""By then a host that fell silent has to be marked."""


@contextlib.asynccontextmanager
async def watched(fleet: PretendFleet, *living: str) -> AsyncIterator[None]:
    """Run the operator, and have hosts send signs of life, until the end of the block."""
    work = [fleet.controller().run(), fleet.recorder.run(), *(fleet.live(host) for host in living)]
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def reasons(fleet: PretendFleet) -> list[tuple[str, str]]:
    return [(one["involvedObject"]["name"], one["reason"]) for one in fleet.events]


def marks(fleet: PretendFleet, hosts: Iterable[str]) -> set[str]:
    return {fleet.condition(host) for host in hosts}


@virtual_time.test
async def test_a_host_that_lives_is_marked_once_and_never_written_again() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet, "a"):
        await asyncio.sleep(3600)
    assert fleet.condition("a") == "True"
    assert fleet.condition("a", "Ready") == "True"
    assert len(fleet.writes) == 1
    assert fleet.reads == 0
    assert not fleet.events


@virtual_time.test
async def test_a_silent_host_is_marked_in_time_and_its_return_at_once() -> None:
    fleet = PretendFleet()
    fleet.join("a", "b")
    async with watched(fleet, "b"):
        life = asyncio.create_task(fleet.live("a", until=300))
        await life
        since = asyncio.get_running_loop().time()
        await asyncio.sleep(DURATION - 25)
        assert fleet.condition("a") == "True"
        await asyncio.sleep(LATEST - DURATION + 25)
        assert fleet.condition("a") == "False"
        assert fleet.condition("a", "Ready") == "Unknown"
        ready = conditions.get(fleet.node("a").status.conditions, "Ready")
        assert ready is not None
        assert ready.reason == "AgentSilent"
        assert ready.message.endswith("before that it was Ready=True (Applied)")
        (at, host, _) = fleet.writes[-1]
        assert (host, at - since <= LATEST) == ("a", True)
        assert fleet.node("a").status.last_seen is not None
        fleet.renew("a")
        await asyncio.sleep(0.1)
        assert fleet.condition("a") == "True"
        assert fleet.condition("a", "Ready") == "Unknown"  # until its agent says how it is
        assert fleet.node("a").status.last_seen is None
    assert [host for _, host, _ in fleet.writes].count("a") == 3
    assert reasons(fleet) == [("a", "HostSilent"), ("a", "HostBack")]
    said = fleet.events[-1]["message"]
    assert said.startswith("a sign of life again, the first since 20"), "when it was last heard"


@virtual_time.test
async def test_a_host_whose_clock_jumps_is_alive() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        for stamp in ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "x", "2026"):
            fleet.renew("a", stamp=stamp)
            await asyncio.sleep(50)
            assert fleet.condition("a") != "False"
        await asyncio.sleep(LATEST)
        assert fleet.condition("a") == "False"


@virtual_time.test
@pytest.mark.parametrize("frozen", [0.5, 0.9, 0.99])
async def test_a_host_that_was_frozen_for_less_than_its_lease_is_alive(frozen: float) -> None:
    """It was about to renew when that began: nothing was seen for an interval more."""
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        for number in range(5):
            fleet.renew("a", stamp=f"before {number}")
            await asyncio.sleep(1.1 * INTERVAL)
        await asyncio.sleep(frozen * DURATION)
        fleet.renew("a", stamp="after")
        await asyncio.sleep(INTERVAL)
        assert fleet.condition("a") == "True"
    assert not fleet.events


@virtual_time.test
async def test_hosts_that_never_had_a_lease_are_unknown_and_stay_as_they_report() -> None:
    fleet = PretendFleet()
    fleet.join("go")
    async with watched(fleet):
        await asyncio.sleep(DURATION - 1)
        assert fleet.condition("go") == ""
        await asyncio.sleep(LATEST)
        assert fleet.condition("go") == "Unknown"
        assert fleet.condition("go", "Ready") == "True"
        await asyncio.sleep(3600)
        fleet.renew("go")
        fleet.renew("go", stamp="later")
        await asyncio.sleep(1)
        assert fleet.condition("go") == "True"
    assert len(fleet.writes) == 2
    assert not fleet.events


@virtual_time.test
async def test_a_lease_that_is_deleted_says_nothing_any_more() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        life = asyncio.create_task(fleet.live("a", until=200))
        await life
        fleet.delete_lease("a")
        await asyncio.sleep(LATEST)
        assert fleet.condition("a") == "Unknown"


@virtual_time.test
async def test_a_host_that_is_made_anew_has_its_time_like_a_new_one() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        await asyncio.sleep(LATEST)
        assert fleet.condition("a") == "Unknown"
        fleet.nodes._remove(ObjectKey(NAMESPACE, "a"))
        await asyncio.sleep(LATEST)
        fleet.join("a")
        await asyncio.sleep(DURATION - 1)
        assert fleet.condition("a") == ""
        await asyncio.sleep(LATEST - DURATION + 1)
        assert fleet.condition("a") == "Unknown"


def host(alive: str = "", **fields: str) -> ManagedNode:
    said = [Condition(type="Alive", status=alive)] if alive else []
    meta = ObjectMeta(name="a", namespace="ns", **fields)  # type: ignore[arg-type]
    return ManagedNode(meta, status=ManagedNodeStatus(conditions=said))


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, host(), True),
        (host(), None, True),
        (host(), host(resource_version="2"), False),
        (host("True"), host("True"), False),
        (host("True"), host("False"), True),
        (host("True"), host(), True),
    ],
)
def test_a_host_is_looked_at_when_its_mark_is_another(
    old: ManagedNode | None, new: ManagedNode | None, wakes: bool
) -> None:
    key = ObjectKey("ns", "a")
    found = list(watcher.on_node(Change(key, old, new), Caches("liveness", {})))
    assert found == ([Wake(key)] if wakes else [])


@pytest.mark.parametrize(
    ("lease", "mark", "renewed", "gone"),
    [
        ("nodemanager-a", "True", False, True),
        ("nodemanager-a", "False", True, True),
        ("nodemanager-a", "Unknown", True, True),
        ("nodemanager-a", "", True, True),
        ("nodemanager-b", "False", False, False),
        ("nodemanager-operator", "False", False, False),
        ("other", "False", False, False),
    ],
)
def test_a_lease_wakes_a_host_that_is_not_known_to_live_and_one_that_has_none_any_more(
    lease: str, mark: str, renewed: bool, gone: bool
) -> None:
    none: Any = None
    nodes: Cache[ManagedNode] = Cache(none, MANAGED_NODES)
    nodes._put(ObjectKey("ns", "a"), host(mark))
    caches = Caches("liveness", {MANAGED_NODES: nodes})
    for new, wakes in ((Lease(), renewed), (None, gone)):
        found = list(watcher.on_lease(Change(ObjectKey("ns", lease), Lease(), new), caches))
        assert found == ([Wake(ObjectKey("ns", "a"))] if wakes else [])


@virtual_time.test
async def test_a_restarted_operator_waits_before_it_judges() -> None:
    fleet = PretendFleet()
    fleet.join("dead", "alive")
    fleet.renew("dead", stamp="a year ago")
    async with watched(fleet, "alive"):
        await asyncio.sleep(DURATION - 1)
        assert fleet.condition("dead") == ""
        assert fleet.condition("alive") == "True"
        await asyncio.sleep(LATEST)
        assert fleet.condition("dead") == "False"
    told, read = len(fleet.writes), fleet.reads
    async with watched(fleet, "alive"):
        await asyncio.sleep(600)
    assert len(fleet.writes) == told
    assert fleet.reads == read, "of a host that is known to be silent nobody asks"


async def renewed_twice(fleet: PretendFleet) -> None:
    """A host is alive that renews its Lease: one look alone says only that there is one."""
    for stamp in ("first", "second"):
        fleet.renew("a", stamp=stamp)
        await asyncio.sleep(INTERVAL)


@virtual_time.test
async def test_an_outage_of_the_api_silences_nobody() -> None:
    fleet = PretendFleet()
    hosts = [f"h{number}" for number in range(20)]
    fleet.join(*hosts)
    async with watched(fleet, *hosts):
        await asyncio.sleep(120)
        for seconds in (5, 50, 70, 3600):
            await fleet.outage(seconds)
            await asyncio.sleep(200)
            assert marks(fleet, hosts) == {"True"}
    assert len(fleet.writes) == len(hosts)


@virtual_time.test
async def test_a_host_has_all_its_time_again_after_its_renewals_could_not_be_seen() -> None:
    """The API was away while it was alive: it is to be heard once more before it counts as silent."""
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        await renewed_twice(fleet)
        await fleet.outage(1.4 * DURATION - INTERVAL - 1)
        await asyncio.sleep(INTERVAL)
        fleet.renew("a", stamp="third")
        await asyncio.sleep(1)
        assert fleet.condition("a") == "True"
    assert len(fleet.writes) == 1


@virtual_time.test
async def test_a_host_has_all_its_time_again_after_nobody_could_be_asked_about_it() -> None:
    """The watch did not notice that the API was away."""
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        await renewed_twice(fleet)
        await asyncio.sleep(1.4 * DURATION - INTERVAL - 1)
        fleet.down = True
        await asyncio.sleep(10)
        fleet.down = False
        await asyncio.sleep(2 * INTERVAL)
        assert fleet.condition("a") == "True"
    assert len(fleet.writes) == 1
    assert not fleet.events


@virtual_time.test
async def test_a_lease_that_is_gone_and_of_which_nothing_was_heard_says_nothing_any_more() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        await renewed_twice(fleet)
        del fleet.leases_stored["a"]
        await asyncio.sleep(3 * LATEST)
        assert fleet.condition("a") == "Unknown"
    assert not fleet.events


@virtual_time.test
async def test_a_silent_host_whose_lease_is_deleted_is_not_back() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    async with watched(fleet):
        fleet.renew("a")
        await asyncio.sleep(LATEST)
        assert fleet.condition("a") == "False"
        fleet.delete_lease("a")
        await asyncio.sleep(LATEST)
        assert fleet.condition("a") == "Unknown"
    assert reasons(fleet) == [("a", "HostSilent")]


@virtual_time.test
async def test_of_a_host_that_is_gone_nothing_is_told() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    fleet.renew("a")
    fleet.gone = {"a"}
    async with watched(fleet):
        await asyncio.sleep(LATEST)
    assert not fleet.writes
    assert not fleet.events


@virtual_time.test
async def test_a_watch_that_is_late_silences_nobody() -> None:
    """The Lease is asked for before somebody is marked: what hangs may be our own watch."""
    fleet = PretendFleet()
    fleet.join("a")
    fleet.renew("a", stamp="first")
    async with watched(fleet):
        for number in range(6):
            await asyncio.sleep(40)
            fleet.renew("a", stamp=f"renewal {number}", seen=False)
        assert fleet.condition("a") == "True"
        assert fleet.reads > 0
    assert len(fleet.writes) == 1
    assert not fleet.events


@virtual_time.test
async def test_who_is_faster_does_not_keep_a_host_from_being_marked() -> None:
    fleet = PretendFleet()
    fleet.join("a")
    fleet.renew("a")
    fleet.conflicts = 3
    async with watched(fleet):
        await asyncio.sleep(LATEST)
    assert fleet.condition("a") == "False"
    assert len(fleet.writes) == 1


@virtual_time.test
async def test_hosts_are_counted_by_what_is_known() -> None:
    fleet = PretendFleet()
    fleet.join("a", "b", "silent", "go", "new")
    fleet.renew("silent")
    async with watched(fleet, "a", "b"):
        await asyncio.sleep(LATEST)
    text = fleet.registry.render()
    assert 'nodemanager_hosts{state="alive"} 2' in text
    assert 'nodemanager_hosts{state="silent"} 1' in text
    assert 'nodemanager_hosts{state="unknown"} 2' in text
    assert 'nodemanager_hosts{state="held"} 0' in text
    held = {"conditions": [{"type": "Held", "status": "True", "reason": "x"}]}
    fleet._store_node({"metadata": {"name": "b", "namespace": NAMESPACE}, "status": held})
    assert 'nodemanager_hosts{state="held"} 1' in fleet.registry.render()


@virtual_time.test
@pytest.mark.parametrize("seed", range(3))
async def test_a_rack_that_loses_its_power_costs_one_write_for_each_host_and_edge(seed: int) -> None:
    fleet = PretendFleet(seed)
    steady = [f"steady{number}" for number in range(150)]
    rack = [f"rack{number}" for number in range(50)]
    fleet.join(*steady, *rack)
    async with watched(fleet, *steady):
        lives = [asyncio.create_task(fleet.live(host, until=600)) for host in rack]
        await asyncio.gather(*lives)
        await asyncio.sleep(LATEST)
        assert marks(fleet, rack) == {"False"}
        assert marks(fleet, steady) == {"True"}
        lives = [asyncio.create_task(fleet.live(host)) for host in rack]
        await asyncio.sleep(60)
        assert marks(fleet, (*rack, *steady)) == {"True"}
        for one in lives:
            one.cancel()
    assert len(fleet.writes) == len(steady) + 3 * len(rack)
    assert len(fleet.events) == 2 * len(rack)
