"""A damaged file is refused, or it is right in everything; it is never silently wrong."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from nodemanager.store import backup
from nodemanager.store.base import StoreClosed, StoreError, StoreEvent
from nodemanager.store.sqlite import SqliteStore
from support import examples
from support.stores import FAST, contents, opened, take

Everything = tuple[dict[str, tuple[bytes, int, int]], Sequence[StoreEvent]]
THOROUGH = settings(
    max_examples=examples.some(75), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


async def everything(store: SqliteStore) -> Everything:
    after = store.compacted
    return contents(store), await take(store.watch("/", after), store.revision - after)


@functools.cache
def sample() -> tuple[bytes, Everything]:
    """A file with everything in it: long and short values, old events, and pages that are free."""

    async def make(folder: Path) -> Everything:
        async with opened(folder) as store:
            for n in range(40):
                await store.create(f"/a/{n}", bytes([n]) * (10_000 if n % 10 == 0 else 50 + n))
            for n in range(0, 40, 3):
                await store.update(f"/a/{n}", b"new" * n, n + 2)
            for n in range(1, 40, 3):
                await store.delete(f"/a/{n}", n + 2)
            await store.compact(45)
            return await everything(store)

    with tempfile.TemporaryDirectory() as folder:
        truth = asyncio.run(make(Path(folder)))
        return (Path(folder) / "store.db").read_bytes(), truth


places = st.integers(0, len(sample()[0]) - 1)


async def judge(folder: Path, truth: Everything) -> None:
    """Open a damaged file: it is refused, or right, and stays right when it is written."""
    try:
        store = await SqliteStore.open(folder / "store.db", FAST)
    except StoreError as refused:
        event(type(refused).__name__)
        return
    event("right")
    try:
        assert await everything(store) == truth
        with contextlib.suppress(StoreClosed):
            await store.create("/b/new", bytes(6000))
        expected = await everything(store)
    finally:
        await store.close()
    with contextlib.suppress(StoreError):
        async with opened(folder) as again:
            assert await everything(again) == expected


def check(damaged: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "store.db").write_bytes(damaged)
        with contextlib.suppress(StoreError):
            assert backup.verify(Path(folder) / "store.db").objects == len(sample()[1][0])
        asyncio.run(judge(Path(folder), sample()[1]))


@given(places, st.integers(1, 255))
@THOROUGH
def test_a_flipped_byte(place: int, flip: int) -> None:
    data = bytearray(sample()[0])
    data[place] ^= flip
    check(bytes(data))


@given(places, st.sampled_from([16, 512, 4096]), st.sampled_from([0, 255]))
@THOROUGH
def test_an_overwritten_block(place: int, size: int, filling: int) -> None:
    data = bytearray(sample()[0])
    start = place - place % size
    data[start : start + size] = bytes([filling]) * len(data[start : start + size])
    check(bytes(data))


@given(places)
@THOROUGH
def test_a_file_that_was_cut(place: int) -> None:
    check(sample()[0][:place])


@given(st.integers(0, len(sample()[0]) // 4096 - 1), st.integers(0, len(sample()[0]) // 4096 - 1))
@THOROUGH
def test_pages_that_changed_places(one: int, other: int) -> None:
    data = bytearray(sample()[0])
    first, second = slice(one * 4096, one * 4096 + 4096), slice(other * 4096, other * 4096 + 4096)
    data[first], data[second] = data[second], data[first]
    check(bytes(data))
