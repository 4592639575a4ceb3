"""Watches on real sockets: however the bytes arrive and whatever happens to the stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.client import watch as watching
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Selection
from nodemanager.client.watch import Malformed, Watch, WatchEvent, decode_page
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.cache import Cache, CacheOptions
from support import examples, virtual_time
from support.apiserver import free_port
from support.clients import Tokens, connected
from support.model_api import status_body
from support.scripted_server import Exchange, Handler, serve, until

HERE = Selection("test")
END = {"annotations": {"k8s.io/initial-events-end": "true"}}


def lease(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "test", "resourceVersion": str(version)}, "spec": spec}


def line(kind: str, obj: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}, ensure_ascii=False).encode() + b"\n"


class Chunks:
    """A response that is nothing but its chunks."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = deque(chunks)

    async def read_chunk(self, idle_timeout: float | None = None) -> bytes:
        return self._chunks.popleft() if self._chunks else b""

    async def close(self) -> None:
        pass


async def collect(*chunks: bytes) -> list[WatchEvent | Malformed]:
    events: list[WatchEvent | Malformed] = []
    async with Watch(LEASES, Chunks(*chunks), 60) as watch:
        while batch := await watch.batch():
            events += batch
    return events


@hypothesis.settings(max_examples=examples.some(50), deadline=None)
@hypothesis.given(
    st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=6), st.lists(st.integers(1, 500))
)
def test_events_are_the_same_however_the_bytes_are_cut(names: list[str], cuts: list[int]) -> None:
    stream = b"".join(line("ADDED", lease(name, i)) for i, name in enumerate(names, 1))
    chunks, position = [], 0
    for cut in cuts:
        chunks.append(stream[position : position + cut])
        position += cut
    chunks = [chunk for chunk in [*chunks, stream[position:]] if chunk]
    events = virtual_time.run(collect(*chunks))
    assert [event.object.metadata.name for event in events if isinstance(event, WatchEvent)] == names


@pytest.mark.parametrize("bad", [b"garbage\n", line("ERROR", json.loads(status_body(410, "Gone")))])
async def test_good_events_in_front_of_an_error_are_not_lost(bad: bytes) -> None:
    good = line("ADDED", lease("a", 1)) + line("ADDED", lease("b", 2))
    async with Watch(LEASES, Chunks(good + bad + line("ADDED", lease("c", 3))), 60) as watch:
        events = await watch.batch()
        assert [e.object.metadata.name for e in events if isinstance(e, WatchEvent)] == ["a", "b"]
        for _ in range(2):
            with pytest.raises(errors.KubeError):
                await watch.batch()


async def test_a_stream_that_ends_in_the_middle_of_an_event_is_broken_not_finished() -> None:
    with pytest.raises(errors.Unreachable, match="in the middle of an event"):
        await collect(line("ADDED", lease("a", 1))[:-10])


async def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MAX_EVENT", 1000)
    with pytest.raises(errors.ProtocolError, match="longer than 1000 bytes"):
        await collect(*[b"x" * 600] * 2)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"hello\n", errors.ProtocolError, id="not-json"),
        pytest.param(b"[1]\n", errors.ProtocolError, id="no-object"),
        pytest.param(b'{"type":"NEW","object":{}}\n', errors.ProtocolError, id="unknown-type"),
        pytest.param(b'{"type":"ADDED","object":7}\n', errors.ProtocolError, id="object-is-a-number"),
        pytest.param(line("ERROR", json.loads(status_body(410, "Gone"))), errors.Gone, id="gone"),
        pytest.param(line("ERROR", json.loads(status_body(403, "Forbidden"))), errors.Forbidden, id="403"),
    ],
)
async def test_what_is_no_event_is_an_error(data: bytes, error: type[errors.KubeError]) -> None:
    with pytest.raises(error):
        await collect(data)


async def test_an_unreadable_object_is_handed_on_with_its_key() -> None:
    bad = {**lease("bad", 3), "spec": {"holderIdentity": 7}}
    [event] = await collect(line("MODIFIED", bad))
    assert isinstance(event, Malformed)
    assert event.key == ObjectKey("test", "bad")
    assert event.resource_version == "3"
    assert "holderIdentity" in event.message


def test_a_page_with_an_unreadable_item_keeps_the_others() -> None:
    bad = {**lease("bad", 3), "spec": {"holderIdentity": 7}}
    body = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [lease("a", 1), bad, lease("b", 2)]})
    page = decode_page(LEASES, body.encode())
    assert [item.metadata.name for item in page.items] == ["a", "b"]
    assert [item.key.name for item in page.malformed] == ["bad"]
    assert page.resource_version == "9"


def test_a_page_of_nothing() -> None:
    assert decode_page(LEASES, b'{"metadata":{"resourceVersion":"1"},"items":null}').items == []


# A cache on a socket: each fault is survived without losing, repeating or spinning.

FAST = CacheOptions(backoff=Backoff(base=0.05, maximum=0.2), healthy_after=60)
IMPATIENT = CacheOptions(backoff=FAST.backoff, idle_timeout=1.0, healthy_after=60)


@contextlib.asynccontextmanager
async def following(
    url: str, options: CacheOptions = FAST, tokens: Tokens | None = None
) -> AsyncIterator[tuple[Cache[Lease], list[tuple[str, str]]]]:
    """Run a cache; yield it with the list of (name, version) it told of."""
    told: list[tuple[str, str]] = []
    async with connected(ClientConfig(url, credentials=tokens or Tokens("t"))) as client:
        cache = Cache(client, LEASES, HERE, options=options)
        cache.subscribe(
            lambda c: told.append((c.key.name, c.new.metadata.resource_version if c.new else "gone"))
        )
        task = asyncio.create_task(cache.run())
        try:
            yield cache, told
        finally:
            task.cancel()
            await asyncio.wait({task})


async def initial(exchange: Exchange, *objects: dict[str, Any], version: int) -> None:
    """Begin a streamed list."""
    await exchange.stream()
    for obj in objects:
        await exchange.event("ADDED", obj)
    await exchange.event("BOOKMARK", {"metadata": {"resourceVersion": str(version), **END}})


async def half_an_event(exchange: Exchange) -> None:
    await exchange.raw(b'50\r\n{"type":"ADDED","ob')
    await exchange.close()


async def garbage(exchange: Exchange) -> None:
    await exchange.chunk(b"garbage\n")
    await exchange.hang()


async def server_error(exchange: Exchange) -> None:
    await exchange.event("ERROR", json.loads(status_body(500, "InternalError")))


async def bookmark_then_end(exchange: Exchange) -> None:
    await exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "6"}})
    await exchange.chunk(b"")


async def reset(exchange: Exchange) -> None:
    exchange.reset()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda exchange: exchange.chunk(b""), id="end"),
        pytest.param(Exchange.close, id="closed-without-end"),
        pytest.param(reset, id="reset"),
        pytest.param(half_an_event, id="half-an-event"),
        pytest.param(Exchange.hang, id="silence"),
        pytest.param(garbage, id="garbage"),
        pytest.param(server_error, id="server-error"),
        pytest.param(bookmark_then_end, id="bookmark-then-end"),
    ],
)
async def test_a_broken_watch_goes_on_from_where_it_was(fault: Handler) -> None:
    async def handler(exchange: Exchange) -> None:
        if len(server.requests) == 1:
            await initial(exchange, lease("a", 1), version=5)
            await exchange.event("ADDED", lease("b", 6))
            await fault(exchange)
        else:
            assert exchange.query["resourceVersion"] == "6" or len(server.requests) > 2
            await exchange.stream()
            await exchange.event("MODIFIED", lease("a", 7))
            await exchange.hang()

    options = IMPATIENT if fault is Exchange.hang else FAST  # a busy machine may be silent for a while
    async with serve(handler) as server, following(server.url, options) as (_, told):
        await until(lambda: len(told) >= 3)
        assert told[:3] == [("a", "1"), ("b", "6"), ("a", "7")]
        assert options is IMPATIENT or len(server.requests) == 2


async def test_401_in_the_middle_of_a_watch_is_answered_with_fresh_credentials() -> None:
    async def handler(exchange: Exchange) -> None:
        expected = "Bearer old" if len(server.requests) == 1 else "Bearer new"
        if exchange.headers["authorization"] != expected:
            await exchange.refuse(401, "Unauthorized", "token expired")
        elif len(server.requests) == 1:
            await initial(exchange, lease("a", 1), version=5)
            await exchange.event("ERROR", json.loads(status_body(401, "Unauthorized")))
        else:
            await exchange.stream()
            await exchange.event("ADDED", lease("b", 6))
            await exchange.hang()

    tokens = Tokens("old", "new")
    async with serve(handler) as server, following(server.url, tokens=tokens) as (_, told):
        await until(lambda: len(told) == 2)
        assert told == [("a", "1"), ("b", "6")]
        assert tokens.refreshes == 1


@pytest.mark.parametrize("code", [403, 409, 429, 500, 503])
async def test_a_refused_watch_is_tried_again_with_backoff(code: int) -> None:
    async def handler(exchange: Exchange) -> None:
        if len(server.requests) in (2, 3, 4):
            await exchange.refuse(code, "", "not now")
        elif len(server.requests) == 1:
            await initial(exchange, lease("a", 1), version=5)
            await exchange.chunk(b"")
        else:
            assert exchange.query["resourceVersion"] == "5"
            await exchange.stream()
            await exchange.event("ADDED", lease("b", 6))
            await exchange.hang()

    async with serve(handler) as server, following(server.url) as (_, told):
        await until(lambda: len(told) == 2)
        assert told == [("a", "1"), ("b", "6")]
        assert len(server.requests) == 5


async def test_410_lists_again_and_tells_of_the_deletions() -> None:
    async def handler(exchange: Exchange) -> None:
        if len(server.requests) == 1:
            await initial(exchange, lease("a", 1), lease("b", 2), version=5)
            await exchange.chunk(b"")
        elif len(server.requests) == 2:
            await exchange.refuse(410, "Expired", "too old resource version: 5 (9)")
        else:
            assert "resourceVersion" not in exchange.query
            await initial(exchange, lease("b", 2), lease("c", 8), version=9)
            await exchange.hang()

    async with serve(handler) as server, following(server.url) as (cache, told):
        await until(lambda: len(told) == 4)
        assert told == [("a", "1"), ("b", "2"), ("a", "gone"), ("c", "8")]
        assert len(cache.values()) == 2


async def test_a_server_that_is_not_there_yet_is_waited_for() -> None:
    async def handler(exchange: Exchange) -> None:
        await initial(exchange, lease("a", 1), version=5)
        await exchange.hang()

    port = free_port()
    async with following(f"http://127.0.0.1:{port}") as (cache, told):
        await asyncio.sleep(0.1)
        assert not cache.has_synced
        async with serve(handler, port=port):
            await until(lambda: bool(told))
