"""Holds: who decides, how long they last, and what no clock can do to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nodemanager.agent.holds import hold_timer
from nodemanager.agent.holds.hold_timer import BY_API, BY_HOST, HoldClocks
from nodemanager.agent.holds.keeping import HoldKeeper
from nodemanager.agent.link.api_reachability import SANE
from nodemanager.api.common import acting
from nodemanager.api.common.acting import Hold, HoldOrigin, RunningHold
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeSpec
from nodemanager.host.state.vault import Vault
from nodemanager.kube import times

NOW = 1_800_000_000.0


@dataclass
class World:
    """A host, its clocks and its disk."""

    folder: Path
    wall: float = NOW
    up: float = 1000.0
    boot: str = "first"
    told: list[bool] = field(default_factory=list)

    @property
    def clocks(self) -> HoldClocks:
        return HoldClocks(lambda: self.wall, lambda: self.up, lambda: self.boot)

    def keeper(self) -> HoldKeeper:
        """Start an agent."""
        return HoldKeeper(Vault(str(self.folder)), lambda: self.told.append(True), self.clocks)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds

    def reboots(self, wall: float) -> None:
        self.boot, self.up, self.wall = "second", 5.0, wall


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)


def hold(seconds: float = 3600.0, reason: str = "a disk") -> Hold:
    return Hold(reason=reason, until=times.rfc3339_unix(NOW + seconds), by="me@here")


def node(one: Hold | None) -> ManagedNode:
    return ManagedNode(spec=ManagedNodeSpec(hold=one))


def test_the_hold_that_ends_last_decides() -> None:
    api = RunningHold(hold(), HoldOrigin.API, 60.0)
    host = RunningHold(hold(reason="sshd"), HoldOrigin.HOST, 90.0)
    over = RunningHold(hold(reason="old"), HoldOrigin.HOST, 0.0)
    assert acting.decide([]).may_act
    assert acting.decide([over]).may_act
    assert acting.decide([api, over]).hold == api
    found = acting.decide([api, host])
    assert (found.hold, found.again_in, found.may_act) == (host, 90.0, False)


async def test_a_clock_that_jumps_neither_ends_a_hold_nor_makes_it_last(world: World) -> None:
    keeper = world.keeper()
    keeper.heard(node(hold()))
    world.wall += 365 * 86400
    assert not keeper.may_act()
    world.wall -= 2 * 365 * 86400
    world.up += 3599
    assert not keeper.may_act()
    world.up += 2
    assert keeper.may_act()


async def test_an_agent_that_is_restarted_goes_on_counting(world: World) -> None:
    world.keeper().heard(node(hold()))
    world.up += 1800
    world.wall += 365 * 86400
    keeper = world.keeper()
    keeper.heard(node(hold()))  # the same: its time is running
    assert keeper.permission().again_in == 1800
    world.up += 1801
    assert world.keeper().may_act()


@pytest.mark.parametrize(
    ("wall", "left"),
    [
        pytest.param(NOW + 600, 3000.0, id="right"),
        pytest.param(NOW + 7200, None, id="over while it was off"),
        pytest.param(0.0, 3600.0, id="a clock without a battery"),
        pytest.param(NOW - 86400, 3600.0, id="set back"),
    ],
)
async def test_after_a_reboot_the_time_of_day_counts_as_far_as_it_can_be_believed(
    world: World, wall: float, left: float | None
) -> None:
    world.keeper().heard(node(hold()))
    world.reboots(wall)
    assert world.keeper().permission().again_in == pytest.approx(left or float("inf"))


async def test_what_has_ended_does_not_begin_again_without_a_clock(world: World) -> None:
    keeper = world.keeper()
    keeper.heard(node(hold()))
    world.passes(3601)
    await settled(keeper)
    world.reboots(0.0)
    keeper = world.keeper()
    keeper.heard(node(hold()))
    assert keeper.may_act()


async def test_a_hold_that_is_heard_of_before_the_clock_is_set_is_timed_when_it_is(world: World) -> None:
    world.wall = SANE - 1e9
    keeper = world.keeper()
    keeper.heard(node(hold()))
    assert keeper.permission().again_in == hold_timer.UNSET_SECONDS
    world.wall = NOW
    keeper.heard(node(hold()))
    assert keeper.permission().again_in == 3600


async def test_both_edges_are_told_once_and_another_hold_is_news(world: World) -> None:
    keeper = world.keeper()
    for _ in range(3):
        keeper.heard(node(hold()))
    assert world.told == [True]
    keeper.heard(node(hold(reason="two disks")))
    assert len(world.told) == 2
    keeper.heard(node(None))
    assert len(world.told) == 3
    assert keeper.may_act()


async def test_root_and_the_api_hold_side_by_side(world: World) -> None:
    keeper, vault = world.keeper(), Vault(str(world.folder))
    hold_timer.save(vault, BY_HOST, hold_timer.timed(hold(reason="sshd"), world.clocks, 7200.0))
    keeper.heard(node(hold()))
    keeper.reload()
    found = keeper.permission().hold
    assert found is not None
    assert (found.origin, found.hold.reason) == (HoldOrigin.HOST, "sshd")
    hold_timer.save(vault, BY_HOST, None)
    keeper.reload()
    found = keeper.permission().hold
    assert found is not None
    assert found.origin is HoldOrigin.API
    vault.close()


async def test_a_file_of_the_host_is_removed_when_its_hold_has_ended(world: World) -> None:
    vault = Vault(str(world.folder))
    hold_timer.save(vault, BY_HOST, hold_timer.timed(hold(), world.clocks, 60.0))
    keeper = world.keeper()
    await settled(keeper)
    world.passes(61)
    await settled(keeper)
    assert vault.load(BY_HOST) is None
    vault.close()


async def test_a_file_that_nobody_can_read_is_told_of_and_holds_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    vault = Vault(str(world.folder))
    vault.save(BY_API, b"{}")
    assert world.keeper().may_act()
    assert "this host is not held by it" in caplog.text
    vault.close()


async def settled(keeper: HoldKeeper) -> None:
    """Let the part notice what there is to notice."""
    part = asyncio.create_task(keeper.run())
    for _ in range(3):
        await asyncio.sleep(0)
    part.cancel()
    await asyncio.gather(part, return_exceptions=True)
