"""The log of a crashed store: replayed when it is whole, refused when it would lose what was acknowledged."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from nodemanager.store import backup, wal
from nodemanager.store.base import StoreCorrupt
from nodemanager.store.sqlite import SqliteStore
from support import examples
from support.stores import FAST, contents, opened

Contents = dict[str, tuple[bytes, int, int]]
FRAME = 24 + 4096


async def crashed(folder: Path, *, emptied: bool = False) -> tuple[bytes, bytes, list[Contents]]:
    """Return a database, its log, and its contents at each revision, as a killed process leaves them."""
    async with opened(folder) as store:
        for n in range(12):
            await store.create(f"/a/{n}", bytes([n]) * 3000)
            if emptied and n == 7:
                store._database._connection.execute("PRAGMA wal_checkpoint(RESTART)")
        past = [
            {},
            *(
                {r.key: (r.value, r.created, r.revision) for r in at.records}
                for at in (store.list("/", revision=rev) for rev in range(1, 14))
            ),
        ]
        return (folder / "store.db").read_bytes(), (folder / "store.db-wal").read_bytes(), past


@functools.cache
def sample() -> tuple[bytes, bytes, list[Contents]]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(crashed(Path(folder)))


def lay(folder: Path, database: bytes, log: bytes) -> Path:
    (folder / "store.db").write_bytes(database)
    (folder / "store.db-wal").write_bytes(log)
    return folder / "store.db"


async def read(path: Path) -> tuple[int, Contents]:
    store = await SqliteStore.open(path)
    await store.close()
    return store.revision, contents(store)


@pytest.mark.parametrize("emptied", [False, True])
async def test_the_whole_log_is_replayed(tmp_path: Path, emptied: bool) -> None:
    (tmp_path / "first").mkdir()
    database, log, past = await crashed(tmp_path / "first", emptied=emptied)
    assert await read(lay(tmp_path, database, log)) == (13, past[13])


async def test_a_torn_last_transaction_is_dropped(tmp_path: Path) -> None:
    database, log, past = sample()
    assert await read(lay(tmp_path, database, log[:-10])) == (12, past[12])


async def test_a_last_transaction_that_reached_the_disk_in_parts_is_dropped(tmp_path: Path) -> None:
    database, log, past = sample()
    assert await read(lay(tmp_path, database, log[:-10] + bytes([log[-10] ^ 1]) + log[-9:])) == (12, past[12])


async def test_a_log_that_was_just_begun_is_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create("/a/x", b"")
    (tmp_path / "store.db-wal").write_bytes(sample()[1][:10])
    wal.check(tmp_path / "store.db")
    assert (await read(tmp_path / "store.db"))[0] == 2


async def test_damage_before_the_last_transaction_is_refused_and_stays_so(tmp_path: Path) -> None:
    database, log, _ = sample()
    damaged = bytearray(log)
    damaged[32 + FRAME * 3 + 100] ^= 1
    path = lay(tmp_path, database, bytes(damaged))
    for _ in range(2):  # the first refusal must not have taken the evidence away
        with pytest.raises(StoreCorrupt, match=r"its -wal file is damaged: \d+ transactions are behind"):
            await SqliteStore.open(path)
        with pytest.raises(StoreCorrupt, match="its -wal file is damaged"):
            backup.backup(path, tmp_path / "copy.db")


async def test_a_restore_keeps_the_damaged_log_beside_the_old_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create("/a/x", b"")
    backup.backup(tmp_path / "store.db", tmp_path / "copy.db")
    database, log, _ = sample()
    damaged = b"x" + log[1:]
    path = lay(tmp_path, database, damaged)
    with pytest.raises(StoreCorrupt, match="its header does not fit its checksum"):
        await SqliteStore.open(path)
    aside = backup.restore(tmp_path / "copy.db", path)
    assert aside is not None
    assert aside.with_name(aside.name + "-wal").read_bytes() == damaged
    assert list((await read(path))[1]) == ["/a/x"]


@given(st.integers(0, len(sample()[1]) - 1), st.integers(1, 255))
@settings(max_examples=examples.some(75), deadline=None)
def test_a_flipped_byte_costs_at_most_what_a_power_cut_could(place: int, flip: int) -> None:
    database, log, past = sample()
    damaged = bytearray(log)
    damaged[place] ^= flip
    with tempfile.TemporaryDirectory() as folder:
        path = lay(Path(folder), database, bytes(damaged))
        try:
            revision, found = asyncio.run(read(path))
        except StoreCorrupt:
            event("refused")
            return
    event(f"revision {revision}")
    assert revision in {12, 13}
    assert found == past[revision]


def test_with_less_than_full_durability_the_log_is_not_judged(tmp_path: Path) -> None:
    database, log, past = sample()
    damaged = bytearray(log)
    damaged[32 + FRAME * 5 + 100] ^= 1
    path = lay(tmp_path, database, bytes(damaged))

    async def read_relaxed() -> Contents:
        store = await SqliteStore.open(path, FAST)
        await store.close()
        return contents(store)

    assert asyncio.run(read_relaxed()) in past
