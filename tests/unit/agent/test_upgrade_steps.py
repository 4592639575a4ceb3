"""One upgrade, step by step: what is done when, what is not done without the lock, and how it ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from nodemanager.agent.upgrades import own_task, upgrade
from nodemanager.agent.upgrades.own_task import UpgradeResult
from nodemanager.agent.upgrades.upgrade import UpgradeSettings
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.process.runner import CommandNotFound
from nodemanager.kube import errors
from nodemanager.runtime.backoff import Backoff
from support import virtual_time
from support.upgrade_desk import NODE, SLOT, Desk, interrupted, now
from support.upgrade_ledger import at
from support.upgrade_world import GROUP, LEASE

WAY = ["Locking", "Cordoning", "Draining", "Working", "Upgrading", "Upgraded"]


def sleep_through(seconds: float) -> None:
    """Let time pass for everybody, as in a machine that was suspended."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_time.VirtualTimeLoop)
    loop.advance(seconds)


@virtual_time.test
async def test_the_whole_way_without_a_reboot() -> None:
    desk = Desk()
    await asyncio.sleep(7)
    outcome = await desk.upgrader.run(desk.order())
    assert desk.way == [*WAY, "Rebooting", "Proving", "Returning", "Over"]
    assert desk.did() == ["upgrade", "upgraded", "prove"]
    assert (outcome.result, outcome.message) == (UpgradeResult.SUCCESS, "upgraded; no reboot was needed")
    assert outcome.seconds == pytest.approx(10, abs=1)
    first, last = desk.told[0], desk.told[-1]
    assert (first.slot, first.group, first.record.boot_id) == (SLOT, GROUP, "first")
    assert (last.slot, last.record.claimed_at) == (SLOT, SLOT + timedelta(seconds=7))
    assert last.record.ended_at is not None
    assert last.record.ended_at - SLOT == pytest.approx(timedelta(seconds=17), abs=timedelta(seconds=1))
    assert [desk.upgrader.entry] == list(desk.ledger.entries.values()) == [last]
    assert {at(one) for one in desk.told if one.cordoned is None} == {"Locking", "Cordoning", "Over"}
    assert desk.cluster.holder() is None
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_a_cordon_is_dated_from_when_it_was_made() -> None:
    desk = Desk()
    await desk.upgrader.run(desk.order())
    [moment] = {one.cordoned for one in desk.told if one.cordoned}
    assert moment - SLOT < timedelta(seconds=1)
    began = SLOT - timedelta(minutes=5)
    desk = Desk(interrupted("Cordoning", claimed_at=began, group="", cordoned=began))
    await desk.upgrader.resume()
    assert {one.cordoned for one in desk.told if one.cordoned} == {began}


@virtual_time.test
async def test_a_host_without_a_group_asks_nobody() -> None:
    desk = Desk(needs_reboot="a new kernel")
    desk.next_boot = "second"
    outcome = await desk.upgrader.run(desk.order(group=""))
    assert outcome.result is UpgradeResult.SUCCESS
    assert not [path for _, path in desk.cluster.asked if "leases" in path]


@virtual_time.test
async def test_a_foreign_cordon_is_neither_noted_nor_undone() -> None:
    desk = Desk()
    desk.cluster.put(NODE, {**desk.cluster.node("h0"), "spec": {"unschedulable": True}})
    await desk.upgrader.run(desk.order())
    assert not any(one.cordoned for one in desk.told)
    assert desk.cluster.cordoned("h0")


@pytest.mark.parametrize("phase", ["Cordoning", "Draining", "Upgrading", "Upgraded"])
@virtual_time.test
async def test_nothing_more_is_done_once_the_lock_is_lost(phase: str) -> None:
    """The fence: a host that slept for an hour must not go on as if it were still its turn."""
    desk = Desk(needs_reboot="a new kernel")
    desk.pod()

    def lose(reached: str) -> None:
        if reached == phase:
            desk.cluster.asked.clear()
            desk.deeds.clear()
            sleep_through(3600)
            desk.steal()

    desk.on = lose
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.ERROR
    assert "lock web was lost" in outcome.message
    assert outcome.message.startswith(
        {"Upgrading": "step upgrade failed", "Upgraded": "step reboot failed"}.get(phase, phase)
    )
    assert desk.deeds == []
    asked = [one for one in desk.cluster.asked if one[0] != "GET"]
    assert asked == ([] if phase == "Cordoning" else [("PATCH", NODE)])  # its own cordon, undone
    assert desk.cluster.holder() == "other"
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_the_lock_is_fresh_when_the_host_goes_down() -> None:
    """And however long the API refuses to say so, as long as it is ours."""
    desk = Desk(needs_reboot="a new kernel")
    refused: list[float] = []

    def refuses(request: Any) -> bool:
        late = desk.at == "Rebooting" and len(refused) < 3
        if late and request.method == "PATCH" and "leases" in request.target:
            refused.append(now())
            return True
        return False

    desk.cluster.refuses = refuses
    renewed: list[str] = []

    async def reboot() -> None:
        renewed.append(desk.cluster.objects[LEASE]["spec"]["renewTime"])
        desk.deeds.append(("reboot", now()))
        desk.boot = "second"

    desk.reboot = reboot  # type: ignore[method-assign]
    assert (await desk.upgrader.run(desk.order())).result is UpgradeResult.SUCCESS
    assert len(refused) == 3
    assert refused[1] - refused[0] == pytest.approx(5, abs=0.1)
    [(_, rebooted)] = [one for one in desk.deeds if one[0] == "reboot"]
    assert rebooted - refused[-1] == pytest.approx(5, abs=0.2)
    assert renewed[0] >= (SLOT + timedelta(seconds=rebooted - 1)).strftime("%Y-%m-%dT%H:%M:%S")


@virtual_time.test
async def test_a_success_waits_for_the_node() -> None:
    """Ready is what the kubelet says of this boot, not of the one before."""
    desk = Desk(needs_reboot="a new kernel")
    said = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "first"}}
    desk.node_says(said)
    desk.next_boot = "second"
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(100)
    assert desk.at == "Proving"
    desk.node_says({"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": {"bootID": "second"}})
    await asyncio.sleep(100)
    assert desk.at == "Proving"
    desk.cluster.refuses = lambda request: NODE in request.target
    await asyncio.sleep(100)
    desk.cluster.refuses = lambda _: False
    assert desk.at == "Proving"
    desk.node_says({**said, "nodeInfo": {"bootID": "second"}})
    before = now()
    assert (await running).message == "upgraded; a new kernel"
    assert now() - before <= 5.5


@virtual_time.test
async def test_a_node_that_is_not_ready_in_time_is_a_failure() -> None:
    desk = Desk()
    desk.node_says({"conditions": [{"type": "Ready", "status": "False"}]})
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.ERROR
    assert "step prove failed: not within 900 s: the host is not as declared, or its" in outcome.message
    assert outcome.seconds == pytest.approx(910, abs=2)
    assert own_task.last_success(desk.ledger.entries.values()) is None


@virtual_time.test
@pytest.mark.parametrize("ready", [True, False])
async def test_the_time_in_which_a_host_is_held_does_not_count_against_it(*, ready: bool) -> None:
    desk = Desk()
    desk.node_says({"conditions": [{"type": "Ready", "status": "False"}]})
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(800)
    desk.held = True
    await asyncio.sleep(7200)
    assert (desk.at, desk.cluster.holder()) == ("Proving", "h0")
    desk.held, before = False, now()
    await asyncio.sleep(800)
    if ready:
        desk.node_says({"conditions": [{"type": "Ready", "status": "True"}]})
    outcome = await running
    assert outcome.result is (UpgradeResult.SUCCESS if ready else UpgradeResult.ERROR)
    assert now() - before == pytest.approx(800 if ready else 900, abs=10)


@virtual_time.test
async def test_without_a_reboot_the_node_speaks_of_this_boot() -> None:
    desk = Desk()
    desk.node_says({"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "first"}})
    assert (await desk.upgrader.run(desk.order())).result is UpgradeResult.SUCCESS
    assert now() < 20


@virtual_time.test
async def test_a_reboot_is_waited_for_and_nothing_else_is_done_meanwhile() -> None:
    desk = Desk(needs_reboot="a new kernel")
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(500)
    assert (desk.at, desk.upgrader.entry.why_reboot()) == ("Rebooting", "a new kernel")
    assert desk.did() == ["upgrade", "upgraded", "reboot"]
    assert desk.cluster.cordoned("h0")
    desk.boot = "second"
    assert (await running).result is UpgradeResult.SUCCESS
    assert now() < 506


@virtual_time.test
async def test_a_reboot_that_is_asked_for_is_the_reason_that_is_told() -> None:
    desk = Desk(needs_reboot="a new kernel")
    desk.next_boot = "second"
    assert (await desk.upgrader.run(desk.order(reboot=True))).message == (
        "upgraded; upgrade.nodemanager/reboot asks for it"
    )


@virtual_time.test
async def test_an_upgrade_may_ask_for_a_reboot_itself() -> None:
    desk = Desk(base=True)
    desk.next_boot = "second"
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.message == "upgraded; the base system was upgraded"
    assert "reboot" in desk.did()


@virtual_time.test
async def test_a_host_that_stays_up_is_a_failure_after_its_time() -> None:
    desk = Desk(needs_reboot="a new kernel")
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.message == "step reboot failed: the host did not go down within 600 s"
    [(_, asked)] = [one for one in desk.deeds if one[0] == "reboot"]
    assert now() == pytest.approx(asked + 600, abs=1.5)
    assert desk.did() == ["upgrade", "upgraded", "reboot"]


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (HostError("killed by signal 15"), True),
        (NotSupported("no such tool"), False),
        (CommandNotFound("no such program"), False),
    ],
)
@virtual_time.test
async def test_whoever_asks_for_a_reboot_may_be_killed_by_it(error: BaseException, waits: bool) -> None:
    desk = Desk(needs_reboot="a new kernel", fails={"reboot": error})
    asyncio.get_running_loop().call_later(100, setattr, desk, "boot", "second")
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is (UpgradeResult.SUCCESS if waits else UpgradeResult.ERROR)
    assert now() == pytest.approx(100 if waits else 10, abs=6)


@virtual_time.test
async def test_a_group_that_is_busy_is_asked_until_the_window_is_over() -> None:
    desk = Desk(settings=UpgradeSettings(forgiveness=timedelta(seconds=62)))
    desk.steal()
    outcome = await desk.upgrader.run(desk.order())
    assert (outcome.result, outcome.message) == (UpgradeResult.SKIPPED, "group web: it is the turn of other")
    assert 57 <= now() <= 62
    assert desk.deeds == []
    assert not [one for one in desk.cluster.asked if one[1] == NODE]  # nothing of it to undo
    assert desk.cluster.holder() == "other"
    assert desk.way == ["Locking", "Returning", "Over"]


@virtual_time.test
async def test_the_turn_that_comes_within_the_window_is_taken() -> None:
    desk = Desk()
    desk.steal()
    asyncio.get_running_loop().call_later(30, desk.steal, None, 1)
    assert (await desk.upgrader.run(desk.order())).result is UpgradeResult.SUCCESS
    assert now() == pytest.approx(45, abs=6)


@virtual_time.test
async def test_an_api_that_cannot_be_asked_is_told_when_the_window_is_over() -> None:
    desk = Desk(settings=UpgradeSettings(forgiveness=timedelta(seconds=60)))
    desk.cluster.refuses = lambda request: "leases" in request.target and desk.way[-1] == "Locking"
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.SKIPPED
    assert "group web: cannot get leases" in outcome.message


@virtual_time.test
async def test_the_last_moment_of_a_window_belongs_to_it() -> None:
    desk = Desk(settings=UpgradeSettings(forgiveness=timedelta(seconds=60)))
    await asyncio.sleep(60)
    assert (await desk.upgrader.run(desk.order())).result is UpgradeResult.SUCCESS


@virtual_time.test
async def test_an_order_that_is_found_after_its_window_is_not_carried_out() -> None:
    desk = Desk(settings=UpgradeSettings(forgiveness=timedelta(seconds=60)))
    await asyncio.sleep(61)
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.SKIPPED
    assert "its window is over" in outcome.message
    assert desk.deeds == []


@pytest.fixture
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what is random in the pauses between tries."""
    monkeypatch.setattr(upgrade, "RETRY", Backoff(base=2.0, maximum=60.0, jitter=0.0))


@pytest.mark.parametrize(
    "trouble",
    [(503, "ServiceUnavailable"), (500, "InternalError"), errors.Unreachable("cut")],
    ids=["unavailable", "broken", "unreachable"],
)
@virtual_time.test
async def test_a_server_in_trouble_is_asked_five_times_to_cordon(
    no_chance: None, trouble: tuple[int, str] | errors.Unreachable
) -> None:
    desk = Desk()
    tries: list[float] = []

    def refuses(request: Any) -> bool:
        if request.method != "PATCH" or NODE not in request.target:
            return False
        tries.append(now())
        if isinstance(trouble, errors.Unreachable):
            raise trouble
        desk.cluster.code, desk.cluster.reason = trouble
        return True

    desk.cluster.refuses = refuses
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.ERROR
    assert outcome.message.startswith("Cordoning: ")
    assert tries == pytest.approx([0, 2, 6, 14, 30], abs=0.5)
    assert desk.deeds == []


@virtual_time.test
async def test_a_server_that_recovers_is_enough() -> None:
    desk = Desk()
    desk.cluster.refuses = lambda request: request.method == "PATCH" and NODE in request.target and now() < 5
    assert (await desk.upgrader.run(desk.order())).result is UpgradeResult.SUCCESS


@pytest.mark.parametrize("stuck", ["nodes", "leases"])
@virtual_time.test
async def test_cleaning_up_is_tried_until_it_is_done_and_each_part_once(no_chance: None, stuck: str) -> None:
    desk = Desk()
    returning: list[float] = []

    def refuses(request: Any) -> bool:
        if desk.at != "Returning" or request.method != "PATCH":
            return False
        returning.append(now())
        return stuck in request.target and now() < returning[0] + 200

    desk.cluster.refuses = refuses
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.SUCCESS
    assert now() > 200
    assert len(returning) == 10  # after 2, 4, 8, 16, 32 and then every 60 seconds; the other part once
    assert desk.cluster.holder() is None
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_nothing_is_done_without_a_record() -> None:
    desk = Desk()
    desk.ledger.full = "disk full"
    outcome = await desk.upgrader.run(desk.order())
    assert (outcome.result, outcome.message, outcome.seconds) == (UpgradeResult.ERROR, "disk full", 0.0)
    assert (desk.at, desk.upgrader.entry) == ("Over", outcome)
    assert desk.deeds == []
    assert desk.cluster.asked == []


@virtual_time.test
async def test_cleaning_up_needs_no_record() -> None:
    desk = Desk()
    desk.on = lambda phase: setattr(desk.ledger, "full", "no space left") if phase == "Upgrading" else None
    outcome = await desk.upgrader.run(desk.order())
    assert (outcome.result, outcome.message) == (UpgradeResult.ERROR, "Working: no space left")
    assert desk.way[-2:] == ["Returning", "Over"]
    assert desk.cluster.holder() is None
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_a_failure_that_nobody_foresaw_is_cleaned_up_after_and_told_in_short() -> None:
    desk = Desk(fails={"upgrade": KeyError("x" * 2000)})
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.ERROR
    assert outcome.message == "step upgrade failed: KeyError, see the log of the agent"
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_told_to_stop_an_upgrade_of_packages_is_finished_first() -> None:
    desk = Desk()
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(5)
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert desk.did() == ["upgrade", "upgraded"]
    assert desk.way == WAY
    await desk.locks.close()


@virtual_time.test
async def test_told_to_stop_twice_an_upgrade_of_packages_is_broken_off() -> None:
    desk = Desk(upgrading=1000)
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    for _ in range(2):
        await asyncio.sleep(5)
        assert desk.did() == ["upgrade"]
        running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert desk.did() == ["upgrade", "broken off"]
    assert desk.way[-1] == "Upgrading"
    assert now() < 20
    await desk.locks.close()


@virtual_time.test
async def test_told_to_stop_the_failure_of_packages_is_not_taken_for_an_end() -> None:
    desk = Desk()

    async def failing() -> None:
        await asyncio.sleep(10)
        raise HostError("disk full")

    desk.upgrade = failing  # type: ignore[method-assign]
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(5)
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert desk.way[-1] == "Upgrading"  # the next process finds that it was interrupted
    await desk.locks.close()
