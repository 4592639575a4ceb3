"""A real socket server that does exactly what a test tells it to, right or wrong.

    async with serve(handler) as server: ...

`handler(exchange)` is called for every request, on every connection; an `Exchange` can answer,
stream, hang, cut the connection half-way or reset it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.cutting import close, cut
from support.model_api import status_body


@dataclass
class Exchange:
    """One request, and the wire to answer it on."""

    server: ScriptedServer
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def json(self, obj: Any, status: int = 200, **headers: str) -> None:
        """Answer with JSON."""
        await self.answer(status, json.dumps(obj).encode(), **headers)

    async def refuse(self, code: int, reason: str, message: str = "scripted", **headers: str) -> None:
        """Answer with a `Status`."""
        await self.answer(code, status_body(code, reason, message), **headers)

    async def answer(self, status: int, body: bytes, **headers: str) -> None:
        """Answer with a complete body."""
        fields = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        await self.raw(_head(status, fields) + body)

    async def stream(self) -> None:
        """Begin a chunked answer."""
        await self.raw(_head(200, {"content-type": "application/json", "transfer-encoding": "chunked"}))

    async def chunk(self, data: bytes) -> None:
        """Send one chunk; an empty one ends the answer."""
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, kind: str, obj: Any) -> None:
        """Send one watch event."""
        await self.chunk(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    async def hang(self) -> None:
        """Do nothing until the test is over."""
        await self.server.over.wait()

    async def close(self) -> None:
        """Close the connection in order."""
        close(self.writer)
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def reset(self) -> None:
        """Drop the connection with a TCP reset, as a dying host or a firewall does."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class ScriptedServer:
    """A listening server and everything it was asked."""

    handler: Handler
    port: int = 0
    url: str = ""
    requests: list[Exchange] = field(default_factory=list)
    connections: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    open: dict[asyncio.StreamWriter, asyncio.Task[None]] = field(default_factory=dict)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; not as a coroutine, as nobody would know of one that has not begun."""
        if self.over.is_set():
            cut(writer)
            return
        self.connections += 1
        self.open[writer] = asyncio.create_task(self._serve(reader, writer))

    async def close(self) -> None:
        """End all connections at once: a goodbye that a peer does not return would outlive the test."""
        self.over.set()
        for task in self.open.values():
            task.cancel()
        ended = await asyncio.gather(*self.open.values(), return_exceptions=True)
        for writer in self.open:
            cut(writer)
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        for failure in ended:
            if isinstance(failure, AssertionError):
                raise failure

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until either side has enough."""
        try:
            while (exchange := await self._read(reader, writer)) is not None:
                self.requests.append(exchange)
                await self.handler(exchange)
                if writer.is_closing():
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left or the test is over; tests look at the client
        finally:
            close(writer)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Exchange(self, method, target, headers, body, writer)


@contextlib.asynccontextmanager
async def serve(
    handler: Handler, context: ssl.SSLContext | None = None, *, port: int = 0
) -> AsyncIterator[ScriptedServer]:
    """Listen on loopback for the length of a test."""
    scripted = ScriptedServer(handler)
    listener = await asyncio.start_server(scripted.connected, "127.0.0.1", port, ssl=context)
    scripted.port = listener.sockets[0].getsockname()[1]
    scripted.url = f"{'https' if context else 'http'}://127.0.0.1:{scripted.port}"
    try:
        yield scripted
    finally:
        listener.close()
        await scripted.close()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} scripted\r\n{lines}\r\n".encode()


async def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait for a condition that other tasks or processes make true.

    We look less often the longer it takes: who looks all the time slows down what is waited for.
    """
    pause = 0.005
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, 0.1)
