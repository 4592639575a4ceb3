"""How controllers hear of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from nodemanager.server.collection.following import RETRY_SECONDS, StoreFollower
from support import virtual_time
from support.memory_store import MemoryStore


@virtual_time.test
async def test_everything_first_then_what_changed_below_the_prefixes() -> None:
    store, seen = MemoryStore(), []
    await store.create("/a/x", b"1")

    async def act(changed: Collection[str] | None) -> None:
        seen.append(None if changed is None else sorted(changed))

    task = asyncio.create_task(StoreFollower(store, ("/a/", "/b/"), act).run())
    await asyncio.sleep(1)
    assert seen == [None]
    for key in ("/a/y", "/b/z", "/c/other"):
        await store.create(key, b"1")
    await asyncio.sleep(1)
    assert seen == [None, ["/a/y", "/b/z"]]
    task.cancel()
    await asyncio.wait({task})


@virtual_time.test
async def test_who_falls_behind_looks_at_everything_again() -> None:
    store, seen = MemoryStore(buffer=2), []

    async def act(changed: Collection[str] | None) -> None:
        seen.append(changed)

    task = asyncio.create_task(StoreFollower(store, ("/a/",), act).run())
    await asyncio.sleep(1)
    for number in range(9):
        await store.create(f"/a/{number}", b"1")
    await asyncio.sleep(1)
    assert seen == [None, None]
    task.cancel()
    await asyncio.wait({task})


@virtual_time.test
async def test_time_and_failure_bring_it_back(caplog: pytest.LogCaptureFixture) -> None:
    loop, times = asyncio.get_running_loop(), []

    async def act(changed: Collection[str] | None) -> float | None:
        assert changed is None
        times.append(loop.time())
        if len(times) == 2:
            raise ValueError("not this time")
        return 5.0 if len(times) == 1 else None

    started = loop.time()
    task = asyncio.create_task(StoreFollower(MemoryStore(), ("/a/",), act).run())
    await asyncio.sleep(1000)
    assert [at - started for at in times] == [0, 5, 5 + RETRY_SECONDS]
    assert "cannot act on a change: ValueError: not this time" in caplog.text
    task.cancel()
    await asyncio.wait({task})
