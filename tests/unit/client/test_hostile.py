"""Answers that no honest server gives: each ends in an error of our tree, and the cache lives on."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from nodemanager.client.auth.config import Anonymous, ClientConfig, Headers
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.cache import Cache, CacheOptions
from support.clients import connected
from support.model_api import status_body
from support.scripted_server import Exchange, serve, until

HERE = Selection("test")
DEEP = b"[" * 100_000
LEASE = {"metadata": {"name": "a", "namespace": "test", "resourceVersion": "1"}, "spec": {}}


def status(code: int, **details: object) -> bytes:
    body = json.loads(status_body(code, "")) | {"details": details}
    return json.dumps(body).encode()


def answer(code: int, body: bytes, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d x\r\n%bcontent-length: %d\r\n\r\n%b" % (code, head, len(body), body)


ANSWERS = [
    pytest.param(answer(503, b"", b"Retry-After: \xb2\r\n"), id="retry after a superscript"),
    pytest.param(answer(503, b"", b"Retry-After: " + b"9" * 400 + b"\r\n"), id="retry after 400 nines"),
    pytest.param(answer(503, b"", b"Retry-After: " + b"9" * 5000 + b"\r\n"), id="retry after 5000 nines"),
    pytest.param(answer(503, b"", b"Retry-After: -5\r\n"), id="retry in the past"),
    pytest.param(answer(503, b"", b"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n"), id="retry at a date"),
    pytest.param(answer(503, status(503, retryAfterSeconds=-5)), id="negative in the body"),
    pytest.param(answer(503, status(503, retryAfterSeconds=10**30)), id="huge in the body"),
    pytest.param(answer(200, b'{"metadata": {"name": "\xff\xfe"}}'), id="not utf-8"),
    pytest.param(answer(200, DEEP), id="deep"),
    pytest.param(answer(500, DEEP), id="deep refusal"),
    pytest.param(answer(500, b'{"message": "\xff"}'), id="refusal that is not utf-8"),
    pytest.param(answer(200, b'{"metadata": {"name": 10e999999}}'), id="number without end"),
    pytest.param(b"HTTP/1.1 999 x\r\ncontent-length: 0\r\n\r\n", id="status 999"),
    pytest.param(b"HTTP/1.1 200 x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}", id="two lengths"),
]


@pytest.mark.parametrize("raw", ANSWERS)
async def test_a_get_ends_in_an_error_of_ours(raw: bytes) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.raw(raw)

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.KubeError):
            async with asyncio.timeout(90):
                await client.get(LEASES, "a", "test")
        assert len(server.requests) <= 2


STREAMS = [
    pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n', id="event that is not utf-8"),
    pytest.param(
        b'{"type":"ADDED","object":' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n", id="deep event"
    ),
    pytest.param(b'{"type":"BOOKMARK","object":{}}\n', id="bookmark without a place"),
    pytest.param(
        b'{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}\n',
        id="end of the list without a place",
    ),
]


@pytest.mark.parametrize("raw", [*ANSWERS, *STREAMS])
async def test_a_cache_lives_on(raw: bytes) -> None:
    async def handler(exchange: Exchange) -> None:
        if len(server.requests) <= 2:
            if raw.startswith(b"HTTP"):
                await exchange.raw(raw)
            else:
                await exchange.stream()
                await exchange.chunk(raw)
                await exchange.chunk(b"")
            return
        if "watch" not in exchange.query:
            await exchange.json({"metadata": {"resourceVersion": "5"}, "items": [LEASE]})
            return
        await exchange.stream()
        if "sendInitialEvents" in exchange.query:
            await exchange.event("ADDED", LEASE)
            end = {"k8s.io/initial-events-end": "true"}
            await exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "5", "annotations": end}})
        await exchange.hang()

    options = CacheOptions(backoff=Backoff(base=0.01, maximum=0.05))
    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        cache = Cache(client, LEASES, HERE, options=options)
        cache._delay = lambda *_: 0.01  # type: ignore[method-assign]  # Retry-After is tested elsewhere
        running = asyncio.create_task(cache.run())
        await until(lambda: cache.has_synced or running.done(), 90)
        assert not running.done(), running.exception()
        assert [lease.metadata.name for lease in cache.values()] == ["a"]
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize("body", [b"{}", b'{"items": []}', b'{"metadata": {}, "items": [{"spec": 7}]}'])
async def test_what_has_no_revision_is_no_list(body: bytes) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer(200, body)

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        with pytest.raises(errors.ProtocolError, match="it has no resourceVersion"):
            await client.list(LEASES, HERE)


async def test_an_answer_that_comes_before_the_body_was_sent_counts() -> None:
    body = status_body(413, "RequestEntityTooLarge", "limit is 3145728")

    async def too_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(413, body, b"connection: close\r\n"))
        await writer.drain()
        writer.write_eof()
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        served.set()

    served = asyncio.Event()
    listener = await asyncio.start_server(too_large, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener, connected(ClientConfig(url)) as client:
        with pytest.raises(errors.TooLarge, match="limit is 3145728"):
            await client.patch(LEASES, "a", "test", MergePatch({"metadata": {"x": "y" * 20_000_000}}))
        await client.close()
        await asyncio.wait_for(served.wait(), 50)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "\udcff.example"])
async def test_a_server_that_no_resolver_takes_is_a_mistake_in_the_configuration(host: str) -> None:
    async with connected(ClientConfig(f"https://{host}:6443", insecure=True)) as client:
        with pytest.raises(errors.KubeError, match="cannot reach"):
            await client.get(LEASES, "a", "test")


async def test_the_guard_has_the_last_word_after_everything_that_takes_time() -> None:
    allowed = True

    class Slow(Anonymous):
        async def headers(self) -> Headers:
            nonlocal allowed
            allowed = False  # leadership ends while a plugin thinks about our credentials
            return {}

    def guard() -> None:
        if not allowed:
            raise PermissionError("deposed")

    async def handler(exchange: Exchange) -> None:
        await exchange.json(LEASE)

    async with serve(handler) as server:
        client = Client(HttpTransport(ClientConfig(server.url, credentials=Slow())))
        try:
            fenced = client.guarded(guard)
            with pytest.raises(PermissionError, match="deposed"):
                await fenced.patch(LEASES, "a", "test", MergePatch({}))
            assert not server.requests
            await fenced.get(LEASES, "a", "test")  # who is deposed may still read
        finally:
            await client.close()


async def test_a_token_that_is_replaced_or_runs_out_during_a_handshake_is_not_sent() -> None:
    """Who we are is asked again when the connection is there, and what was said before is forgotten."""
    said: list[str | None] = ["old", "new", "newer", "newer", None]

    class Changing(Anonymous):
        async def headers(self) -> Headers:
            token = said.pop(0) if len(said) > 1 else said[0]
            if token is None:
                raise errors.ConfigError("cannot authenticate: it has expired")
            return {"Authorization": f"Bearer {token}"}

    seen: list[str] = []

    async def handler(exchange: Exchange) -> None:
        seen.append(exchange.headers["authorization"])
        await exchange.answer(200, json.dumps(LEASE).encode(), connection="close")

    async with serve(handler) as server:
        client = Client(HttpTransport(ClientConfig(server.url, credentials=Changing())))
        try:
            await client.get(LEASES, "a", "test")
            await client.get(LEASES, "a", "test")
            said[:] = ["good until the handshake", None]
            with pytest.raises(errors.ConfigError, match="it has expired"):
                await client.get(LEASES, "a", "test")
            assert seen == ["Bearer new", "Bearer newer"]
        finally:
            await client.close()
