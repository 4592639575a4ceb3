"""Both stores behind one door, and the small things their tests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from nodemanager.store.base import Store, StoreEvent, Subscription
from nodemanager.store.sqlite import SqliteOptions, SqliteStore
from support.memory_store import MemoryStore

TWINS = ("memory", "sqlite")
FAST = SqliteOptions(synchronous="OFF")
"""For tests that kill nobody: what is tested is the same, and the disk is not."""


async def open_store(twin: str, folder: Path, options: SqliteOptions = FAST) -> Store:
    """Open one of the twins."""
    if twin == "memory":
        return MemoryStore(retention=options.retention, buffer=options.buffer, now=options.now)
    return await SqliteStore.open(folder / "store.db", options)


@asynccontextmanager
async def opened(folder: Path, options: SqliteOptions = FAST) -> AsyncIterator[SqliteStore]:
    """A durable store in a folder, closed at the end."""
    store = await SqliteStore.open(folder / "store.db", options)
    try:
        yield store
    finally:
        await store.close()


async def take(watch: Subscription, count: int) -> Sequence[StoreEvent]:
    """Return the next events of a watch, which must be exactly as many."""
    events: list[StoreEvent] = []
    async with asyncio.timeout(30):
        while len(events) < count:
            events.extend(await watch.next())
    assert len(events) == count
    return events


def contents(store: Store) -> dict[str, tuple[bytes, int, int]]:
    """Return everything that is in a store."""
    return {r.key: (r.value, r.created, r.revision) for r in store.list("/").records}


def names(events: Sequence[StoreEvent]) -> list[str]:
    """Return events as `kind key@revision`."""
    return [f"{event.kind.value} {event.record.key}@{event.record.revision}" for event in events]


def file_names(folder: Path) -> list[str]:
    """Return what is in a folder."""
    return sorted(path.name for path in folder.iterdir())
