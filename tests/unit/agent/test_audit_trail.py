"""What the agent records: drifts summed up, off the event loop, and whatever the disk does."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.audit import trail_writer
from nodemanager.agent.audit.audit_trail import HOUR, LOOK, MAX_TASKS, AuditTrail
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Actor, Record
from nodemanager.api.common.managednode import DriftRecord, ManagedNodeStatus
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.api.maintenance.task_steps import ExecutionAction, TaskStep
from nodemanager.fleet.audit import host_chains
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.host.state.host_chain import HostChain
from nodemanager.plan import resources
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskRecord
from support import virtual_time

DRIFT = DriftRecord(sequence=1, time="2026-01-01T00:00:00Z", resource="file:/etc/motd", outcome="repaired")
DAY = 24 * HOUR


def recorded(root: Path) -> list[Record]:
    return [records.decode(line) for line in (root / "state/audit.chain").read_bytes().splitlines()]


def task(attempts: int = 1, uid: str = "u") -> Entry:
    step = TaskStep(name="a", execution=ExecutionAction(argv=["true"]))
    done = StepRecord(phase=StepPhase.FAILED, attempts=attempts)
    return Entry("t", NodeTaskSpec(steps=[step]), TaskRecord(uid, steps=(done,)))


def said(trail: AuditTrail, before: ManagedNodeStatus | None = None) -> ManagedNodeStatus:
    return trail.contribute(before or ManagedNodeStatus(), datetime.now(UTC), 1)


def reasons(status: ManagedNodeStatus) -> list[tuple[str, str]]:
    return [(one.status, one.reason) for one in status.conditions]


async def ended(running: asyncio.Task[None]) -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_drifts_of_an_hour_are_two_records_unless_asked(tmp_path: Path) -> None:
    now = [0.0]
    for every, counts in ((False, [1, 5, 1]), (True, [1] * 7)):
        root = tmp_path / str(every)
        root.mkdir()
        trail = AuditTrail(str(root), "/state", "web1", every_drift=every, clock=lambda: now[0])
        for _ in range(6):
            trail.drifted(DRIFT)
        now[0] += HOUR
        trail.drifted(DRIFT)
        asyncio.run(trail.settle())
        assert [one.count for one in recorded(root) if one.verb == "repair"] == counts
        trail.close()


async def test_nothing_touches_the_disk_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a lock nor a write nor a sync, of whatever is recorded, told, or left at the end."""
    callers: dict[str, set[int]] = {}

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            callers.setdefault(name, set()).add(threading.get_ident())
            return real(*args, **more)

        return call

    for module, name in ((os, "write"), (os, "fsync"), (os, "open"), (os, "ftruncate"), (fcntl, "flock")):
        monkeypatch.setattr(module, name, noting(name, getattr(module, name)))
    trail = AuditTrail(str(tmp_path), "/state", "web1")
    running = asyncio.ensure_future(trail.run())
    trail.task(task())
    trail.upgraded("UpgradeStarted")
    await trail.settle()
    assert said(trail).audit_chain is not None
    trail.changed((), [Result(resources.file_id("/etc/motd"), ("a",), ResourceOutcome.CHANGED)])
    trail.drifted(DRIFT)
    said(trail)
    await ended(running)
    trail.close()
    assert [one.verb for one in recorded(tmp_path)] == ["begin", "begin", "end", "begin", "apply", "repair"]
    assert set(callers) == {"write", "fsync", "open", "ftruncate", "flock"}
    loop = threading.get_ident()
    assert not [name for name, found in callers.items() if loop in found]


async def test_a_process_that_stopped_in_a_write_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail_writer, "MOMENT", 0.05)
    now, other = [0.0], HostChain(str(tmp_path), "/state", "web1")
    other.append([Record(verb="hold")])
    trail = AuditTrail(str(tmp_path), "/state", "web1", clock=lambda: now[0])
    await trail.settle()
    with other._locked():
        trail.task(task())
        await trail.settle()
        await asyncio.wait({trail._writer._writer()})
        bad = said(trail)
        assert reasons(bad) == [("False", "CannotRecord")]
        assert bad.audit_chain is not None
        assert bad.audit_chain.size == 2, "what was last synced"
        writing = trail._writer._writing
        await trail.settle()
        assert trail._writer._writing is writing, "it is not tried again at once"
    now[0] += trail_writer.RETRY
    trail.upgraded("Upgraded")
    await trail.settle()
    assert [one.aspect for one in recorded(tmp_path)][2:] == ["task", "step/a", "upgrade"]
    assert reasons(said(trail, bad)) == [("True", "Written")]
    trail.close()
    other.close()


async def test_records_keep_their_order_whoever_has_them_written(tmp_path: Path) -> None:
    trail = AuditTrail(str(tmp_path), "/state", "web1", every_drift=True)
    waiting = []
    for number in range(60):
        trail.drifted(msgspec.structs.replace(DRIFT, resource=f"file:/{number}"))
        if number % 3 == 0:
            trail.upgraded("Upgraded")
        waiting.append(asyncio.ensure_future(trail.settle()))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    drifts = [one.aspect for one in recorded(tmp_path) if one.verb == "repair"]
    assert drifts == [f"file:/{number}" for number in range(60)]
    assert not host_chains.check([], (tmp_path / "state/audit.chain").read_bytes().splitlines())
    trail.close()


async def test_a_disk_that_takes_nothing_is_said_and_then_told(tmp_path: Path) -> None:
    now = [0.0]
    (tmp_path / "state").write_text("in the way")
    trail = AuditTrail(str(tmp_path), "/state", "web1", clock=lambda: now[0])
    for _ in range(trail_writer.MAX_WAITING + 5):
        trail.upgraded("Upgraded")
    await trail.settle()
    bad = said(trail)
    assert reasons(bad) == [("False", "CannotRecord")]
    (tmp_path / "state").unlink()
    now[0] += trail_writer.RETRY
    await trail.settle()
    good = said(trail, bad)
    assert reasons(good) == [("True", "Written")]
    assert good.audit_chain is not None
    found = recorded(tmp_path)
    assert [one.verb for one in found[:3]] == ["begin", "lost", "end"]
    assert (found[1].count, len(found)) == (5, 2 + trail_writer.MAX_WAITING)
    trail.close()


async def test_a_mistake_of_ours_costs_records_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    trail = AuditTrail(str(tmp_path), "/state", "web1", clock=lambda: now[0])

    def fails(*_: object) -> None:
        raise ValueError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(HostChain, "append", fails)
        trail.drifted(DRIFT)
        await trail.settle()
    assert [one.message for one in said(trail).conditions] == ["ValueError, see the log"]
    now[0] += trail_writer.RETRY
    await trail.settle()
    assert [(one.verb, one.count) for one in recorded(tmp_path)][1:] == [("lost", 1)]
    assert said(trail).conditions == []
    trail.close()


@pytest.mark.parametrize("how", ["restored", "removed", "replaced"])
async def test_a_state_folder_from_a_backup_is_told_once_and_stops_nothing(tmp_path: Path, how: str) -> None:
    first = AuditTrail(str(tmp_path), "/state", "web1")
    first.upgraded("UpgradeStarted")
    await first.settle()
    shutil.copytree(tmp_path / "state", tmp_path / "backup")
    first.upgraded("Upgraded")
    await first.settle()
    told = said(first)
    assert told.conditions == []
    first.close()
    shutil.rmtree(tmp_path / "state")
    if how == "restored":
        shutil.copytree(tmp_path / "backup", tmp_path / "state")
    elif how == "replaced":
        other = HostChain(str(tmp_path), "/state", "web1")
        other.append([Record(verb="hold")] * 9)
        other.close()
    trail = AuditTrail(str(tmp_path), "/state", "web1")
    await trail.settle()
    now = said(trail, told)
    assert reasons(now) == [("False", "ChainReplaced")]
    assert said(trail, told) == now, "a conflict has it said again, not recorded again"
    await trail.settle()
    assert [one.verb for one in recorded(tmp_path)].count("replaced") == 1
    trail.upgraded("Upgraded")
    await trail.settle()
    assert said(trail, now).audit_chain is not None
    assert recorded(tmp_path)[-1].reason == "Upgraded"
    trail.close()


def test_what_is_done_by_hand_is_told_without_a_pass_and_not_again(tmp_path: Path) -> None:
    async def story() -> list[int]:
        asked: list[int] = []
        trail = AuditTrail(str(tmp_path), "/state", "web1", ask=lambda: asked.append(len(recorded(tmp_path))))
        running = asyncio.create_task(trail.run())
        await trail.settle()
        other = HostChain(str(tmp_path), "/state", "web1")
        for verb in ("hold", "unhold"):
            await asyncio.sleep(2 * LOOK)
            other.append([Record(verb=verb, actor=Actor(name="root"))])
            await asyncio.sleep(4 * LOOK)
            await trail.settle()  # as the status does that was asked for
        told = [records.decode(line).verb for line in said(trail).audit_records]
        assert told == ["begin", "hold", "unhold"]
        await ended(running)
        other.close()
        trail.close()
        return asked

    assert virtual_time.run(story()) == [2, 3]


async def test_tasks_that_never_end_are_forgotten(tmp_path: Path) -> None:
    trail = AuditTrail(str(tmp_path), "/state", "web1")
    for number in range(MAX_TASKS + 9):
        trail.task(task(uid=str(number)))
    await trail.settle()
    assert len(trail._tasks) == MAX_TASKS
    trail.close()


@pytest.mark.parametrize(("every", "expected"), [(None, 0), (HOUR * 25, 4), (60.0, 28)])
def test_a_day_wears_out_no_memory_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float | None, expected: int
) -> None:
    """How often a day syncs the disk: of a quiet host, with one drift, and with one a minute."""
    syncs: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        syncs.append(descriptor)
        real(descriptor)

    async def day() -> None:
        loop = asyncio.get_running_loop()
        trail = AuditTrail(str(tmp_path), "/state", "web1", clock=loop.time)
        running = asyncio.ensure_future(trail.run())
        while loop.time() < DAY:
            if every is not None:
                trail.drifted(DRIFT)
            await asyncio.sleep(5)
            await trail.settle()  # as the status does
            await asyncio.sleep((every or 60.0) - 5)
        await ended(running)
        trail.close()

    monkeypatch.setattr(os, "fsync", fsync)
    virtual_time.run(day())
    assert len(syncs) == expected
