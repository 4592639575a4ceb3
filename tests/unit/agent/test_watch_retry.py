"""What could not be watched is tried again by itself, and not only with the next pass."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nodemanager.agent.drift.watch_retry import WatchRetry
from nodemanager.agent.passes.host_state import HostState
from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.watches import host_watch
from nodemanager.host.watches.inbox import Inbox
from nodemanager.host.watches.paths import PathWatch
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.tasks import end
from support import virtual_time
from support.realtime import Drifts, Kept
from support.root_tree import config_set, needs_root

PLAIN = Backoff(base=1.0, maximum=600.0, jitter=0.0)


class Attempts:
    """Fails as often as it is told, and remembers when it was asked."""

    def __init__(self, *outcomes: bool) -> None:
        self.outcomes = list(outcomes)
        self.host_state = HostState(Drifts(), lambda: datetime.now(UTC), lambda: 0.0)
        self.times: list[float] = []
        self.reports: list[float] = []

    async def __call__(self) -> bool:
        assert self.outcomes, "nobody should have asked"
        self.times.append(asyncio.get_running_loop().time())
        done = self.outcomes.pop(0)
        self.host_state.shortfalls = () if done else ("no more watches",)
        return done

    def watch_retry(self) -> WatchRetry:
        def report() -> None:
            self.reports.append(asyncio.get_running_loop().time())

        return WatchRetry(self, self.host_state, report, PLAIN)


@virtual_time.test
async def test_it_is_tried_again_until_it_works() -> None:
    attempts = Attempts(False, False, False, True, True, False, True)
    watch_retry = attempts.watch_retry()
    running = asyncio.create_task(watch_retry.run())
    await asyncio.sleep(100)
    assert attempts.times == []  # there was no pass yet
    await watch_retry.follow()
    await asyncio.sleep(1000)
    assert attempts.times == [100, 101, 103, 107]
    assert attempts.reports == [107]  # the pass tells what it found itself
    await watch_retry.follow()
    await asyncio.sleep(1000)
    await watch_retry.follow()
    await asyncio.sleep(1000)
    assert attempts.times[4:] == [1100, 2100, 2101]
    assert attempts.reports == [107, 2101]
    await end([running])


@virtual_time.test
async def test_a_pass_in_between_ends_it() -> None:
    attempts = Attempts(False, False, True)
    watch_retry = attempts.watch_retry()
    running = asyncio.create_task(watch_retry.run())
    await watch_retry.follow()
    await asyncio.sleep(2)
    await watch_retry.follow()
    await asyncio.sleep(1000)
    assert attempts.times == [0, 1, 2]
    assert attempts.reports == []
    await end([running])


@needs_root
async def test_drift_is_undone_again_once_there_are_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = ["no inotify instance"] * 3

    class Scarce(PathWatch):
        def __init__(self, tree: Tree, inbox: Inbox) -> None:
            if refusals:
                raise HostError(refusals.pop())
            super().__init__(tree, inbox)

    monkeypatch.setattr(host_watch, "PathWatch", Scarce)
    motd = tmp_path / "motd"
    async with Kept(tmp_path) as kept:
        watch_retry = WatchRetry(kept.loop.follow, kept.host_state, kept.report, Backoff(base=0.01))
        await kept.converge(config_set("s", files=[{"path": str(motd), "content": "hello"}]))
        assert list(kept.host_state.shortfalls or ()) == ["no inotify instance"]
        running = asyncio.create_task(watch_retry.run())
        await watch_retry.follow()  # the last that a pass does
        motd.write_text("bye")
        await kept.until(lambda: motd.read_text() == "hello")
        assert kept.host_state.shortfalls == ()
        await end([running])
