"""An upgrade that is found after a crash: what is done again, what goes on, and what is given up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from nodemanager.agent.upgrades.own_task import UpgradeResult
from nodemanager.agent.upgrades.upgrade import Upgrader, UpgradeSettings
from nodemanager.plan.tasks.record import TaskPhase
from support import virtual_time
from support.upgrade_desk import SLOT, Desk, interrupted, now
from support.upgrade_ledger import MemoryLedger


async def resumed(desk: Desk) -> tuple[UpgradeResult, str]:
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert desk.at == "Over"
    return outcome.result, outcome.message


@virtual_time.test
async def test_nothing_is_found_where_nothing_was_begun() -> None:
    desk = Desk()
    assert await desk.upgrader.resume() is None
    assert desk.told == []


@virtual_time.test
async def test_an_interrupted_upgrade_of_packages_is_a_failure() -> None:
    desk = Desk(interrupted("Upgrading"))
    result, message = await resumed(desk)
    assert result is UpgradeResult.ERROR
    assert "went down during the upgrade of its packages" in message
    assert desk.deeds == []


@virtual_time.test
async def test_cleaning_up_that_was_interrupted_goes_on() -> None:
    desk = Desk(interrupted("Returning", phase=TaskPhase.SUCCEEDED))
    desk.steal("h0")
    assert await resumed(desk) == (UpgradeResult.SUCCESS, "upgraded; no reboot was needed")
    assert desk.deeds == []
    assert desk.cluster.holder() is None


@pytest.mark.parametrize("phase", ["Locking", "Cordoning", "Draining", "Working"])
@virtual_time.test
async def test_what_has_done_nothing_yet_is_done_again(phase: str) -> None:
    desk = Desk(interrupted(phase))
    desk.steal("h0")
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS
    assert desk.did() == ["upgrade", "upgraded", "prove"]


@pytest.mark.parametrize("phase", ["Locking", "Cordoning", "Draining", "Working"])
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"boot_id": "another"}, id="another boot"),
        pytest.param({"claimed_at": SLOT - timedelta(hours=1, seconds=5)}, id="too long ago"),
        pytest.param({"claimed_at": SLOT + timedelta(hours=1)}, id="the clock went back"),
        pytest.param({"claimed_at": None}, id="nobody knows when"),
    ],
)
@virtual_time.test
async def test_what_was_interrupted_for_too_long_is_given_up(phase: str, fields: dict[str, Any]) -> None:
    desk = Desk(interrupted(phase, **fields))
    desk.steal("h0")
    result, message = await resumed(desk)
    assert result is UpgradeResult.ERROR
    assert message == f"it was interrupted in stage {phase} for too long, or by a reboot"
    assert desk.deeds == []
    assert desk.cluster.holder() is None


@virtual_time.test
async def test_what_was_interrupted_this_very_moment_is_done_again() -> None:
    desk = Desk(interrupted("Locking", claimed_at=SLOT))
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS


@virtual_time.test
async def test_an_hour_is_not_too_long() -> None:
    desk = Desk(interrupted("Draining", claimed_at=SLOT - timedelta(minutes=59, seconds=50)))
    desk.steal("h0")
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("Cordoning", "it was interrupted in stage Cordoning, and its lock is lost"),
        ("Draining", "it was interrupted in stage Draining, and its lock is lost"),
        ("Working", "it was interrupted in stage Working, and its lock is lost"),
        ("Upgraded", "Cordoning: lock web was lost: it could not be renewed in time"),
    ],
)
@virtual_time.test
async def test_what_was_interrupted_does_not_go_on_without_its_lock(phase: str, said: str) -> None:
    desk = Desk(interrupted(phase), needs_reboot="a new kernel")
    desk.steal()
    assert await resumed(desk) == (UpgradeResult.ERROR, said)
    assert desk.deeds == []
    assert desk.cluster.holder() == "other"


@pytest.mark.parametrize("phase", ["Rebooting", "Proving"])
@virtual_time.test
async def test_what_is_done_is_proven_also_without_the_lock(phase: str) -> None:
    desk = Desk(interrupted(phase, needed="a new kernel"), boot="second")
    desk.steal()
    assert await resumed(desk) == (UpgradeResult.SUCCESS, "upgraded; a new kernel")
    assert desk.did() == ["prove"]


@virtual_time.test
async def test_a_host_that_went_down_by_itself_does_not_reboot_for_what_it_needed_before() -> None:
    """A power cut right after the upgrade, or a disk that was restored since."""
    desk = Desk(interrupted("Upgraded", needed="a new kernel"), boot="second")
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS
    assert desk.did() == ["prove"]


@virtual_time.test
async def test_a_reboot_that_may_not_have_been_asked_for_is_asked_for_once_more() -> None:
    desk = Desk(interrupted("Rebooting", needed="a new kernel"), next_boot="second")
    desk.steal("h0")
    assert await resumed(desk) == (UpgradeResult.SUCCESS, "upgraded; a new kernel")
    assert desk.did() == ["reboot", "prove"]


@pytest.mark.parametrize("another", [False, True], ids=["last", "before the last"])
@virtual_time.test
async def test_a_host_whose_end_could_not_be_written_does_not_go_down_days_later(another: bool) -> None:
    """Its Node has been uncordoned, and its lock given back."""
    desk = Desk(needs_reboot="a new kernel", next_boot="second")
    desk.on = lambda where: setattr(desk.ledger, "full", "no space left" if where == "Upgraded" else "")
    await desk.upgrader.run(desk.order())
    desk.on, desk.ledger.full = lambda _where: None, ""
    if another:
        desk.needs_reboot = ""
        assert (await desk.upgrader.run(desk.order())).result is UpgradeResult.SUCCESS
    await asyncio.sleep(3 * 86400)
    desk.deeds.clear()
    desk.upgrader._deps.ledger = MemoryLedger(desk.ledger.files)
    await Upgrader(desk.upgrader._deps, desk.settings, lambda _entry: None).resume()
    assert desk.did() == []


@virtual_time.test
async def test_who_is_interrupted_before_its_reboot_is_drained_once_more() -> None:
    desk = Desk(interrupted("Upgraded", needed="a new kernel"), next_boot="second")
    desk.steal("h0")
    seen: list[bool] = []
    desk.on = lambda where: seen.append(desk.cluster.cordoned("h0")) if where == "Rebooting" else None
    assert await resumed(desk) == (UpgradeResult.SUCCESS, "upgraded; a new kernel")
    assert seen
    assert all(seen)


@virtual_time.test
async def test_whose_lock_it_is_is_asked_until_somebody_answers() -> None:
    desk = Desk(interrupted("Upgraded"))
    desk.steal("h0")
    desk.cluster.refuses = lambda request: "leases" in request.target and now() < 300
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS
    assert 5 < desk.cluster.asked.count(("refused", "GET")) < 20
    assert desk.cluster.holder() is None


@virtual_time.test
async def test_a_host_without_a_group_needs_no_lock_to_go_on() -> None:
    desk = Desk(interrupted("Upgraded", group=""))
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS
    assert not [path for _, path in desk.cluster.asked if "leases" in path]


@virtual_time.test
async def test_a_clock_that_went_back_makes_no_upgrade_shorter_than_nothing() -> None:
    desk = Desk(
        interrupted("Returning", claimed_at=SLOT + timedelta(hours=1), phase=TaskPhase.FAILED, ended_at=SLOT)
    )
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert outcome.seconds == 0.0
    desk = Desk(interrupted("Returning", claimed_at=None, phase=TaskPhase.HALTED))
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert (outcome.result, outcome.seconds) == (UpgradeResult.ERROR, 0.0)


@virtual_time.test
async def test_what_was_interrupted_before_it_had_its_lock_waits_no_longer_than_its_window() -> None:
    desk = Desk(interrupted("Locking"), UpgradeSettings(forgiveness=timedelta(seconds=60)))
    desk.cluster.refuses = lambda request: desk.at == "Locking"
    assert (await resumed(desk))[0] is UpgradeResult.SKIPPED
    assert now() < 61
