"""Rude clients: slow, silent, greedy, garbled. None of them keeps the server from its work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.runtime.tiny_http import Connections, HttpLimits, Reply
from support import examples, virtual_time

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = HttpLimits(
    connections=3, header_bytes=2048, header_timeout=10.0, idle_timeout=60.0, write_timeout=5.0
)
PAGE = 60_000  # more than small kernel buffers take, less than a transport buffers by default
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def handler(method: str, target: str) -> Reply:
    if target == "/broken":
        raise KeyError("oops")
    size = {"/huge": 8_000_000, "/page": PAGE}.get(target)
    return Reply(HTTPStatus.OK, b"x" * size if size else f"{method} {target}".encode())


class Served:
    """A server and its clients on one virtual clock."""

    def __init__(self, connections: Connections, port: int) -> None:
        self.connections = connections
        self.port = port
        self.clients: list[asyncio.StreamWriter] = []

    async def connect(self) -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.clients.append(writer)
        return reader, writer

    async def ask(self, data: bytes) -> bytes:
        """Send bytes and return all that comes back until the server closes."""
        reader, writer = await self.connect()
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            return await reader.read()
        return b"reset"


@contextlib.asynccontextmanager
async def serving(limits: HttpLimits = LIMITS) -> AsyncIterator[Served]:
    connections = Connections(handler, limits)
    server = await asyncio.start_server(connections.accept, "127.0.0.1", 0, limit=limits.header_bytes)
    server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # inherited by connections
    served = Served(connections, server.sockets[0].getsockname()[1])
    try:
        yield served
    finally:
        server.close()
        await connections.close()
        assert len(connections) == 0
        for client in served.clients:
            client.close()
            with contextlib.suppress(OSError):
                await client.wait_closed()


def with_server(
    scenario: Callable[[Served], Awaitable[None]], *, limits: HttpLimits = LIMITS, io_grace: float = 0.05
) -> None:
    """Run a scenario in virtual time; the grace lets the kernel move bytes before the clock jumps."""

    async def main() -> None:
        async with serving(limits) as served:
            await scenario(served)

    virtual_time.run(main(), io_grace=io_grace)


def now() -> float:
    return asyncio.get_running_loop().time()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_client_that_says_nothing_is_dropped() -> None:
    async def scenario(served: Served) -> None:
        assert await served.ask(b"") == b""
        assert now() == 10.0

    with_server(scenario)


async def test_a_connection_that_ends_before_it_began_is_closed() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        connections = Connections(handler, LIMITS)
        connections.accept(reader, writer)
        await connections.close()
        assert writer.is_closing()
        await writer.wait_closed()


def test_a_client_that_trickles_headers_is_dropped_all_the_same() -> None:
    async def scenario(served: Served) -> None:
        _, writer = await served.connect()
        writer.write(b"GET / HTTP/1.1\r\n")
        for number in range(30):
            await asyncio.sleep(1)
            if not len(served.connections):
                break
            writer.write(f"X-{number}: y\r\n".encode())
        assert 10.0 <= now() <= 11.0

    with_server(scenario)


def test_an_idle_connection_is_kept_for_a_while_and_then_closed() -> None:
    async def scenario(served: Served) -> None:
        reader, writer = await served.connect()
        for _ in range(3):
            writer.write(GET)
            assert (await reader.readuntil(b"GET /")).startswith(b"HTTP/1.1 200 OK\r\n")
            await asyncio.sleep(50)
        assert not reader.at_eof()
        assert await reader.read() == b""
        assert now() == pytest.approx(160.0, abs=0.5)

    with_server(scenario)


def test_a_client_that_does_not_read_is_cut_off() -> None:
    async def scenario(served: Served) -> None:
        reader, writer = await served.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(1)
        assert len(served.connections) == 1
        await asyncio.sleep(9)
        assert len(served.connections) == 0
        writer.transport.abort()
        assert reader.exception() is None

    with_server(scenario)


def test_an_answer_arrives_whole_at_a_slow_reader_before_the_connection_is_closed() -> None:
    async def scenario(served: Served) -> None:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", served.port))
        reader, writer = await asyncio.open_connection(sock=client)
        served.clients.append(writer)
        transport: Any = writer.transport
        transport.pause_reading()
        writer.write(b"GET /page HTTP/1.0\r\n\r\n")
        await asyncio.sleep(3)
        transport.resume_reading()
        assert len((await reader.read()).partition(b"\r\n\r\n")[2]) == PAGE

    with_server(scenario, io_grace=0.5)  # TCP with tiny buffers pauses for real fractions of a second


def test_one_too_many_is_turned_away_and_the_next_is_served() -> None:
    async def scenario(served: Served) -> None:
        held = [await served.connect() for _ in range(3)]
        for _, writer in held:
            writer.write(b"GET")
        await asyncio.sleep(1)
        assert len(served.connections) == 3
        answer = await served.ask(b"")
        assert answer.startswith(b"HTTP/1.1 503 ")
        held[0][1].close()
        await asyncio.sleep(1)
        assert status(await served.ask(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) == 200

    with_server(scenario)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, id="tls-hello"),
        pytest.param(b"hello\r\n\r\n", 400, id="not-http"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no-host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400, id="bad-header-name"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, id="lengths"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 3000, 431, id="long-header"),
        pytest.param(b"GET /" + b"y" * 3000, 431, id="long-target"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", 200, id="http-1.0"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 200, id="body-announced"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 200, id="body-sent"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 200, id="chunked"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200, id="close"),
    ],
)
def test_whatever_comes_is_answered_and_the_connection_closed(data: bytes, expected: int) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask(data)
        assert status(answer) == expected
        assert now() == 0.0  # at once, not by running into a timeout

    with_server(scenario)


def test_requests_in_one_packet_are_answered_in_order() -> None:
    async def scenario(served: Served) -> None:
        last = b"HEAD /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        answer = await served.ask(GET.replace(b"/ ", b"/a ", 1) + GET.replace(b"/ ", b"/b ", 1) + last)
        assert answer.count(b"HTTP/1.1 200 OK") == 3
        assert answer.index(b"GET /a") < answer.index(b"GET /b")
        assert b"HEAD /c" not in answer

    with_server(scenario)


def test_a_mistake_of_ours_is_a_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        assert status(await served.ask(b"GET /broken HTTP/1.0\r\n\r\n")) == 500
        assert status(await served.ask(b"GET / HTTP/1.0\r\n\r\n")) == 200

    with caplog.at_level(logging.ERROR):
        with_server(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "cannot answer GET /broken: a mistake in the program"
    ]


@settings(max_examples=examples.some(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.binary(max_size=300)
    | st.builds(
        lambda a, b, c: a + b + c, st.sampled_from([b"", GET]), st.binary(max_size=60), st.just(b"\r\n\r\n")
    )
)
def test_garbage_never_breaks_the_server(data: bytes) -> None:
    async def scenario(served: Served) -> None:
        _, writer = await served.connect()
        writer.write(data)
        writer.write_eof()
        assert status(await served.ask(b"GET / HTTP/1.0\r\n\r\n")) == 200

    with_server(scenario)


def test_idle_connections_make_room_for_the_next_client() -> None:
    async def scenario(served: Served) -> None:
        readers = []
        for _ in range(LIMITS.connections):
            reader, writer = await served.connect()
            writer.write(GET)
            assert (await reader.read(4096)).startswith(b"HTTP/1.1 200")
            readers.append(reader)
        assert status(await served.ask(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) == 200
        assert await readers[0].read() == b""  # the one that was idle longest had to go
        assert not readers[1].at_eof()
        assert now() == 0.0

    with_server(scenario)
