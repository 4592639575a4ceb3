"""Fan-out: nobody misses an event, nobody waits for anybody, and nothing is kept that all have read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodemanager.store.base import Compacted, EventType, StoreClosed, StoreEvent, StoreRecord
from nodemanager.store.broadcast import Broadcast
from support.stores import TWINS, names, open_store, take


def event(key: str, revision: int) -> StoreEvent:
    return StoreEvent(EventType.CREATED, StoreRecord(key, b"", revision, revision))


@pytest.mark.parametrize("twin", TWINS)
async def test_500_watches_miss_nothing_and_share_the_events(twin: str, tmp_path: Path) -> None:
    store = await open_store(twin, tmp_path)
    wide = [store.watch("/a/", store.revision) for _ in range(400)]
    narrow = [store.watch(f"/a/{n}/", store.revision) for n in range(100)]
    readers = [asyncio.ensure_future(take(watch, 300)) for watch in wide]
    readers += [asyncio.ensure_future(take(watch, 3)) for watch in narrow]
    for n in range(300):
        await store.create(f"/a/{n % 100}/{n}", b"")
        if n % 7 == 0:
            await asyncio.sleep(0)
    heard = await asyncio.gather(*readers)
    assert [e.record.revision for e in heard[0]] == list(range(2, 302))
    for other in heard[1:400]:
        assert all(mine is theirs for mine, theirs in zip(heard[0], other, strict=True))
    for n, events in enumerate(heard[400:]):
        assert [e.record.key for e in events] == [f"/a/{n}/{n + more}" for more in (0, 100, 200)]
    await store.close()


async def test_a_slow_watch_is_told_so_and_the_others_are_not_disturbed() -> None:
    broadcast = Broadcast(buffer=10)
    slow, quick = broadcast.subscribe("/a/"), broadcast.subscribe("/a/")
    for revision in range(2, 102):
        broadcast.publish([event("/a/x", revision)])
        assert names(await quick.next()) == [f"created /a/x@{revision}"]
    assert slow.delivered == 1
    with pytest.raises(Compacted, match="cannot follow /a/ from revision 1: the reader was too slow"):
        await slow.next()
    with pytest.raises(StoreClosed):
        await slow.next()
    assert len(broadcast) == 1
    assert quick.delivered == 101


async def test_a_watch_may_be_behind_by_the_whole_buffer() -> None:
    broadcast = Broadcast(buffer=10)
    watch = broadcast.subscribe("/a/")
    broadcast.publish([event("/a/x", revision) for revision in range(2, 12)])
    assert len(await watch.next()) == 10
    broadcast.publish([event("/a/x", revision) for revision in range(12, 23)])
    with pytest.raises(Compacted):
        await watch.next()


async def test_the_buffer_is_emptied_when_all_have_read_or_left() -> None:
    broadcast = Broadcast()
    first, second, third = (broadcast.subscribe("/a/") for _ in range(3))
    broadcast.publish([event("/a/x", 2)])
    late = broadcast.subscribe("/a/")
    channel = first._channel
    await first.next()
    await second.next()
    assert len(channel.events) == 1
    third.close()
    assert channel.events == []
    broadcast.publish([event("/a/x", 3)])
    for watch in (first, second, late):
        assert names(await watch.next()) == ["created /a/x@3"]
    assert channel.events == []


async def test_nobody_is_kept_after_the_last_watch_left() -> None:
    broadcast = Broadcast()
    watch = broadcast.subscribe("/a/")
    watch.close()
    watch.close()
    assert len(broadcast) == 0
    assert broadcast._channels == {}
    with pytest.raises(StoreClosed, match="the watch is closed"):
        await watch.next()


async def test_closing_a_watch_ends_its_next_and_keeps_its_bookmark() -> None:
    broadcast = Broadcast()
    watch, other = broadcast.subscribe("/a/"), broadcast.subscribe("/a/")
    waiting, others = asyncio.ensure_future(watch.next()), asyncio.ensure_future(other.next())
    await asyncio.sleep(0)
    watch.close()
    with pytest.raises(StoreClosed):
        await waiting
    broadcast.publish([event("/a/x", 2)])
    assert names(await others) == ["created /a/x@2"]
    assert watch.delivered == 1


async def test_a_cancelled_next_loses_nothing() -> None:
    broadcast = Broadcast()
    watch = broadcast.subscribe("/a/")
    waiting = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    broadcast.publish([event("/a/x", 2)])
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert names(await watch.next()) == ["created /a/x@2"]


async def test_an_event_costs_only_those_it_interests() -> None:
    broadcast = Broadcast()
    watches = [broadcast.subscribe(f"/a/{n}/") for n in range(100)]
    broadcast.publish([event("/a/7/x", 2)])
    assert [len(watch._channel.events) for watch in watches] == [int(n == 7) for n in range(100)]
