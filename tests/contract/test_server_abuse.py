"""Clients that mean harm or know no better: each is refused or cut off, while others are served as before.

`NODEMANAGER_ABUSE=heavy` multiplies the numbers, and waits for the server to end what is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from support.prober import responsive
from support.rbac_objects import rule
from support.server_process import NAMESPACE, Server, admin_session, issue, raw, running, trust

HEAVY = os.environ.get("NODEMANAGER_ABUSE") == "heavy"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
MIB = 2**20
QUEUE = 8.0 if HEAVY else 1.0
"""Seconds to wait behind everybody who asks at the same moment: thousands, when it is heavy."""
REFUSED = re.compile(rb"$|HTTP/(0\.9|1\.[01]) 4\d\d ")
pytestmark = [pytest.mark.timeout(400 if HEAVY else 180), pytest.mark.execs]  # its memory is looked at


@pytest.fixture(scope="module")
def first_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("shared") / "data") as one:
        yield one


@pytest.fixture
def shared(first_server: Server) -> Iterator[Server]:
    """One server for all tests that leave nothing behind in it."""
    yield first_server
    assert_unharmed(first_server)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One of its own, for a test that fills it, or takes all of its places."""
    with running(tmp_path / "data") as one:
        yield one
        assert_unharmed(one)


def assert_unharmed(server: Server) -> None:
    assert server.process is not None
    assert server.process.poll() is None, server.log.read_text()
    assert "Traceback" not in server.log.read_text()


@pytest.fixture
async def writer_token(server: Server) -> str:
    return await writer_of(server)


@pytest.fixture(scope="module")
def shared_token(first_server: Server) -> str:
    return asyncio.run(writer_of(first_server))


async def writer_of(server: Server) -> str:
    async with admin_session(server) as http:
        return await issue(server, http, "writer", rule("*", "configmaps"))


@contextlib.contextmanager
def unharmed(server: Server, mebibytes: int, seconds: float = 1.0) -> Iterator[None]:
    """Assert that others are answered meanwhile, and that memory stays within bounds."""
    before = server.resident()
    assert server.process is not None
    with responsive(server.kubeconfig, server.process.pid, seconds):
        yield
        grown = (server.resident() - before) // MIB
        assert grown < mebibytes, f"the server grew by {grown} MiB"


def head(method: str, path: str, token: str, *lines: str) -> bytes:
    said = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *lines]
    return ("\r\n".join(said) + "\r\n\r\n").encode()


@contextlib.asynccontextmanager
async def connections(
    server: Server, count: int, *, tls: bool = True, certified: bool = False
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Many connections at once, all of which are closed at the end."""
    config = server.config()
    identity = await config.credentials.tls_identity() if certified else None
    context: ssl.SSLContext | None = trust(config, identity) if tls else None
    port, opened = server.port, []
    try:
        for start in range(0, count, 20):
            some = range(start, min(count, start + 20))
            opened += await asyncio.gather(
                *(asyncio.open_connection("127.0.0.1", port, ssl=context, limit=4096) for _ in some)
            )
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def test_large_bodies_are_refused(shared: Server, shared_token: str) -> None:
    size = (1000 if HEAVY else 8) * MIB
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    close, kind = "Connection: close", "Content-Type: application/json"
    with unharmed(shared, 60):
        for token in (shared_token, "a.b.c", ""):
            announced = head("POST", MAPS, token, close, kind, f"Content-Length: {size}")
            assert re.match(rb"HTTP/1.1 4(13|01|03) ", await raw(shared, announced + b" " * (4 * MIB)))
            endless = head("POST", MAPS, token, close, kind, "Transfer-Encoding: chunked")
            answer = await raw(shared, endless + chunk * (size // 0x10000))
            assert re.match(rb"$|HTTP/1.1 4(13|01|03) ", answer), answer
        answer = await raw(shared, head("POST", MAPS, shared_token, close, f"Content-Length: {10**30}"))
        assert REFUSED.match(answer), answer


async def test_bodies_that_unpack_to_much_more_are_refused(shared: Server, shared_token: str) -> None:
    bomb = gzip.compress(b" " * ((2000 if HEAVY else 200) * MIB), 1)
    assert len(bomb) < 3 * MIB
    with unharmed(shared, 60):
        for coding in ("gzip", "deflate", "gzip, gzip", "br", "zstd"):
            lines = ["Connection: close", f"Content-Encoding: {coding}", f"Content-Length: {len(bomb)}"]
            answer = await raw(shared, head("POST", MAPS, shared_token, *lines) + bomb)
            assert REFUSED.match(answer), f"{coding}: {answer[:500]!r}"


DEEP = {
    "objects": ("application/json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "lists": ("application/json", b'{"a":' + b"[" * 1_000_000),
    "yaml": ("application/yaml", b"a: " + b"[" * 100_000),
    "yaml by indent": ("application/yaml", b"".join(b" " * n + b"a:\n" for n in range(600))),
    "anchors": ("application/yaml", b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(ord("b"), ord("k")))),
    "numbers": ("application/json", b'{"a":' + b"9" * 2_000_000 + b"}"),
    "not text": ("application/json", b'{"metadata":{"name":"\xff\xfe"}}'),
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
async def test_deep_and_odd_bodies_are_refused(shared: Server, shared_token: str, name: str) -> None:
    kind, body = DEEP[name]
    with unharmed(shared, 100):
        lines = ["Connection: close", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        answer = await raw(shared, head("POST", MAPS, shared_token, *lines) + body)
        assert re.match(rb"HTTP/1.1 4\d\d ", answer), answer[:500]


async def test_many_labels_and_long_names(server: Server) -> None:
    many = {f"label-{number}": "x" for number in range(10_000)}
    async with admin_session(server) as http:
        with unharmed(server, 60):
            for meta, codes in (
                ({"name": "many", "labels": many}, (201,)),  # as Kubernetes has it: within the size of a body
                ({"name": "x" * 100_000}, (422,)),
                ({"name": "n", "labels": {"x" * 100_000: "y"}}, (422,)),
                ({"name": "n", "annotations": {"a": "x" * 300_000}}, (422,)),
                ({"generateName": "g" * 100_000}, (201, 422)),
                ({"name": "n", "finalizers": ["x" * 100_000]}, (422,)),
            ):
                async with http.post(MAPS, json={"metadata": meta}) as response:
                    assert response.status in codes, (await response.text())[:500]


async def test_long_urls_headers_and_queries_are_refused(shared: Server, shared_token: str) -> None:
    size = 10_000_000 if HEAVY else 200_000
    with unharmed(shared, 40):
        for method, path, *lines in (
            ("GET", "/" + "x" * size),
            ("GET", f"{MAPS}/{'x' * size}"),
            ("GET", f"{MAPS}?labelSelector={'x' * size}"),
            ("GET", "/" + "x/" * (size // 2)),
            ("X" * size, MAPS),
            ("GET", MAPS, f"X: {'y' * size}"),
            ("GET", MAPS, f"{'X' * size}: y"),
            ("GET", MAPS, *(f"X-{number}: y" for number in range(size // 10))),
        ):
            answer = await raw(shared, head(method, path, shared_token, "Connection: close", *lines))
            assert REFUSED.match(answer), answer[:300]
        # Selectors that fit into a line, but are much work.
        wide = ",".join(f"a{number}" for number in range(1000))
        answer = await raw(
            shared, head("GET", f"{MAPS}?labelSelector={wide}", shared_token, "Connection: close")
        )
        assert re.match(rb"HTTP/1.1 (200|4\d\d) ", answer), answer[:300]


@pytest.mark.parametrize(
    "kind", ["silent", "half a handshake", "silent in TLS", "half a header", "half a body"]
)
async def test_slow_clients_do_not_slow_others(server: Server, writer_token: str, kind: str) -> None:
    tls = kind not in ("silent", "half a handshake")
    said = {
        "half a handshake": b"\x16\x03\x01\x02\x00\x01\x00",
        "half a header": f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nX-A: b".encode(),
        "half a body": head("POST", MAPS, writer_token, "Content-Length: 100") + b'{"metadata"',
    }.get(kind, b"")
    with unharmed(server, 300 if HEAVY else 60):
        async with connections(server, 1000 if HEAVY else 150, tls=tls) as opened:
            for _, writer in opened:
                writer.write(said)
            async with admin_session(server) as http:
                assert await _created(http, "meanwhile") == 201
            if HEAVY:  # and in the end, the server ends them all by itself
                ends = await asyncio.wait_for(asyncio.gather(*(_end(reader) for reader, _ in opened)), 150)
                assert all(REFUSED.match(end) for end in ends), {end[:40] for end in ends}


async def test_half_bodies_of_one_user_leave_places_for_others(server: Server, writer_token: str) -> None:
    async with admin_session(server) as http:
        other_token = await issue(server, http, "other", rule("*", "configmaps"))
        half = head("POST", MAPS, writer_token, "Content-Length: 100") + b'{"metadata"'
        whole = json.dumps({"metadata": {"name": "x"}}).encode()
        lines = ["Connection: close", "Content-Type: application/json", f"Content-Length: {len(whole)}"]
        async with connections(server, 210) as opened:
            for _, writer in opened:
                writer.write(half)
            refused = [reader for reader, _ in opened if await _is_refused(reader)]
            assert 10 <= len(refused) <= 100  # more than before, so that there is room
            answer = await raw(server, head("POST", MAPS, writer_token, *lines) + whole)
            assert answer.startswith(b"HTTP/1.1 429 "), answer
            for number, token in enumerate([other_token] * 10):
                body = whole.replace(b'"x"', b'"%d"' % number)
                answer = await raw(server, head("POST", MAPS, token, *lines) + body)
                assert answer.startswith(b"HTTP/1.1 201 "), answer
            async with http.post(MAPS, json={"metadata": {"name": "admin"}}) as response:
                assert response.status == 201
        assert await _created(http, "afterwards") == 201


async def _is_refused(reader: asyncio.StreamReader) -> bool:
    """Tell whether an answer came, which can only be a refusal; others wait for the rest of the body."""
    try:
        async with asyncio.timeout(0.01):
            line = await reader.readline()
    except TimeoutError:
        return False
    assert line.startswith(b"HTTP/1.1 429 "), line
    return True


async def _created(http: aiohttp.ClientSession, name: str) -> int:
    """Create an object as clients do, who come back when they are told to; return the code in the end."""
    async with asyncio.timeout(60 if HEAVY else 50):  # a place is free when a body has not come for 30 s
        while True:
            async with http.post(MAPS, json={"metadata": {"name": name}}) as response:
                if response.status != 429:
                    return response.status
                await asyncio.sleep(float(response.headers["Retry-After"]))


async def _end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except OSError:
        return b""


GARBAGE = {
    "zeros": b"\0" * 10_000,
    "plain HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "an alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "a huge record": b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000,
    "SSH": b"SSH-2.0-x\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_instead_of_tls_ends_the_connection(shared: Server, name: str) -> None:
    with unharmed(shared, 20):
        for _ in range(20):
            async with connections(shared, 1, tls=False) as [(reader, writer)]:
                writer.write(GARBAGE[name])
                with contextlib.suppress(OSError):  # it may be over already
                    writer.write_eof()
                end = await asyncio.wait_for(_end(reader), 50)
                assert not end.startswith(b"HTTP/1.1 2")


async def test_garbage_inside_tls_ends_the_connection(shared: Server) -> None:
    http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\r\n"
    )
    with unharmed(shared, 20):
        for sent in (b"\0" * 10_000, b"\r\n" * 5000 + b"x\r\n\r\n", http2, upgrade, b"GET / HTTP/9.9\r\n\r\n",
                     b"GET /\r\n\r\n", b"\xff" * 100_000, b"GET / HTTP/1.1\r\n\r\n\0\0"):  # fmt: skip
            answer = await raw(shared, sent)
            assert REFUSED.match(answer), f"{sent[:20]!r}: {answer[:200]!r}"


async def test_pipelined_requests_are_answered_in_order(shared: Server, shared_token: str) -> None:
    count = 5000 if HEAVY else 500
    last = head("GET", f"{MAPS}/last", shared_token, "Connection: close")
    with unharmed(shared, 60):
        one = head("GET", MAPS, shared_token)
        answer = await raw(shared, one * count + last, 60)
    assert answer.count(b"HTTP/1.1 200 ") == count
    assert answer.rpartition(b"HTTP/1.1 ")[2].startswith(b"404 ")


@pytest.mark.parametrize("query", ["", "?watch=1&resourceVersion=0"])
async def test_unread_answers_do_not_pile_up(server: Server, writer_token: str, query: str) -> None:
    """Everybody asks for four megabytes and reads nothing, then asks again."""
    async with admin_session(server) as http:
        for number in range(4):
            await _fill(http, f"large-{number}")
        with unharmed(server, 400 if HEAVY else 150, QUEUE):
            async with connections(server, 1000 if HEAVY else 100) as opened:
                for _, writer in opened:
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                    writer.write(head("GET", f"{MAPS}{query}", writer_token) * 5)
                async with http.post(MAPS, json={"metadata": {"name": "meanwhile"}}) as response:
                    assert response.status == 201
                await asyncio.sleep(2)  # not a wait for something: time for what must not happen


async def _fill(http: aiohttp.ClientSession, name: str) -> None:
    body = json.dumps({"metadata": {"name": name}, "data": {"a": "x" * 900_000}})
    async with http.post(MAPS, data=body, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 201


async def test_too_many_writes_are_told_to_come_back_and_reads_go_on(
    server: Server, writer_token: str
) -> None:
    """200 bodies that do not arrive take all places of writers; readers have places of their own."""
    waiting = head("POST", MAPS, writer_token, "Content-Length: 100", "Expect: 100-continue")
    with unharmed(server, 60):
        async with connections(server, 200) as opened:
            for _, writer in opened:
                writer.write(waiting)
            for reader, _ in opened:
                assert (await reader.readline()).startswith(b"HTTP/1.1 100 ")
            answer = await raw(server, head("POST", MAPS, writer_token, "Connection: close"))
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"\r\nRetry-After: 1\r\n" in answer
            slow_read = head("GET", MAPS, writer_token, "Connection: close", "Content-Length: 100")
            assert (await raw(server, slow_read, 20)).startswith(b"HTTP/1.1 200 ")
        async with admin_session(server) as http:
            assert await _created(http, "later") == 201


@pytest.mark.skipif(not HEAVY, reason="NODEMANAGER_ABUSE=heavy: it opens five thousand watches")
async def test_too_many_watches_are_told_to_come_back(server: Server, writer_token: str) -> None:
    with unharmed(server, 600, QUEUE):
        async with connections(server, 5000) as opened:
            for _, writer in opened:
                writer.write(head("GET", f"{MAPS}?watch=1", writer_token))
            for reader, _ in opened:
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            answer = await raw(server, head("GET", f"{MAPS}?watch=1", writer_token, "Connection: close"))
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"\r\nRetry-After: 1\r\n" in answer
