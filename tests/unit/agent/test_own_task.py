"""What a host makes of its records of upgrades: where one is, how it ended, and which one counts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.agent.tasks.attempts import REBOOT_NEEDED, Attempt
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.agent.tasks.system_upgrades import WENT_DOWN
from nodemanager.agent.upgrades import own_task
from nodemanager.agent.upgrades.own_task import (
    LATEST,
    NOTHING,
    Order,
    Stage,
    UpgradeEntry,
    UpgradeResult,
    Upgrades,
)
from nodemanager.api.maintenance.nodetask import NodeTaskSpec, TaskReason
from nodemanager.api.maintenance.task_steps import PackagesAction
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.host.base import HostError
from nodemanager.kube import times
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord
from support.upgrade_ledger import tools_of

SLOT = datetime(2026, 6, 1, 3, tzinfo=UTC)
NOW = SLOT + timedelta(seconds=7)
DONE, OPEN, FAILED = StepPhase.SUCCEEDED, StepPhase.PENDING, StepPhase.FAILED


def entry(
    *phases: StepPhase, stage: Stage = Stage.WORKING, reboot: bool = False, needed: str = "", **record: Any
) -> UpgradeEntry:
    """Return an upgrade whose steps have come so far."""
    made = own_task.write(Order(SLOT, reboot=reboot), "h0", record.pop("token", 3), NOW)
    evidence = {REBOOT_NEEDED: needed} if needed else {}
    steps = [
        StepRecord(phase, 1 if phase is not OPEN else 0, evidence=evidence if not place else {})
        for place, phase in enumerate((*phases, OPEN, OPEN, OPEN)[:3])
    ]
    found = msgspec.structs.replace(made.record, steps=tuple(steps), **record)
    return msgspec.structs.replace(made, stage=stage, record=found)


def test_an_order_becomes_a_task_that_nothing_was_done_of() -> None:
    found = own_task.write(Order(SLOT, "web"), "h0", 5, NOW)
    assert (found.stage, found.slot, found.group, found.cordoned) == (Stage.LOCKING, SLOT, "web", None)
    assert (found.record.token, found.record.claimed_at, found.record.phase) == (5, NOW, TaskPhase.PENDING)
    assert [one.phase for one in found.record.steps] == [OPEN] * 3
    spec = found.spec
    assert (spec.node_name, spec.fencing_token, spec.not_before) == ("h0", 5, times.rfc3339(SLOT))
    assert spec.deadline == times.rfc3339(NOW + LATEST)
    assert spec.reason == TaskReason(kind="ManagedNode", name="h0")
    assert spec.steps == upgrade_tasks.steps(reboots=False)
    assert own_task.write(Order(SLOT, reboot=True), "h0", 5, NOW).spec.steps == upgrade_tasks.steps(
        reboots=True
    )


@pytest.mark.parametrize("stage", Stage)
def test_a_host_is_being_upgraded_from_its_lock_to_its_return(stage: Stage) -> None:
    assert entry(stage=stage).is_under_way is (stage not in (Stage.ASKING, Stage.OVER))


@pytest.mark.parametrize(
    ("phases", "stage", "untouched", "awaits"),
    [
        pytest.param([], Stage.LOCKING, True, False, id="waits for its turn"),
        pytest.param([], Stage.WORKING, True, False, id="about to begin"),
        pytest.param(
            [], Stage.RETURNING, False, False, id="ends before it began: what is left is its return"
        ),
        pytest.param([StepPhase.RUNNING], Stage.WORKING, False, False, id="upgrades"),
        pytest.param([DONE], Stage.WORKING, False, True, id="upgraded"),
        pytest.param([DONE], Stage.RETURNING, False, False, id="upgraded and ended"),
        pytest.param([FAILED], Stage.WORKING, False, False, id="failed"),
        pytest.param([DONE, StepPhase.RUNNING], Stage.WORKING, False, False, id="reboots"),
        pytest.param([DONE, DONE], Stage.WORKING, False, False, id="proves"),
    ],
)
def test_what_was_done_already(phases: list[StepPhase], stage: Stage, untouched: bool, awaits: bool) -> None:
    found = entry(*phases, stage=stage)
    assert (found.is_untouched, found.awaits_reboot) == (untouched, awaits)


@pytest.mark.parametrize(
    ("found", "result", "message"),
    [
        pytest.param(
            entry(DONE, DONE, DONE, phase=TaskPhase.SUCCEEDED), UpgradeResult.SUCCESS,
            "upgraded; no reboot was needed", id="without a reboot",
        ),
        pytest.param(
            entry(DONE, DONE, DONE, needed="a new kernel", phase=TaskPhase.SUCCEEDED), UpgradeResult.SUCCESS,
            "upgraded; a new kernel", id="with one",
        ),
        pytest.param(
            entry(DONE, DONE, DONE, reboot=True, needed="a new kernel", phase=TaskPhase.SUCCEEDED),
            UpgradeResult.SUCCESS, "upgraded; upgrade.nodemanager/reboot asks for it",
            id="with one in any case",
        ),
        pytest.param(
            entry(phase=TaskPhase.EXPIRED, message="not its turn"), UpgradeResult.SKIPPED, "not its turn",
            id="not its turn",
        ),
        pytest.param(
            entry(FAILED, phase=TaskPhase.FAILED, message="no space"), UpgradeResult.ERROR, "no space",
            id="failed",
        ),
        pytest.param(
            entry(FAILED, phase=TaskPhase.HALTED, message="?"), UpgradeResult.ERROR, "?", id="nobody knows"
        ),
    ],
)  # fmt: skip
def test_how_it_ended(found: UpgradeEntry, result: UpgradeResult, message: str) -> None:
    assert (found.result, found.message) == (result, message)


@pytest.mark.parametrize(
    ("began", "ended", "seconds"),
    [
        pytest.param(NOW, NOW + timedelta(seconds=90), 90.0, id="a while"),
        pytest.param(NOW, NOW - timedelta(hours=1), 0.0, id="the clock went back"),
        pytest.param(None, NOW, 0.0, id="nobody knows since when"),
        pytest.param(NOW, None, 0.0, id="goes on"),
    ],
)
def test_how_long_it_took(began: datetime | None, ended: datetime | None, seconds: float) -> None:
    assert entry(claimed_at=began, ended_at=ended).seconds == seconds


def task(phase: TaskPhase, *steps: StepRecord, kind: str = "ManagedNode", slot: str | None = None) -> Entry:
    """Return a task of the operator."""
    not_before = times.rfc3339(SLOT) if slot is None else slot
    spec = NodeTaskSpec(not_before=not_before, reason=TaskReason(kind=kind, name="h0"))
    return Entry("task-1", spec, TaskRecord("u-1", 9, phase, steps))


TRIED, UNTRIED = StepRecord(FAILED, 1), StepRecord()


@pytest.mark.parametrize(
    ("one", "phase", "stage"),
    [
        pytest.param(task(TaskPhase.SUCCEEDED, TRIED), TaskPhase.SUCCEEDED, Stage.OVER, id="done"),
        pytest.param(task(TaskPhase.RUNNING, TRIED), TaskPhase.RUNNING, Stage.WORKING, id="goes on"),
        pytest.param(task(TaskPhase.PENDING), TaskPhase.PENDING, Stage.WORKING, id="has not begun"),
        pytest.param(
            task(TaskPhase.EXPIRED, UNTRIED, UNTRIED), TaskPhase.EXPIRED, Stage.OVER, id="not its turn"
        ),
        pytest.param(task(TaskPhase.EXPIRED, TRIED, UNTRIED), TaskPhase.FAILED, Stage.OVER, id="cut off"),
        pytest.param(task(TaskPhase.HALTED, TRIED), TaskPhase.HALTED, Stage.OVER, id="nobody knows"),
    ],
)
def test_tasks_of_the_operator_count_as_its_own(one: Entry, phase: TaskPhase, stage: Stage) -> None:
    [found] = own_task.ordered([task(TaskPhase.RUNNING, kind="NodeMaintenance"), one])
    assert (found.name, found.slot, found.record.token) == ("task-1", SLOT, 9)
    assert (found.record.phase, found.stage) == (phase, stage)


def test_tasks_for_something_else_do_not() -> None:
    plain = Entry("plain", NodeTaskSpec(), TaskRecord("u-2"))
    others = [plain, task(TaskPhase.RUNNING, kind="NodeMaintenance"), task(TaskPhase.RUNNING, slot="soon")]
    assert own_task.ordered(others) == []


def over(token: int, phase: TaskPhase = TaskPhase.SUCCEEDED) -> UpgradeEntry:
    return entry(DONE, token=token, stage=Stage.OVER, phase=phase)


def test_what_counts_is_the_last_that_was_written() -> None:
    plain = Entry("plain", NodeTaskSpec(), TaskRecord("u-2", token=99))
    assert own_task.latest([]) is NOTHING
    assert own_task.latest([plain]) is NOTHING
    newest = over(5)
    assert own_task.latest([over(4), newest, plain, entry(token=3)]) is newest, "its end could not be written"
    assert own_task.latest([over(4), working := entry(token=5)]) is working


def test_one_that_could_not_be_read_comes_first_until_it_has_ended() -> None:
    unread = UpgradeEntry("u", NodeTaskSpec(), TaskRecord("u", phase=TaskPhase.HALTED))
    assert unread.stage is Stage.RETURNING, "clean up"
    assert own_task.latest([over(5), unread]) is unread
    newest = over(5)
    assert own_task.latest([newest, msgspec.structs.replace(unread, stage=Stage.OVER)]) is newest


def test_the_last_success_is_that_with_the_highest_token() -> None:
    last = over(4)
    found = own_task.last_success([over(2), last, over(3), over(5, TaskPhase.FAILED)])
    assert found is last.record
    assert own_task.last_success([over(5, TaskPhase.FAILED)]) is None


class Host:
    """A machine that can be upgraded."""

    def __init__(self, needed: str = "", *, fails: bool = False) -> None:
        self.upgraded, self.needed, self.fails = 0, needed, fails

    async def upgrade(self) -> None:
        self.upgraded += 1
        if self.fails:
            raise HostError("no space")

    async def reboot_needed(self) -> str:
        return self.needed

    async def boot_id(self) -> str:
        return "first"

    async def reboot(self) -> None:
        raise NotImplementedError


async def _nothing() -> None:
    """Prove nothing."""


def upgrades(host: Host, lost: str = "", based: list[str] | None = None) -> Upgrades:
    """Return the real performer, on a host whose lock may be lost."""

    def check() -> None:
        if lost:
            raise HostError(lost)

    async def base() -> bool:
        assert based is not None
        based.append("base")
        return True

    return Upgrades(tools_of(host, _nothing, lambda: True, base if based is not None else None), check)


ACTION, ATTEMPT = PackagesAction(upgrade="system"), Attempt("k", 60.0, StepRecord())


@pytest.mark.parametrize("needed", ["", "a new kernel"])
def test_an_upgrade_tells_why_the_host_has_to_reboot_and_keeps_nothing_to_take_back(needed: str) -> None:
    host = Host(needed)
    found = asyncio.run(upgrades(host).perform(ACTION, ATTEMPT))
    assert (found.succeeded, found.inverse, host.upgraded) == (True, b"", 1)
    assert found.evidence.get(REBOOT_NEEDED, "") == needed


def test_what_is_no_package_is_upgraded_after_the_packages_and_not_after_a_failure() -> None:
    based: list[str] = []
    found = asyncio.run(upgrades(Host(), based=based).perform(ACTION, ATTEMPT))
    assert (found.evidence[REBOOT_NEEDED], based) == ("the base system was upgraded", ["base"])
    failed = asyncio.run(upgrades(Host(fails=True), based=based).perform(ACTION, ATTEMPT))
    assert (failed.succeeded, failed.message, based) == (False, "no space", ["base"])
    assert REBOOT_NEEDED not in failed.evidence


def test_nothing_is_upgraded_when_it_is_not_its_turn_any_more() -> None:
    host = Host()
    with pytest.raises(HostError, match="lost"):
        asyncio.run(upgrades(host, lost="the lock was lost").perform(ACTION, ATTEMPT))
    assert host.upgraded == 0


def test_an_upgrade_that_was_interrupted_is_not_tried_again_and_nobody_breaks_one_off() -> None:
    host = Host()
    assert asyncio.run(upgrades(host).settle(ACTION, ATTEMPT)) == WENT_DOWN
    assert host.upgraded == 0
    assert Upgrades.UNBROKEN
