"""What goes wrong with upgrades in the Go project, and must not here: its bugs 1 to 4, by number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.agent.upgrades.own_task import UpgradeResult
from nodemanager.agent.upgrades.schedule import FORGIVENESS
from nodemanager.agent.upgrades.upgrade import UpgradeSettings
from support import virtual_time
from support.upgrade_ledger import at
from support.upgrade_world import Kill, World

HOUR = 3600.0
NODE = "/api/v1/nodes/h0"


async def reaches(goal: Callable[[], bool]) -> None:
    """Look every virtual second whether something has happened."""
    while not goal():  # noqa: ASYNC110
        await asyncio.sleep(1)


@virtual_time.test
async def test_bug_01_schedule_is_honoured() -> None:
    """A host that never upgraded waits for its slot, and slots do not creep with a delay of 23 hours."""
    world = World(delay="23h", needs_reboot=False)
    world.settings = UpgradeSettings()
    world.offset = timedelta(hours=9)
    await world.run(14 * HOUR)
    [host] = world.machines
    assert host.deeds == [], "upgraded at noon"
    await world.run(3 * 24 * HOUR)
    days = [slot for what, slot in host.deeds if what == "upgrade"]
    assert days == [datetime(2026, 6, day, 3, tzinfo=UTC) for day in (2, 3, 4)]


@virtual_time.test
async def test_bug_01_a_host_that_was_off_during_the_slot_waits_for_the_next() -> None:
    world = World(needs_reboot=False)
    world.settings = UpgradeSettings()
    world.offset = FORGIVENESS + timedelta(seconds=31)
    await world.run(20 * HOUR)
    assert world.machines[0].deeds == []


@virtual_time.test
async def test_bug_01_an_agent_that_was_killed_before_it_had_the_lock_does_not_start_late() -> None:
    world = World(needs_reboot=False)
    world.settings = UpgradeSettings()
    [host] = world.machines
    host.kills = [Kill(at=2, away=300)]
    await world.run(20 * HOUR)
    world.assert_nothing_is_stranded()
    assert host.killed == 1
    assert host.deeds == []
    assert host.disk.result is UpgradeResult.SKIPPED


@pytest.mark.parametrize("kills", [[], [Kill(at=30, away=20)]], ids=["alive", "agent restarts meanwhile"])
@virtual_time.test
async def test_bug_02_nothing_is_given_back_before_the_host_is_down(kills: list[Kill]) -> None:
    world = World(shutdown_takes=240)
    [host] = world.machines
    host.kills = list(kills)
    living = asyncio.create_task(world.run(2 * HOUR))
    await reaches(lambda: ("reboot", host.disk.slot) in host.deeds)
    while not host.going_down.is_set():
        assert host.part is not None
        host.part.changed()  # as the status that was just written does
        await asyncio.sleep(1)
        assert world.cluster.holder() == "h0"
        assert world.cluster.cordoned("h0")
        assert at(host.disk) == "Rebooting"
    await living
    world.assert_nothing_is_stranded()
    assert host.disk.result is UpgradeResult.SUCCESS
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]
    assert host.killed == len(kills)


@virtual_time.test
async def test_bug_02_a_reboot_that_does_not_happen_is_reported_and_undone() -> None:
    world = World(shutdown_takes=10**9)
    await world.run(2 * HOUR)
    world.assert_nothing_is_stranded()
    [host] = world.machines
    assert "did not go down within 600 s" in host.disk.message
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]
    assert host.status is not None
    assert host.status.last_upgrade is None


@virtual_time.test
async def test_bug_03_the_group_waits_until_a_host_is_proven() -> None:
    world = World(2, proof_takes=300)
    living = asyncio.create_task(world.run(2 * HOUR))
    await reaches(lambda: any(at(one.disk) == "Proving" for one in world.machines))
    first = next(one for one in world.machines if at(one.disk) == "Proving")
    other = next(one for one in world.machines if one is not first)
    while at(first.disk) == "Proving":
        assert world.cluster.holder() == first.name
        assert other.deeds == []
        await asyncio.sleep(1)
    await living
    world.assert_nothing_is_stranded()
    assert [what for what, _ in other.deeds] == ["upgrade", "reboot"]


@virtual_time.test
async def test_bug_03_a_failure_does_not_loop() -> None:
    """One cordon, one uncordon, one try: and nothing more until the next slot."""
    world = World(upgrade_fails=True)
    await world.run(12 * HOUR)
    world.assert_nothing_is_stranded()
    [host] = world.machines
    assert [what for what, _ in host.deeds] == ["upgrade"]
    assert world.cluster.asked.count(("PATCH", NODE)) == 2


@virtual_time.test
async def test_bug_04_evictions_are_tried_again_and_terminating_pods_count() -> None:
    world = World(needs_reboot=False)
    began = asyncio.get_running_loop().time()
    world.cluster.evictable = lambda _: asyncio.get_running_loop().time() > began + 150
    living = asyncio.create_task(world.run(HOUR))
    [host] = world.machines
    while not host.deeds:
        assert at(host.disk) != "Upgrading" or not any("/pods/" in one for one in world.cluster.objects)
        await asyncio.sleep(1)
    await living
    world.assert_nothing_is_stranded()
    assert host.disk.result is UpgradeResult.SUCCESS
    assert sum(path.endswith("/eviction") for _, path in world.cluster.asked) > 10


@virtual_time.test
async def test_bug_04_a_host_that_may_not_look_at_nodes_upgrades_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.cluster.forbidden = NODE
    with caplog.at_level(logging.WARNING):
        await world.run(HOUR)
    [host] = world.machines
    assert host.disk.result is UpgradeResult.SUCCESS
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]
    told = [one.message for one in caplog.records if "no Kubernetes Node" in one.message]
    assert len(told) == 2  # one per process: before the reboot, and after it
