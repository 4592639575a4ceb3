"""What every store promises, asked of both: changes, conflicts, pages, the past, and watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.store.base import (
    Compacted,
    EventType,
    FutureRevision,
    KeyExists,
    KeyMissing,
    Mismatch,
    Store,
    StoreClosed,
    StoreRecord,
)
from nodemanager.store.state import Retention
from support.stores import FAST, TWINS, contents, names, open_store, take


@pytest.fixture(params=TWINS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(request.param, tmp_path)
    yield opened
    await opened.close()


async def fill(store: Store, *keys: str) -> list[StoreRecord]:
    return [await store.create(key, key.encode()) for key in keys]


class TestChanges:
    async def test_a_new_store_is_empty_at_a_revision_that_is_not_zero(self, store: Store) -> None:
        assert store.revision == store.compacted == 1
        assert store.list("/").records == []
        assert store.list("/").revision == 1

    async def test_create_takes_the_next_revision(self, store: Store) -> None:
        first, second = await fill(store, "/a/x", "/b/y")
        assert (first.created, first.revision, second.created, second.revision) == (2, 2, 3, 3)
        assert store.get("/a/x") == StoreRecord("/a/x", b"/a/x", 2, 2)
        assert store.revision == 3

    async def test_update_keeps_when_it_was_created(self, store: Store) -> None:
        (old,) = await fill(store, "/a/x")
        new = await store.update("/a/x", b"new", old.revision)
        assert new == store.get("/a/x") == StoreRecord("/a/x", b"new", 2, 3)

    async def test_delete_takes_a_revision_and_returns_the_last_state_with_it(self, store: Store) -> None:
        (old,) = await fill(store, "/a/x")
        assert await store.delete("/a/x", old.revision) == StoreRecord("/a/x", b"/a/x", 2, 3)
        assert store.get("/a/x") is None
        assert store.revision == 3

    async def test_a_key_that_came_back_was_created_anew(self, store: Store) -> None:
        (old,) = await fill(store, "/a/x")
        await store.delete("/a/x", old.revision)
        (new,) = await fill(store, "/a/x")
        assert (new.created, new.revision) == (4, 4)

    async def test_refusals_take_no_revision_and_change_nothing(self, store: Store) -> None:
        (record,) = await fill(store, "/a/x")
        with pytest.raises(KeyExists, match="cannot create /a/x: it exists already"):
            await store.create("/a/x", b"")
        with pytest.raises(KeyMissing, match="cannot update /a/y: it does not exist"):
            await store.update("/a/y", b"", 2)
        with pytest.raises(KeyMissing, match="cannot delete /a/y: it does not exist"):
            await store.delete("/a/y", 2)
        with pytest.raises(Mismatch, match="cannot update /a/x: it is at revision 2, not 1") as update:
            await store.update("/a/x", b"", 1)
        with pytest.raises(Mismatch, match="cannot delete /a/x: it is at revision 2, not 3") as delete:
            await store.delete("/a/x", 3)
        assert update.value.current == delete.value.current == record
        assert contents(store) == {"/a/x": (b"/a/x", 2, 2)}
        assert store.revision == 2

    async def test_of_concurrent_changes_based_on_the_same_state_one_wins(self, store: Store) -> None:
        (record,) = await fill(store, "/a/x")
        changes = [store.update("/a/x", bytes([n]), record.revision) for n in range(20)]
        outcomes = await asyncio.gather(*changes, return_exceptions=True)
        winners = [outcome for outcome in outcomes if isinstance(outcome, StoreRecord)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, Mismatch)]
        assert (len(winners), len(losers)) == (1, 19)
        assert store.get("/a/x") == winners[0]
        assert {loser.current for loser in losers} == set(winners)

    async def test_concurrent_changes_of_one_key_happen_in_the_order_they_were_asked(
        self, store: Store
    ) -> None:
        outcomes = await asyncio.gather(
            store.create("/a/x", b"1"),
            store.create("/a/x", b"2"),
            store.update("/a/x", b"3", 2),
            store.delete("/a/x", 3),
            store.delete("/a/x", 4),
            store.create("/a/x", b"4"),
            return_exceptions=True,
        )
        assert [getattr(outcome, "revision", type(outcome)) for outcome in outcomes] == [
            *(2, KeyExists, 3, 4),
            *(KeyMissing, 5),
        ]
        assert contents(store) == {"/a/x": (b"4", 5, 5)}

    @pytest.mark.parametrize("key", ["", "x", "/", "/a/", "/a\0b", "/" + "x" * 2048, "/\ud800"])
    async def test_what_is_no_key_is_refused(self, store: Store, key: str) -> None:
        with pytest.raises(ValueError):
            await store.create(key, b"")
        assert store.revision == 1

    async def test_a_value_that_is_too_large_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="cannot store /a/x: 8388609 bytes"):
            await store.create("/a/x", bytes((8 << 20) + 1))


class TestLists:
    async def test_a_list_is_in_order_and_of_its_collection_only(self, store: Store) -> None:
        await fill(store, "/a/ns/2", "/a/ns/1", "/a/ns2/1", "/a-b/1", "/a0/1", "/b/1")
        assert [r.key for r in store.list("/a/").records] == ["/a/ns/1", "/a/ns/2", "/a/ns2/1"]
        assert [r.key for r in store.list("/a/ns/").records] == ["/a/ns/1", "/a/ns/2"]
        assert [r.key for r in store.list("/none/").records] == []
        assert len(store.list("/").records) == 6

    async def test_pages_say_what_is_behind_them(self, store: Store) -> None:
        await fill(store, *(f"/a/{n}" for n in range(5)), "/b/1")
        first = store.list("/a/", limit=2)
        assert [r.key for r in first.records] == ["/a/0", "/a/1"]
        assert (first.more, first.remaining) == (True, 3)
        last = store.list("/a/", after="/a/2", limit=2)
        assert [r.key for r in last.records] == ["/a/3", "/a/4"]
        assert (last.more, last.remaining) == (False, 0)
        assert store.list("/a/", after="/a/9", limit=2).records == []

    async def test_pages_of_one_revision_do_not_see_what_came_later(self, store: Store) -> None:
        records = await fill(store, *(f"/a/{n}" for n in range(6)))
        first = store.list("/a/", limit=3)
        await store.delete("/a/4", records[4].revision)
        await store.update("/a/5", b"new", records[5].revision)
        await fill(store, "/a/31", "/b/1")
        second = store.list("/a/", revision=first.revision, after="/a/2", limit=2)
        third = store.list("/a/", revision=first.revision, after="/a/4", limit=2)
        assert [*first.records, *second.records, *third.records] == records
        assert (second.more, second.remaining, second.revision) == (True, 1, 7)
        assert (third.more, third.remaining) == (False, 0)

    async def test_revisions_that_are_not_there(self, store: Store) -> None:
        await fill(store, "/a/1", "/a/2", "/a/3")
        with pytest.raises(FutureRevision, match=r"cannot go to revision 5: .* we are at 4"):
            store.list("/a/", revision=5)
        await store.compact(3)
        assert [r.key for r in store.list("/a/", revision=3).records] == ["/a/1", "/a/2"]
        with pytest.raises(Compacted, match=r"cannot go back to revision 2: .* before 3 is forgotten"):
            store.list("/a/", revision=2)

    @pytest.mark.parametrize("prefix", ["", "a/", "/a"])
    async def test_what_is_no_collection_is_refused(self, store: Store, prefix: str) -> None:
        with pytest.raises(ValueError):
            store.list(prefix)
        with pytest.raises(ValueError):
            store.watch(prefix, 1)

    async def test_a_negative_limit_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError):
            store.list("/", limit=-1)


class TestProbes:
    async def test_a_probe_changes_nothing(self, store: Store) -> None:
        await fill(store, "/a/1")
        watch = store.watch("/", 1)
        await store.probe()
        assert store.revision == 2
        assert [event.record.revision for event in await take(watch, 1)] == [2]
        await fill(store, "/a/2")
        assert [event.record.key for event in await take(watch, 1)] == ["/a/2"]

    async def test_a_closed_store_cannot_be_probed(self, store: Store) -> None:
        await store.close()
        with pytest.raises(StoreClosed, match="cannot write: the store is closed"):
            await store.probe()


class TestCompaction:
    async def test_compacting_is_idempotent_and_never_of_the_future(self, store: Store) -> None:
        await fill(store, "/a/1", "/a/2")
        await store.compact(3)
        await store.compact(2)
        assert store.compacted == 3
        with pytest.raises(FutureRevision, match="cannot compact to revision 4"):
            await store.compact(4)

    async def test_the_present_survives_compaction(self, store: Store) -> None:
        records = await fill(store, "/a/1", "/a/2")
        await store.compact(store.revision)
        assert store.list("/a/").records == records
        assert (await store.update("/a/1", b"", records[0].revision)).revision == 4

    @pytest.mark.parametrize("twin", TWINS)
    async def test_only_so_many_events_are_remembered(self, twin: str, tmp_path: Path) -> None:
        store = await open_store(twin, tmp_path, replace(FAST, retention=Retention(events=3)))
        await fill(store, *(f"/a/{n}" for n in range(10)))
        assert (store.revision, store.compacted) == (11, 8)
        await store.close()

    @pytest.mark.parametrize("twin", TWINS)
    async def test_only_so_many_bytes_are_remembered(self, twin: str, tmp_path: Path) -> None:
        store = await open_store(twin, tmp_path, replace(FAST, retention=Retention(size=1000)))
        record = await store.create("/a/x", bytes(300))
        for _ in range(10):
            record = await store.update("/a/x", bytes(300), record.revision)
        assert (store.revision, store.compacted) == (12, 9)
        await store.close()

    @pytest.mark.parametrize("twin", TWINS)
    async def test_only_so_many_seconds_are_remembered(self, twin: str, tmp_path: Path) -> None:
        clock = iter(range(0, 1000, 10))
        options = replace(FAST, retention=Retention(seconds=25), now=lambda: next(clock))
        store = await open_store(twin, tmp_path, options)
        await fill(store, *(f"/a/{n}" for n in range(10)))
        assert (store.revision, store.compacted) == (11, 8)
        await store.close()


class TestWatches:
    async def test_a_watch_tells_all_three_kinds_with_both_sides(self, store: Store) -> None:
        watch = store.watch("/a/", store.revision)
        (first,) = await fill(store, "/a/x")
        second = await store.update("/a/x", b"new", first.revision)
        third = await store.delete("/a/x", second.revision)
        events = await take(watch, 3)
        assert [(e.kind, e.record, e.previous) for e in events] == [
            (EventType.CREATED, first, None),
            (EventType.UPDATED, second, first),
            (EventType.DELETED, third, second),
        ]

    async def test_a_watch_hears_its_own_collection_only(self, store: Store) -> None:
        watch = store.watch("/a/ns/", store.revision)
        await fill(store, "/a/ns/1", "/a/ns2/1", "/a/1", "/b/ns/1", "/a/ns/deep/2")
        assert names(await take(watch, 2)) == ["created /a/ns/1@2", "created /a/ns/deep/2@6"]

    async def test_a_watch_starts_in_the_past_and_goes_on_without_gap(self, store: Store) -> None:
        await fill(store, "/a/1", "/a/2", "/b/1", "/a/3")
        watch = store.watch("/a/", 2)
        await fill(store, "/a/4")
        assert names(await take(watch, 3)) == ["created /a/2@3", "created /a/3@5", "created /a/4@6"]

    async def test_a_watch_from_zero_tells_everything_while_nothing_is_forgotten(self, store: Store) -> None:
        await fill(store, "/a/1")
        assert names(await take(store.watch("/", 0), 1)) == ["created /a/1@2"]

    async def test_revisions_that_are_not_there(self, store: Store) -> None:
        await fill(store, "/a/1", "/a/2")
        await store.compact(3)
        with pytest.raises(Compacted):
            store.watch("/a/", 2)
        with pytest.raises(FutureRevision):
            store.watch("/a/", 4)
        watch = store.watch("/a/", 3)
        await fill(store, "/a/3")
        assert names(await take(watch, 1)) == ["created /a/3@4"]

    async def test_delivered_is_what_a_bookmark_may_say(self, store: Store) -> None:
        watch = store.watch("/a/", store.revision)
        await fill(store, "/b/1", "/b/2")
        assert watch.delivered == 3
        await fill(store, "/a/1", "/b/3", "/a/2")
        assert watch.delivered == 3
        await take(watch, 2)
        assert watch.delivered == 6
        late = store.watch("/a/", 4)
        assert late.delivered == 5
        await take(late, 1)
        assert late.delivered == 6

    async def test_a_change_is_told_only_when_it_can_be_read(self, store: Store) -> None:
        watch = store.watch("/a/", store.revision)
        creating = asyncio.ensure_future(store.create("/a/x", b""))
        (event,) = await take(watch, 1)
        assert store.get("/a/x") == event.record
        assert await creating == event.record


class TestClose:
    async def test_a_closed_store_refuses_changes_and_ends_watches(self, store: Store) -> None:
        watch, quiet = store.watch("/a/", store.revision), store.watch("/b/", store.revision)
        waiting = asyncio.ensure_future(quiet.next())
        await fill(store, "/a/x")
        await store.close()
        await store.close()
        assert names(await watch.next()) == ["created /a/x@2"]
        for ended in (watch.next(), waiting, store.create("/a/y", b""), store.update("/a/x", b"", 2)):
            with pytest.raises(StoreClosed):
                await ended
        with pytest.raises(StoreClosed):
            store.watch("/a/", 2)
        assert store.get("/a/x") is not None
