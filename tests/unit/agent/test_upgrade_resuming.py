"""An upgrade that was interrupted: what it may still do, and what it has to undo."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from nodemanager.agent.upgrades.own_task import Stage, UpgradeEntry, UpgradeResult
from nodemanager.plan.tasks.record import TaskPhase
from support import virtual_time
from support.upgrade_desk import NODE, SLOT, Desk, interrupted
from support.upgrade_ledger import MemoryLedger

TOO_LONG = "it was interrupted for too long before the reboot that it needs"


def upgraded(at: datetime | None, claimed: datetime | None = SLOT) -> UpgradeEntry:
    """Return what is on disk of one whose packages were done then, and whose reboot was not asked for."""
    entry = interrupted("Upgraded", needed="a new kernel", claimed_at=claimed)
    done, *others = entry.record.steps
    steps = (msgspec.structs.replace(done, finished_at=at), *others)
    return msgspec.structs.replace(entry, record=msgspec.structs.replace(entry.record, steps=steps))


@pytest.mark.parametrize(
    ("at", "claimed"),
    [
        pytest.param(SLOT - timedelta(hours=1, seconds=1), SLOT, id="too long ago"),
        pytest.param(SLOT - timedelta(days=3), SLOT, id="days ago"),
        pytest.param(SLOT + timedelta(seconds=1), SLOT, id="the clock went back"),
        pytest.param(None, SLOT - timedelta(days=3), id="begun days ago"),
        pytest.param(None, None, id="nobody knows when"),
    ],
)
@virtual_time.test
async def test_a_host_does_not_go_down_for_what_was_done_long_ago(
    at: datetime | None, claimed: datetime | None
) -> None:
    """Its Node may have been uncordoned since, and its lock given back."""
    desk = Desk(upgraded(at, claimed), needs_reboot="a new kernel", next_boot="second")
    desk.steal("h0")
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert (outcome.result, outcome.message) == (UpgradeResult.ERROR, TOO_LONG)
    assert desk.deeds == []
    assert "Cordoning" not in desk.way
    assert desk.cluster.holder() is None


@pytest.mark.parametrize("ago", [timedelta(), timedelta(minutes=59, seconds=59)], ids=["now", "an hour"])
@virtual_time.test
async def test_a_host_goes_down_for_what_was_done_a_moment_ago(ago: timedelta) -> None:
    desk = Desk(upgraded(SLOT - ago), next_boot="second")
    desk.steal("h0")
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert (outcome.result, outcome.message) == (UpgradeResult.SUCCESS, "upgraded; a new kernel")
    assert desk.did() == ["reboot", "prove"]


@virtual_time.test
async def test_a_cordon_that_was_never_written_down_is_undone() -> None:
    """The process was ended between the two."""
    desk = Desk(interrupted("Cordoning"))
    await desk.upgrader._deps.node.cordon()
    assert desk.cluster.cordoned("h0")
    desk.steal()
    outcome = await desk.upgrader.resume()
    assert outcome is not None
    assert outcome.result is UpgradeResult.ERROR
    assert not desk.cluster.cordoned("h0")


@virtual_time.test
async def test_a_hold_that_comes_while_it_waits_for_its_turn_ends_it_before_anything_is_done() -> None:
    desk = Desk()
    desk.upgrader._deps.may_act = lambda: False
    outcome = await desk.upgrader.run(desk.order())
    assert (outcome.result, outcome.message) == (
        UpgradeResult.SKIPPED,
        "the host is held since it waits for its turn",
    )
    assert desk.way == ["Locking", "Returning", "Over"]
    assert ("PATCH", NODE) not in desk.cluster.asked
    assert desk.cluster.holder() is None


@virtual_time.test
async def test_what_became_of_asking_is_on_disk() -> None:
    desk = Desk()
    desk.upgrader.ask(desk.order())
    assert [one.stage for one in _read(desk)] == [Stage.ASKING]
    desk.upgrader.answered(TaskPhase.EXPIRED, "the operator ordered it by a task")
    [found] = _read(desk)
    assert (found.stage, found.record.phase, found.record.message) == (
        Stage.OVER, TaskPhase.EXPIRED, "the operator ordered it by a task"
    )  # fmt: skip
    assert found.record.ended_at == desk.wall()


def _read(desk: Desk) -> list[UpgradeEntry]:
    """Return what another process would find."""
    entries = MemoryLedger(desk.ledger.files).entries.values()
    return [one for one in entries if isinstance(one, UpgradeEntry)]


@virtual_time.test
async def test_a_new_upgrade_has_a_token_above_all_others() -> None:
    desk = Desk(interrupted("Returning"))
    desk.upgrader.ask(desk.order())
    [token] = [one.record.token for one in _read(desk) if one.stage is Stage.ASKING]
    assert token > 1
