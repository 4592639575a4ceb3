"""Upgrades of a group of hosts, with agents killed and power cut at every point."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.agent.upgrades.own_task import Stage, UpgradeResult
from support import virtual_time
from support.upgrade_world import GROUP, LEASE, Kill, World

HOUR = 3600.0


@virtual_time.test
async def test_an_upgrade_drains_upgrades_reboots_and_gives_back() -> None:
    world = World()
    await world.run(HOUR)
    world.assert_nothing_is_stranded()
    [host] = world.machines
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]
    assert host.boot == 2
    assert host.disk.result is UpgradeResult.SUCCESS
    assert "/api/v1/namespaces/prod/pods/web-h0" not in world.cluster.objects
    assert host.status is not None
    assert host.status.last_upgrade is not None
    text = host.registry.render()
    assert 'nodemanager_upgrade_total{node="h0",result="success"} 1' in text
    assert 'nodemanager_upgrade_duration_seconds_bucket{node="h0",le="300"} 1' in text
    assert 'nodemanager_last_upgrade_timestamp_seconds{node="h0"} 178' in text


@virtual_time.test
async def test_no_reboot_where_none_is_needed() -> None:
    world = World(needs_reboot=False)
    await world.run(HOUR)
    world.assert_nothing_is_stranded()
    assert [what for what, _ in world.machines[0].deeds] == ["upgrade"]


@virtual_time.test
async def test_a_failure_is_undone_and_waits_for_the_next_slot() -> None:
    world = World(upgrade_fails=True)
    await world.run(2 * HOUR)
    world.assert_nothing_is_stranded()
    [host] = world.machines
    assert [what for what, _ in host.deeds] == ["upgrade"]
    assert host.status is not None
    assert "disk full" in host.status.problem
    host.upgrade_fails = False
    world.tomorrow()
    await world.run(HOUR)
    world.assert_nothing_is_stranded()
    assert [what for what, _ in host.deeds] == ["upgrade", "upgrade", "reboot"]
    assert host.status.problem == ""


@virtual_time.test
async def test_a_budget_that_never_lets_go_fails_the_upgrade_and_uncordons() -> None:
    world = World()
    world.cluster.evictable = lambda _: False
    await world.run(HOUR)
    world.assert_nothing_is_stranded()
    [host] = world.machines
    assert host.deeds == []
    assert host.disk.result is UpgradeResult.ERROR
    assert "cannot drain Node h0 within 300 s: prod/web-h0" in host.disk.message


@virtual_time.test
async def test_a_host_that_is_never_ready_again_gives_the_turn_to_others_and_says_so() -> None:
    world = World(proof_takes=10**9)
    await world.run(2 * HOUR)
    world.assert_nothing_is_stranded()
    assert "step prove failed: not within 900 s" in world.machines[0].disk.message
    assert world.machines[0].status is not None
    assert world.machines[0].status.last_upgrade is None


@virtual_time.test
async def test_a_foreign_cordon_stays() -> None:
    world = World()
    node = world.cluster.node("h0")
    world.cluster.put("/api/v1/nodes/h0", {**node, "spec": {"unschedulable": True}})
    await world.run(HOUR)
    [host] = world.machines
    assert host.disk.result is UpgradeResult.SUCCESS
    assert world.cluster.cordoned("h0")


@virtual_time.test
async def test_a_group_upgrades_one_after_the_other_in_one_slot_if_the_window_allows() -> None:
    world = World(3)
    await world.run(3 * HOUR)
    world.assert_nothing_is_stranded()
    for host in world.machines:
        assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]


@virtual_time.test
async def test_a_group_that_is_busy_during_the_whole_window_costs_the_slot_and_nothing_else() -> None:
    world = World()
    world.settings = dataclasses.replace(world.settings, forgiveness=timedelta(minutes=10))
    stamp = world.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 36000, "renewTime": stamp}
    world.cluster.put(LEASE, {"metadata": {"name": GROUP, "namespace": "test"}, "spec": spec})
    await world.run(HOUR)
    [host] = world.machines
    assert host.deeds == []
    assert (host.disk.stage, host.disk.result) == (Stage.OVER, UpgradeResult.SKIPPED)
    assert host.disk.message == "group web: it is the turn of other"
    assert world.cluster.holder() == "other"
    assert 'nodemanager_upgrade_total{node="h0",result="skipped"} 1' in host.registry.render()


@virtual_time.test
async def test_a_hold_that_comes_while_a_host_waits_for_its_group_counts() -> None:
    world = World()
    [host] = world.machines
    stamp = world.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    taken = {"holderIdentity": "other", "leaseDurationSeconds": 36000, "renewTime": stamp}
    meta = {"name": "web", "namespace": "test"}
    world.cluster.put(LEASE, {"metadata": meta, "spec": taken})

    async def somebody() -> None:
        await asyncio.sleep(600)
        assert host.disk.stage is Stage.LOCKING
        host.held = True
        await asyncio.sleep(600)
        world.cluster.put(LEASE, {"metadata": meta, "spec": {**taken, "holderIdentity": None}})

    asked = asyncio.create_task(somebody())
    await world.run(3600)
    await asked
    assert host.deeds == []


@virtual_time.test
async def test_the_lock_is_renewed_while_a_host_is_proven_however_long_that_takes() -> None:
    world = World(2, proof_takes=600)
    world.settings = dataclasses.replace(world.settings, lease=240.0)
    await world.run(3 * HOUR)
    world.assert_nothing_is_stranded()
    assert [one.disk.result for one in world.machines] == [UpgradeResult.SUCCESS] * 2


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power"])
@pytest.mark.parametrize("needs_reboot", [False, True], ids=["stays up", "reboots"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_every_effect(*, power: bool, needs_reboot: bool, after: bool) -> None:
    """Also twice: the process that cleans up is killed, too."""

    async def die(at: int, again: int) -> bool:
        kills = [Kill(at, after=after, power=power), *([Kill(again, after=after)] if again else [])]
        world = World(needs_reboot=needs_reboot)
        [host] = world.machines
        host.kills = kills
        await world.run(HOUR)
        world.assert_nothing_is_stranded()
        if not power and "Upgrading" not in host.killed_in:
            assert host.disk.result is UpgradeResult.SUCCESS, "the slot was lost without need"
        world.tomorrow()
        await world.run(HOUR)  # a day later all is as if nothing had been
        world.assert_nothing_is_stranded()
        assert host.disk.result is UpgradeResult.SUCCESS
        return host.killed > 0

    for at in range(1, 200):
        if not virtual_time.run(die(at, 0)):
            assert at > 15
            break
        for again in (1 + at % 7, 4):
            virtual_time.run(die(at, again))
    else:
        pytest.fail("an upgrade has no end")


KILLS = st.lists(
    st.builds(
        Kill,
        at=st.integers(1, 40),
        after=st.booleans(),
        away=st.floats(0, 600),
        power=st.booleans(),
    ),
    max_size=4,
)


@hypothesis.given(st.lists(KILLS, min_size=2, max_size=3), st.booleans())
@hypothesis.settings(deadline=None, max_examples=40)
def test_hosts_of_a_group_never_go_at_once(kills: list[list[Kill]], needs_reboot: bool) -> None:
    async def scenario() -> None:
        world = World(len(kills), needs_reboot=needs_reboot)
        for host, ends in zip(world.machines, kills, strict=True):
            host.kills = list(ends)
        await world.run(5 * HOUR)
        world.assert_nothing_is_stranded()
        world.tomorrow()
        await world.run(5 * HOUR)
        world.assert_nothing_is_stranded()
        for host in world.machines:
            assert host.disk.stage is Stage.OVER

    virtual_time.run(scenario())
