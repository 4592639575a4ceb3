"""Storms: however much happens, it costs little, and nothing that matters is missed in the end."""

from __future__ import annotations

import asyncio
import errno
import os
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodemanager.host.watches import inotify
from support.root_tree import needs_root
from support.watched import Watched

pytestmark = [needs_root, pytest.mark.timeout(300)]
MANY = 100_000
MIB = 1024 * 1024


@contextmanager
def bounded(mebibytes: float) -> Iterator[None]:
    """Fail if more memory than so is taken at any time."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < mebibytes * MIB


def queue_length() -> int:
    """Return how many events the kernel keeps for a reader."""
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_a_file_that_is_written_all_the_time(tmp_path: Path) -> None:
    async with Watched(tmp_path, "/busy", "/calm") as watched:
        watched.at("/calm").write_text("")
        pen = os.open(watched.at("/busy"), os.O_CREAT | os.O_WRONLY)
        await watched.seen()
        told = 0
        with bounded(4):
            reader = asyncio.create_task(watched.watch.touched())
            for number in range(MANY):
                os.pwrite(pen, b"x", 0)
                if number % 100 == 0:
                    await asyncio.sleep(0)
                if reader.done():
                    told += 1
                    reader = asyncio.create_task(watched.watch.touched())
            reader.cancel()
            watched.at("/calm").chmod(0o600)
            assert "/calm" in await watched.paths()
        os.close(pen)
        assert told < MANY / 100


async def test_neighbours_that_come_and_go_concern_nobody(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    async with Watched(tmp_path, "/log/ours", {"path": "/log", "ensure": "directory"}) as watched:
        with bounded(4):
            for number in range(10_000):
                place = watched.at(f"/log/neighbour-{number % 50}")
                place.write_text("line")
                place.unlink()
                if number % 500 == 0:
                    assert await watched.paths() == set()
        watched.at("/log/ours").write_text("")
        assert await watched.paths() == {"/log/ours"}


async def test_neighbours_that_are_written_wake_nobody(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/neighbour").write_text("")
    (tmp_path / "log/ours").write_text("")
    async with Watched(tmp_path, "/log/ours", {"path": "/log", "ensure": "directory"}) as watched:
        kernel = watched.watch._paths._kernel  # type: ignore[union-attr]
        with (tmp_path / "log/neighbour").open("a") as log:
            for _ in range(1000):
                log.write("line\n")
                log.flush()
        assert list(kernel.read()) == []


async def test_lost_events_are_everything_and_nothing_is_missed_after(tmp_path: Path) -> None:
    """The queue is longer than nobody reads for a moment; then the tree is another one."""
    limit = queue_length()
    (tmp_path / "a").mkdir()
    async with Watched(tmp_path, "/a/file") as watched:
        one, two = watched.at("/a/one"), watched.at("/a/two")
        one.write_text("")
        for _ in range(limit // 2 + 10):
            one.rename(two)
            two.rename(one)
        watched.at("/a").rename(watched.at("/old"))
        watched.at("/a").mkdir()
        watched.at("/a/file").write_text("")
        assert (await watched.watch.touched()).everything
        await watched.seen()
        watched.at("/a/file").write_text("more")
        assert await watched.paths() == {"/a/file"}


async def test_what_cannot_be_watched_is_said_and_the_rest_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = inotify.Inotify.add, set[int]()

    def limited(self: inotify.Inotify, folder: int, name: str, mask: int) -> int:
        watch = real(self, folder, name, mask)
        if watch not in seen and len(seen) >= 8:
            self.remove(watch)
            raise OSError(errno.ENOSPC, "No space left on device")
        seen.add(watch)
        return watch

    paths = [f"/{number}" for number in range(20)]
    for path in paths:
        (tmp_path / path.lstrip("/")).write_text("")
    async with Watched(tmp_path) as watched:
        monkeypatch.setattr(inotify.Inotify, "add", limited)
        await watched.follow(*paths)
        [said] = watched.watch.shortfalls
        assert "fs.inotify.max_user_watches" in said
        watched.at("/7").unlink()
        assert await watched.paths() == {"/7"}
        monkeypatch.setattr(inotify.Inotify, "add", real)
        await watched.follow(*paths)
        assert watched.watch.shortfalls == ()
        for path in paths:
            watched.at(path).write_text("x")
        assert await watched.paths() == set(paths)


async def test_an_idle_watch_takes_no_time(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / str(number)).write_text("")
    async with Watched(tmp_path, *(f"/{number}" for number in range(1000))) as watched:
        waiting = asyncio.create_task(watched.watch.touched())
        await asyncio.sleep(0)
        before = time.process_time()
        await asyncio.wait([waiting], timeout=0.5)
        assert time.process_time() - before < 0.1
        assert not waiting.done()
        waiting.cancel()
