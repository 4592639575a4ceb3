"""The file of a durable store gives back what it does not need any more."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nodemanager.store import database, files
from nodemanager.store.base import Store
from nodemanager.store.sqlite import SqliteStore
from support.stores import FAST, contents

LARGE = 300_000
SPARE = database.SPARE_PAGES * 4096


async def rounds(store: Store, count: int) -> None:
    """Make and delete large objects, as whoever applies large CRDs again and again."""
    for number in range(count):
        made = await store.create(f"/large/{number}", os.urandom(LARGE))
        await store.delete(made.key, made.revision)


async def write_a_little(store: Store, count: int = 60) -> None:
    for number in range(count):
        await store.create(f"/small/{store.revision}-{number}", b"{}")


async def open_at(path: Path, now: Callable[[], float]) -> SqliteStore:
    return await SqliteStore.open(path, replace(FAST, now=now))


async def test_what_was_forgotten_takes_no_room(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", [0.0]
    store = await open_at(path, lambda: clock[0])
    await rounds(store, 60)
    clock[0] += 4000  # the past is remembered for an hour
    await write_a_little(store)
    kept = contents(store)
    await store.close()
    assert path.stat().st_size < SPARE * 2 < 60 * LARGE
    store = await open_at(path, lambda: clock[0])
    assert contents(store) == kept
    await store.close()


async def test_what_is_remembered_stays_and_room_for_a_while_is_used_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", [0.0]
    store = await open_at(path, lambda: clock[0])
    await rounds(store, 60)
    await write_a_little(store)
    await store.close()
    assert path.stat().st_size > 60 * LARGE


async def test_a_file_of_an_older_version_learns_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", [0.0]
    store = await open_at(path, lambda: clock[0])
    await rounds(store, 60)
    await store.close()
    with contextlib.closing(files.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    clock[0] += 4000
    store = await open_at(path, lambda: clock[0])
    await write_a_little(store)
    await store.close()
    assert path.stat().st_size < SPARE * 2
