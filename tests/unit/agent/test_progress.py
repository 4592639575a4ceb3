"""A pass that takes long is told from one that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.agent.passes.progress import GRACE, PassProgress
from nodemanager.host.observe import Observer
from nodemanager.host.process import runner
from nodemanager.host.process.threads import in_thread
from nodemanager.plan.desired import Desired
from nodemanager.plan.needs import FileNeeds
from support.memory_host import Host


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[PassProgress, Clock]:
    clock = Clock()
    return PassProgress(limit=100.0, clock=clock), clock


def test_nothing_is_stuck_while_nothing_is_done() -> None:
    progress, clock = made()
    clock.now = 1e9
    assert progress.stuck() is None
    with progress.working():
        assert progress.stuck() is None
    clock.now = 2e9
    assert progress.stuck() is None


def test_a_pass_in_which_nothing_happens_is_stuck() -> None:
    progress, clock = made()
    with progress.working():
        clock.now = 100.0
        assert progress.stuck() is None
        clock.now = 101.0
        assert progress.stuck() == "a pass over this host hangs: nothing has happened in it for 101 s"
        progress.tick()
        assert progress.stuck() is None


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/usr/bin/apt-get", "install", "x"], "apt-get"),
        (["/bin/sh", "-c", "a text of ours", "/var/lib/x/runs/1", "/usr/bin/openssl", "dhparam"], "openssl"),
        (["sh", "-c", "true"], "sh"),
    ],
)
async def test_it_knows_the_name_of_what_runs(argv: list[str], name: str) -> None:
    progress, _ = made()
    seen: list[str] = []

    async def run(argv: Sequence[str], **_: object) -> runner.Completed:
        seen.append(progress.program())
        return runner.Completed(tuple(argv), 0, b"", b"")

    await progress.timed(run)(argv, timeout=1.0)
    assert (seen, progress.program()) == ([name], "")


async def test_a_program_may_take_the_time_that_it_was_given() -> None:
    progress, clock = made()
    seen: list[str | None] = []

    async def run(
        argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b"", timeout: float,
        max_output: int = 0, cwd: str | None = None, finish: bool = False, bounded: bool = False,
    ) -> runner.Completed:  # fmt: skip
        for moment in (3600.0, 3600.0 + GRACE + 1):
            clock.now = moment
            seen.append(progress.stuck())
        return runner.Completed(tuple(argv), 0, b"", b"")

    with progress.working():
        await progress.timed(run)(["apt-get", "install", "x"], timeout=3600.0)
        assert progress.stuck() is None  # its end was progress
    assert seen[0] is None
    assert seen[1] is not None


@given(st.lists(st.tuples(st.sampled_from(["tick", "wait"]), st.floats(0, 250)), max_size=20))
def test_stuck_is_exactly_what_was_quiet_for_longer_than_the_limit(steps: list[tuple[str, float]]) -> None:
    progress, clock = made()
    last = 0.0
    with progress.working():
        for kind, seconds in steps:
            clock.now += seconds
            if kind == "tick":
                last = progress.tick()
            assert (progress.stuck() is not None) == (clock.now - last > 100.0)


async def test_a_thread_that_hangs_in_a_real_pass_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a dead NFS server: the event loop turns, and the pass does not."""
    host = Host(tmp_path)
    clock = Clock()
    host.converger.progress = progress = PassProgress(limit=100.0, clock=clock)
    release, reached = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang() -> None:
        loop.call_soon_threadsafe(reached.set)
        release.wait(100)

    see_files = host.converger.observer.see_files

    async def see(_self: Observer, needed: FileNeeds, *, whole: bool = True) -> object:
        await in_thread(hang)
        return await see_files(needed, whole=whole)

    monkeypatch.setattr(Observer, "see_files", see)
    passing = asyncio.create_task(host.converger.run(Desired(), {}))
    try:
        async with asyncio.timeout(50):
            await reached.wait()
        assert progress.stuck() is None
        clock.now += 101.0
        assert progress.stuck() is not None
    finally:
        release.set()
        await passing
    assert progress.stuck() is None
