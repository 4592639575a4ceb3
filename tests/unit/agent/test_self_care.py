"""What the service manager is told, and when."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nodemanager.agent.drift.drift_log import MAX_RECENT, DriftLog
from nodemanager.agent.link.api_reachability import ApiReachability, SecretLimits, UnixClocks
from nodemanager.agent.report.local_status import Board
from nodemanager.agent.report.status import Pass, of_pass
from nodemanager.agent.report.status_sources import LastPass, of_drifts, of_process, of_reachability, stamp
from nodemanager.agent.self_care import ServiceReporter, Settler
from nodemanager.api.common.managednode import Drift, DriftRecord, ManagedNodeStatus
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectKey
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import parse_id
from nodemanager.runtime import controller
from nodemanager.runtime.sd_notify import Notifications
from nodemanager.runtime.tasks import end
from support.root_tree import config_set

KEY = ObjectKey("nodemanager", "web1")


class Inbox:
    """The socket of a service manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    async def next(self) -> str:
        async with asyncio.timeout(50):
            return (await asyncio.get_running_loop().sock_recv(self.socket, 4096)).decode()

    async def until(self, word: str) -> list[str]:
        """Return what comes up to a word."""
        said = [await self.next()]
        while said[-1] != word:
            said.append(await self.next())
        return said


@pytest.fixture
def inbox(short_path: Path) -> Iterator[Inbox]:
    made = Inbox(short_path / "notify")
    yield made
    made.socket.close()


class StatusGiven:
    """The status of a host, as a test says."""

    def __init__(self, *results: Result) -> None:
        self.sets = [config_set("a")]
        self.results = results

    def __call__(self) -> ManagedNodeStatus:
        done = Pass(self.sets, {}, self.results, Drift())
        return of_pass(ManagedNodeStatus(), done, datetime.now(UTC), 1)


def made() -> tuple[Board, LastPass, StatusGiven]:
    board, given = Board(), StatusGiven()
    last = LastPass(KEY, board.changed, given, Desired)
    board.plug(last.fill)
    return board, last, given


async def test_ready_comes_with_the_end_of_the_first_pass(inbox: Inbox) -> None:
    board, last, given = made()
    reporter = ServiceReporter(Notifications(str(inbox.path)), board, lambda: last.over, patience=60, pause=0)
    running = asyncio.create_task(reporter.run())
    assert (await inbox.next()).startswith("STATUS=")

    async def reconcile(_: ObjectKey) -> None:
        """Do a pass."""

    await last.timed(reconcile)(ObjectKey(KEY.namespace, "web1/status"))  # which is none
    assert not last.over
    await last.timed(reconcile)(KEY)
    assert await inbox.until("READY=1") == ["READY=1"]
    assert await inbox.next() == "STATUS=1 ConfigSet, 0 resources: all as declared; API unknown"
    await last.timed(reconcile)(KEY)  # nothing new: nothing is said
    given.results = (Result(parse_id("file:/x"), ("a",), ResourceOutcome.FAILED, "no space"),)
    board.changed()
    said = "STATUS=1 ConfigSet, 0 resources: does not hold: Ready: file:/x: no space; API unknown"
    assert await inbox.next() == said
    await end([running])


@pytest.mark.parametrize("jump", [7200, -7200])
async def test_a_clock_that_is_set_moves_no_pass(jump: int) -> None:
    board, wall, steady = Board(), [1_800_000_000.0], [1000.0]
    clocks = UnixClocks(lambda: wall[0], lambda: steady[0])
    last = LastPass(KEY, board.changed, StatusGiven(), Desired, clocks)
    board.plug(of_process("web1", "n", "/", clocks))
    board.plug(last.fill)

    async def reconcile(_: ObjectKey) -> controller.ReconcileResult:
        steady[0] += 5
        wall[0] += 5 + jump  # in the middle of a pass
        assert board.snapshot().passes.running_since == stamp(wall[0] - 5)
        return controller.ReconcileResult(600.0)

    await last.timed(reconcile)(KEY)
    steady[0] += 1
    wall[0] += 1 - jump  # and back
    found = board.snapshot()
    assert (found.started, found.time) == (stamp(wall[0] - 6), stamp(wall[0]))
    assert (found.passes.last, found.passes.next) == (stamp(wall[0] - 1), stamp(wall[0] + 599))
    assert found.passes.seconds == 5


async def test_an_api_that_is_gone_holds_nobody_back(inbox: Inbox) -> None:
    board, last, _ = made()
    reporter = ServiceReporter(Notifications(str(inbox.path)), board, lambda: last.over, patience=0.05)
    running = asyncio.create_task(reporter.run())
    reporter.reload()  # before that, it would be taken for READY
    assert [one.partition("=")[0] for one in await inbox.until("READY=1")] == ["STATUS", "READY"]
    await inbox.next()
    reporter.reload()
    assert (await inbox.next()).startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert await inbox.next() == "READY=1"
    await end([running])


async def test_a_pass_under_way_was_not_broken_off_and_one_that_is_stopped_was() -> None:
    board, last, _ = made()
    begun = asyncio.Event()

    async def takes_long(_: ObjectKey) -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.ensure_future(last.timed(takes_long)(KEY))
    await begun.wait()
    assert board.snapshot().passes.running_since
    assert board.snapshot().passes.error == ""
    await end([running])
    assert board.snapshot().passes.error == "it was stopped"


async def test_a_pass_that_fails_is_told_with_its_reason_and_when_it_is_tried_again() -> None:
    board, last, _ = made()

    async def fails(_: ObjectKey) -> None:
        raise OSError("the disk is full")

    async def works(_: ObjectKey) -> controller.ReconcileResult:
        assert board.snapshot().passes.running_since
        return controller.ReconcileResult(600.0)

    async def waits(_: ObjectKey) -> None:
        raise controller.Retry(1.0, "somebody was faster")

    with pytest.raises(OSError, match="full"):
        await last.timed(fails)(KEY)
    assert board.snapshot().passes.error == "the disk is full"
    assert board.snapshot().passes.next is None
    await last.timed(works)(KEY)
    passes = board.snapshot().passes
    assert (passes.error, passes.running_since) == ("", None)
    assert passes.next is not None
    assert passes.last is not None
    assert passes.next > passes.last
    with pytest.raises(controller.Retry):
        await last.timed(waits)(KEY)
    assert board.snapshot().passes.error == ""


def test_how_we_stand_with_the_api_is_told_with_every_change(tmp_path: Path) -> None:
    now = [1.7e9]
    board, clocks = Board(), UnixClocks(lambda: now[0], lambda: now[0])
    reachability = ApiReachability(Vault(str(tmp_path)), SecretLimits(), clocks, board.changed)
    board.plug(of_reachability(reachability, "https://api"))
    seen = []
    acts: list[Callable[[], None]] = [
        lambda: None, reachability.reached, reachability.reached, lambda: reachability.failed("no route"),
        lambda: reachability.failed("no route"), reachability.reached,
        lambda: reachability.was_refused("401"), lambda: reachability.was_refused("401"),
    ]  # fmt: skip
    for act in acts:
        act()
        now[0] += 10
        seen.append((board.snapshot().api.state, board.version))
    assert seen == [
        ("unknown", 0), ("connected", 1), ("connected", 1), ("alone", 2), ("alone", 2), ("connected", 3),
        ("connected", 3), ("refused", 4),
    ]  # fmt: skip
    api = board.snapshot().api
    remedy = (
        "nodemanager rbac and nodemanager token where you administer the API, then nodemanager bootstrap here"
    )
    assert (api.why, api.server) == (f"401; to let this host in again: {remedy}", "https://api")
    assert api.since is not None
    assert api.last_contact is not None
    assert api.since > api.last_contact
    reachability.close()


def test_drifts_that_nobody_has_heard_of_are_told_too(tmp_path: Path) -> None:
    log = DriftLog(str(tmp_path))
    log.add(DriftRecord(time="2026-01-01T00:00:00Z", resource="file:/a", outcome="repaired"))
    log.flush()
    drift = Board(of_drifts(log)).snapshot().drift
    assert (drift.repaired, drift.unreported, [one.resource for one in drift.recent]) == (1, 1, ["file:/a"])
    log.adopt(None)
    log.flush()
    log.reported(1)
    drift = Board(of_drifts(log)).snapshot().drift
    assert (drift.repaired, drift.unreported, [one.resource for one in drift.recent]) == (1, 0, ["file:/a"])
    log.close()


@pytest.mark.parametrize("jump", [7200.0, -7200.0, -1.7e9])
def test_a_clock_that_is_set_moves_no_drift(jump: float, tmp_path: Path) -> None:
    wall, steady = [1_800_000_000.0], [1000.0]
    clocks = UnixClocks(lambda: wall[0], lambda: steady[0])
    log = DriftLog(str(tmp_path), clock=clocks.steady)
    for number in range(MAX_RECENT + 1):
        record = DriftRecord(time=stamp(wall[0]) or "", resource=f"file:/{number}", outcome="repaired")
        log.add(record)
        steady[0] += 10
        wall[0] += 10 + (jump if number == MAX_RECENT - 1 else 0)
    log.adopt(Drift(sequence=5, recent=[DriftRecord(sequence=5, time="2026-01-01T00:00:00Z")]))
    drift = Board(of_drifts(log, clocks)).snapshot().drift
    assert [one.time for one in drift.recent] == [stamp(wall[0] - 10 * n) for n in range(MAX_RECENT, 0, -1)]
    assert drift.last_time == stamp(wall[0] - 10)
    log.close()
    again = DriftLog(str(tmp_path), clock=clocks.steady)  # all that it knows is what was written
    found = Board(of_drifts(again, clocks)).snapshot().drift.recent
    assert [one.time for one in found] == [one.time for one in again.newest(MAX_RECENT)]
    again.close()


async def test_memory_is_given_back_once_and_then_now_and_then() -> None:
    loop, times = asyncio.get_running_loop(), []
    began, thrice = loop.time(), asyncio.Event()

    def settle() -> None:
        times.append(loop.time() - began)
        if len(times) == 3:
            thrice.set()

    task = asyncio.ensure_future(Settler(settle, (0.01, 0.03)).run())
    async with asyncio.timeout(50):
        await thrice.wait()
    await end([task])
    assert times[0] >= 0.01
    assert times[2] >= 0.01 + 2 * 0.03
