"""One upgrade, step by step: what is done when, what is not done without the lock, and how it ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from nodemanager.agent.upgrades import upgrade
from nodemanager.agent.upgrades.upgrade import UpgradeSettings
from nodemanager.agent.upgrades.upgrade_record import Phase, UpgradeRecord, UpgradeResult
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.process.runner import CommandNotFound
from nodemanager.kube import errors
from nodemanager.runtime.backoff import Backoff
from support import virtual_time
from support.upgrade_desk import NODE, SLOT, Desk, now
from support.upgrade_world import GROUP, LEASE

WAY = [Phase.LOCKING, Phase.CORDONING, Phase.DRAINING, Phase.UPGRADING, Phase.UPGRADED]


def sleep_through(seconds: float) -> None:
    """Let time pass for everybody, as in a machine that was suspended."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_time.VirtualTimeLoop)
    loop.advance(seconds)


@virtual_time.test
async def test_the_whole_way_without_a_reboot() -> None:
    kept = UpgradeRecord(last_started=SLOT - timedelta(days=2), last_done=SLOT - timedelta(days=1))
    desk = Desk(kept)
    await asyncio.sleep(7)
    outcome = await desk.upgrader.run(desk.order())
    assert desk.phases == [*WAY, Phase.PROVING, Phase.RETURNING, Phase.IDLE] == desk.told
    assert desk.did() == ["upgrade", "upgraded", "prove"]
    assert (outcome.result, outcome.message) == (UpgradeResult.SUCCESS, "upgraded; no reboot was needed")
    assert outcome.seconds == pytest.approx(10, abs=1)
    first, last = desk.saved[0], desk.saved[-1]
    assert (first.slot, first.group, first.boot_id) == (SLOT, GROUP, "first")
    assert (first.last_started, first.last_done) == (kept.last_started, kept.last_done)
    assert (last.slot, last.began, last.result) == (SLOT, SLOT + timedelta(seconds=7), UpgradeResult.SUCCESS)
    assert last.last_started == last.began
    assert last.last_done is not None
    assert last.last_done - SLOT == pytest.approx(timedelta(seconds=17), abs=timedelta(seconds=1))
    assert desk.upgrader.record == last
    cordoned = [one.cordoned is not None for one in desk.saved]
    assert cordoned == [False, False, True, True, True, True, True, False]
    assert desk.cluster.holder() is None
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_a_cordon_is_dated_from_when_it_was_made() -> None:
    desk = Desk()
    await desk.upgrader.run(desk.order())
    [moment] = {one.cordoned for one in desk.saved if one.cordoned}
    assert moment - SLOT < timedelta(seconds=1)
    began = SLOT - timedelta(minutes=5)
    desk = Desk(UpgradeRecord(phase=Phase.CORDONING, began=began, boot_id="first", cordoned=began))
    await desk.upgrader.resume()
    assert {one.cordoned for one in desk.saved if one.cordoned} == {began}


@virtual_time.test
async def test_a_host_without_a_group_asks_nobody() -> None:
    desk = Desk(needs_reboot="a new kernel")
    desk.on = lambda phase: setattr(desk, "boot", "second") if phase is Phase.REBOOTING else None
    outcome = await desk.upgrader.run(desk.order(group=""))
    assert outcome.result is UpgradeResult.SUCCESS
    assert not [path for _, path in desk.cluster.asked if "leases" in path]


@virtual_time.test
async def test_a_foreign_cordon_is_neither_noted_nor_undone() -> None:
    desk = Desk()
    desk.cluster.put(NODE, {**desk.cluster.node("h0"), "spec": {"unschedulable": True}})
    await desk.upgrader.run(desk.order())
    assert not any(one.cordoned for one in desk.saved)
    assert desk.cluster.cordoned("h0")


@pytest.mark.parametrize("phase", [Phase.CORDONING, Phase.DRAINING, Phase.UPGRADING, Phase.UPGRADED])
@virtual_time.test
async def test_nothing_more_is_done_once_the_lock_is_lost(phase: Phase) -> None:
    """The fence: a host that slept for an hour must not go on as if it were still its turn."""
    desk = Desk(needs_reboot="a new kernel")
    desk.pod()

    def lose(reached: Phase) -> None:
        if reached is phase:
            desk.cluster.asked.clear()
            desk.deeds.clear()
            sleep_through(3600)
            desk.steal()

    desk.on = lose
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.ERROR
    assert outcome.message.startswith(f"{phase}: lock web was lost")
    assert desk.deeds == []
    asked = [one for one in desk.cluster.asked if one[0] != "GET"]
    assert asked == ([] if phase is Phase.CORDONING else [("PATCH", NODE)])  # its own cordon, undone
    assert desk.cluster.holder() == "other"
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_the_lock_is_fresh_when_the_host_goes_down() -> None:
    """And however long the API refuses to say so, as long as it is ours."""
    desk = Desk(needs_reboot="a new kernel")
    refused: list[float] = []

    def refuses(request: Any) -> bool:
        late = desk.upgrader.record.phase is Phase.UPGRADED and len(refused) < 3
        if late and request.method == "PATCH" and "leases" in request.target:
            refused.append(now())
            return True
        return False

    desk.cluster.refuses = refuses
    renewed: list[str] = []

    def rebooting(phase: Phase) -> None:
        if phase is Phase.REBOOTING:
            renewed.append(desk.cluster.objects[LEASE]["spec"]["renewTime"])
            desk.boot = "second"

    desk.on = rebooting
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
    desk.on = lambda phase: setattr(desk, "boot", "second") if phase is Phase.REBOOTING else None
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(100)
    assert desk.upgrader.record.phase is Phase.PROVING
    desk.node_says({"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": {"bootID": "second"}})
    await asyncio.sleep(100)
    assert desk.upgrader.record.phase is Phase.PROVING
    desk.cluster.refuses = lambda request: NODE in request.target
    await asyncio.sleep(100)
    desk.cluster.refuses = lambda _: False
    assert desk.upgrader.record.phase is Phase.PROVING
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
    assert outcome.message == "Proving: the host was not ready within 900 s"
    assert outcome.seconds == pytest.approx(910, abs=2)
    assert (desk.saved[-1].last_started, desk.saved[-1].last_done) == (None, None)


@virtual_time.test
@pytest.mark.parametrize("ready", [True, False])
async def test_the_time_in_which_a_host_is_held_does_not_count_against_it(*, ready: bool) -> None:
    desk = Desk()
    desk.node_says({"conditions": [{"type": "Ready", "status": "False"}]})
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(800)
    desk.held = True
    await asyncio.sleep(7200)
    assert (desk.upgrader.record.phase, desk.cluster.holder()) == (Phase.PROVING, "h0")
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
    record = desk.upgrader.record
    assert (record.phase, record.boot_id, record.reboot) == (Phase.REBOOTING, "first", "a new kernel")
    assert record.asked == pytest.approx(10, abs=1)
    assert desk.did() == ["upgrade", "upgraded", "reboot"]
    assert desk.cluster.cordoned("h0")
    desk.boot = "second"
    assert (await running).result is UpgradeResult.SUCCESS
    assert now() < 506


@virtual_time.test
async def test_a_reboot_that_is_asked_for_is_the_reason_that_is_told() -> None:
    desk = Desk(needs_reboot="a new kernel")
    desk.on = lambda phase: setattr(desk, "boot", "second") if phase is Phase.REBOOTING else None
    assert (await desk.upgrader.run(desk.order(reboot="asked for"))).message == "upgraded; asked for"


@virtual_time.test
async def test_an_upgrade_may_ask_for_a_reboot_itself() -> None:
    desk = Desk(upgrade_says="the base system was upgraded")
    desk.on = lambda phase: setattr(desk, "boot", "second") if phase is Phase.REBOOTING else None
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.message == "upgraded; the base system was upgraded"
    assert "reboot" in desk.did()


@virtual_time.test
async def test_a_host_that_stays_up_is_a_failure_after_its_time() -> None:
    desk = Desk(needs_reboot="a new kernel", settings=UpgradeSettings(reboot=601.0))
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.message == "Rebooting: the host did not go down within 601 s"
    assert now() == pytest.approx(desk.upgrader.record.asked + 601, abs=0.2)
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
    assert desk.phases == [Phase.LOCKING, Phase.RETURNING, Phase.IDLE]


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
    desk.cluster.refuses = lambda request: "leases" in request.target and desk.phases[-1] is Phase.LOCKING
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.SKIPPED
    assert "group web: cannot get leases" in outcome.message


@virtual_time.test
async def test_the_last_moment_of_a_window_belongs_to_it() -> None:
    desk = Desk(settings=UpgradeSettings(forgiveness=timedelta(seconds=60)))
    await asyncio.sleep(60)
    assert (await desk.upgrader.run(desk.order())).result is UpgradeResult.SUCCESS


@virtual_time.test
async def test_what_was_interrupted_before_it_had_its_lock_waits_no_longer_than_its_window() -> None:
    desk = Desk(interrupted(Phase.LOCKING), UpgradeSettings(forgiveness=timedelta(seconds=60)))
    desk.cluster.refuses = lambda request: desk.upgrader.record.phase is Phase.LOCKING
    assert (await resumed(desk))[0] is UpgradeResult.SKIPPED
    assert now() < 61


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
        if desk.upgrader.record.phase is not Phase.RETURNING or request.method != "PATCH":
            return False
        returning.append(now())
        return stuck in request.target and now() < returning[0] + 200

    desk.cluster.refuses = refuses
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.SUCCESS
    assert outcome.seconds > 200
    assert len(returning) == 10  # after 2, 4, 8, 16, 32 and then every 60 seconds; the other part once
    assert desk.cluster.holder() is None
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_nothing_is_done_without_a_record() -> None:
    desk = Desk(fails={"save": OSError("disk full")})
    outcome = await desk.upgrader.run(desk.order())
    assert (outcome.result, outcome.message, outcome.seconds) == (UpgradeResult.ERROR, "disk full", 0.0)
    assert (desk.upgrader.record.phase, desk.upgrader.record.result) == (Phase.IDLE, UpgradeResult.ERROR)
    assert desk.deeds == []
    assert desk.cluster.asked == []


@virtual_time.test
async def test_cleaning_up_needs_no_record() -> None:
    desk = Desk(fails={"upgrade": OSError("no space left")})
    desk.on = lambda phase: desk.fails.update(save=OSError("full")) if phase is Phase.UPGRADING else None
    outcome = await desk.upgrader.run(desk.order())
    assert (outcome.result, outcome.message) == (UpgradeResult.ERROR, "Upgrading: no space left")
    assert desk.told[-2:] == [Phase.RETURNING, Phase.IDLE]
    assert desk.cluster.holder() is None
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_a_failure_that_nobody_foresaw_is_cleaned_up_after_and_told_in_short() -> None:
    desk = Desk(fails={"upgrade": KeyError("x" * 2000)})
    outcome = await desk.upgrader.run(desk.order())
    assert outcome.result is UpgradeResult.ERROR
    assert outcome.message.startswith("Upgrading: KeyError('xxx")
    assert len(outcome.message) == 1024
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
    assert desk.phases == WAY
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
    assert desk.phases[-1] is Phase.UPGRADING
    assert now() < 20
    await desk.locks.close()


@virtual_time.test
async def test_told_to_stop_the_failure_of_packages_is_not_taken_for_an_end() -> None:
    desk = Desk()

    async def failing() -> str:
        await asyncio.sleep(10)
        raise OSError("disk full")

    desk.upgrader._deps.host.upgrade = failing  # type: ignore[method-assign]
    running = asyncio.create_task(desk.upgrader.run(desk.order()))
    await asyncio.sleep(5)
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert desk.phases[-1] is Phase.UPGRADING  # the next process finds that it was interrupted
    await desk.locks.close()


# Found after a crash


def interrupted(phase: Phase, **fields: Any) -> UpgradeRecord:
    """Return the record of an upgrade that began ten minutes ago."""
    found = UpgradeRecord(
        phase=phase, slot=SLOT, began=SLOT - timedelta(minutes=10), group=GROUP, boot_id="first"
    )
    return replace_record(found, **fields)


def replace_record(record: UpgradeRecord, **fields: Any) -> UpgradeRecord:
    values = {name: getattr(record, name) for name in record.__struct_fields__}
    return UpgradeRecord(**(values | fields))


async def resumed(desk: Desk) -> tuple[UpgradeResult, str]:
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert desk.upgrader.record.phase is Phase.IDLE
    return outcome.result, outcome.message


@virtual_time.test
async def test_nothing_is_found_where_nothing_was_begun() -> None:
    desk = Desk()
    assert await desk.upgrader.resume() is None
    assert desk.saved == []


@virtual_time.test
async def test_an_interrupted_upgrade_of_packages_is_a_failure() -> None:
    desk = Desk(interrupted(Phase.UPGRADING))
    result, message = await resumed(desk)
    assert result is UpgradeResult.ERROR
    assert "went down during the upgrade of its packages" in message
    assert desk.deeds == []


@virtual_time.test
async def test_cleaning_up_that_was_interrupted_goes_on() -> None:
    desk = Desk(interrupted(Phase.RETURNING, result=UpgradeResult.SUCCESS, message="upgraded"))
    desk.steal("h0")
    assert await resumed(desk) == (UpgradeResult.SUCCESS, "upgraded")
    assert desk.deeds == []
    assert desk.cluster.holder() is None


@pytest.mark.parametrize("phase", [Phase.LOCKING, Phase.CORDONING, Phase.DRAINING])
@virtual_time.test
async def test_what_has_done_nothing_yet_is_done_again(phase: Phase) -> None:
    desk = Desk(interrupted(phase))
    desk.steal("h0")
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS
    assert desk.did() == ["upgrade", "upgraded", "prove"]


@pytest.mark.parametrize("phase", [Phase.LOCKING, Phase.CORDONING, Phase.DRAINING])
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"boot_id": "another"}, id="another boot"),
        pytest.param({"began": SLOT - timedelta(hours=1, seconds=5)}, id="too long ago"),
        pytest.param({"began": SLOT + timedelta(hours=1)}, id="the clock went back"),
        pytest.param({"began": None}, id="nobody knows when"),
    ],
)
@virtual_time.test
async def test_what_was_interrupted_for_too_long_is_given_up(phase: Phase, fields: dict[str, Any]) -> None:
    desk = Desk(interrupted(phase, **fields))
    desk.steal("h0")
    result, message = await resumed(desk)
    assert result is UpgradeResult.ERROR
    assert message == f"it was interrupted in phase {phase} for too long, or by a reboot"
    assert desk.deeds == []
    assert desk.cluster.holder() is None


@virtual_time.test
async def test_what_was_interrupted_this_very_moment_is_done_again() -> None:
    desk = Desk(interrupted(Phase.LOCKING, began=SLOT))
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS


@virtual_time.test
async def test_an_hour_is_not_too_long() -> None:
    desk = Desk(interrupted(Phase.DRAINING, began=SLOT - timedelta(minutes=59, seconds=50)))
    desk.steal("h0")
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS


@pytest.mark.parametrize("phase", [Phase.CORDONING, Phase.DRAINING, Phase.UPGRADED])
@virtual_time.test
async def test_what_was_interrupted_does_not_go_on_without_its_lock(phase: Phase) -> None:
    desk = Desk(interrupted(phase), needs_reboot="a new kernel")
    desk.steal()
    result, message = await resumed(desk)
    assert (result, message) == (
        UpgradeResult.ERROR,
        f"it was interrupted in phase {phase}, and its lock is lost",
    )
    assert desk.deeds == []
    assert desk.cluster.holder() == "other"


@pytest.mark.parametrize("phase", [Phase.REBOOTING, Phase.PROVING])
@virtual_time.test
async def test_what_is_done_is_proven_also_without_the_lock(phase: Phase) -> None:
    desk = Desk(interrupted(phase, reboot="a new kernel"), boot="second")
    desk.steal()
    assert await resumed(desk) == (UpgradeResult.SUCCESS, "upgraded; a new kernel")
    assert desk.did() == ["prove"]


@virtual_time.test
async def test_whose_lock_it_is_is_asked_until_somebody_answers() -> None:
    desk = Desk(interrupted(Phase.UPGRADED))
    desk.steal("h0")
    desk.cluster.refuses = lambda request: "leases" in request.target and now() < 300
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS
    assert 5 < desk.cluster.asked.count(("refused", "GET")) < 20
    assert desk.cluster.holder() is None


@virtual_time.test
async def test_a_host_without_a_group_needs_no_lock_to_go_on() -> None:
    desk = Desk(interrupted(Phase.UPGRADED, group=""))
    assert (await resumed(desk))[0] is UpgradeResult.SUCCESS
    assert not [path for _, path in desk.cluster.asked if "leases" in path]


@virtual_time.test
async def test_a_clock_that_went_back_makes_no_upgrade_shorter_than_nothing() -> None:
    desk = Desk(interrupted(Phase.RETURNING, began=SLOT + timedelta(hours=1), result=UpgradeResult.ERROR))
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert outcome.seconds == 0.0
    desk = Desk(replace_record(UpgradeRecord(phase=Phase.RETURNING), began=None))
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert (outcome.result, outcome.seconds) == (UpgradeResult.ERROR, 0.0)
