"""The interface that the client needs from the network, and the pool of connections that provides it.

`Transport` is the seam: the pool below speaks TCP and TLS, tests may put an in-process
server behind the same two methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nodemanager.client.auth.config import ClientConfig, Headers
from nodemanager.client.http import tls
from nodemanager.client.http.connection import Connection, Dialer
from nodemanager.kube import errors

MAX_IDLE_CONNECTIONS = 4
MAX_IDLE_SECONDS = 50.0
"""Shorter than the idle limit of common load balancers (60 s), so that we close connections, not they."""
MAX_BODY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; `target` is a path below the configured server."""

    method: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    guard: Callable[[], None] | None = None
    """Called right before the first byte leaves; raises if it must not."""


class Response(Protocol):
    """An answer whose body is still to be read. It must be closed."""

    @property
    def status(self) -> int:
        """The HTTP status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""

    async def read_chunk(self, idle_timeout: float | None = None) -> bytes:
        """Return the next piece of the body, empty at its end; `TimedOut` after so much silence."""

    async def close(self) -> None:
        """Give the connection back, or drop it when the body was not read to its end."""


class Transport(Protocol):
    """Sends requests; it knows nothing of Kubernetes except our credentials."""

    async def send(self, request: Request) -> Response:
        """Send a request and return as soon as the headers of the answer are there."""

    async def reauthenticate(self) -> bool:
        """React to a 401; tell whether sending again may help."""

    async def close(self) -> None:
        """Close every connection."""


async def read_all(response: Response, limit: int = MAX_BODY) -> bytes:
    """Read a whole body, bounded."""
    parts: list[bytes] = []
    size = 0
    while chunk := await response.read_chunk():
        size += len(chunk)
        if size > limit:
            raise errors.ProtocolError(f"cannot read the answer: it is larger than {limit} bytes")
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class HttpTransport:
    """A pool of keep-alive HTTP/1.1 connections to one API server."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._dialer = Dialer(config)  # first, as it says what is wrong with an address
        self._contexts = tls.ContextCache(config)
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._closed = False

    async def send(self, request: Request) -> PooledResponse:
        """Send a request; a read is repeated once if a kept connection turns out to be dead."""
        identity = await self._config.credentials.tls_identity()
        context = self._contexts.get(identity)
        await self._config.credentials.headers()  # without credentials there is no need to connect
        connection = self._take_idle(context)
        if connection is not None:
            try:
                return await self._exchange(connection, request)
            except errors.Unreachable:
                # The server closed the kept connection at the moment we used it. A read may simply be
                # repeated; whether a write took effect is for the caller to find out.
                if request.method != "GET":
                    raise
        connection = await self._dialer.dial(context)
        return await self._exchange(connection, request)

    async def reauthenticate(self) -> bool:
        """Have the credentials look for something newer."""
        return await self._config.credentials.refresh()

    async def close(self) -> None:
        """Close all connections, also those in use, and those that are opened for cancelled requests."""
        self._closed = True
        connections = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        await asyncio.gather(self._dialer.close(), *(connection.close() for connection in connections))

    async def _exchange(self, connection: Connection, request: Request) -> PooledResponse:
        self._busy.add(connection)
        try:
            if self._closed:
                raise errors.Unreachable(f"cannot reach {self._config.server}: this client was closed")
            # Only now, as a handshake takes time: a token may have been renewed meanwhile, or have expired.
            lines = [*request.headers.items(), *_lines(await self._config.credentials.headers())]
            if request.guard is not None:
                request.guard()  # here, after all that took time: credentials, a proxy, a handshake
            status, headers = await connection.exchange(request.method, request.target, lines, request.body)
        except BaseException:
            self._busy.discard(connection)
            connection.abort()
            raise
        return PooledResponse(self, connection, status, headers)

    def _take_idle(self, context: object) -> Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            # After a rotation of the client certificate, old connections still speak for the old identity.
            fresh = connection.context is context and now - connection.idle_since < MAX_IDLE_SECONDS
            if fresh and connection.usable():
                return connection
            connection.abort()
        return None

    def release(self, connection: Connection) -> None:
        """Take back a connection whose answer was read, or drop it."""
        self._busy.discard(connection)
        if self._closed or len(self._idle) >= MAX_IDLE_CONNECTIONS or not connection.reset():
            connection.abort()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)


class PooledResponse:
    """An answer that gives its connection back to the pool."""

    def __init__(
        self, pool: HttpTransport, connection: Connection, status: int, headers: Mapping[str, str]
    ) -> None:
        self.status = status
        self.headers = headers
        self._pool = pool
        self._connection: Connection | None = connection

    async def read_chunk(self, idle_timeout: float | None = None) -> bytes:
        """Return the next piece of the body, empty at its end."""
        if self._connection is None:
            raise errors.Unreachable("cannot read the answer: it was closed")
        return await self._connection.read_chunk(idle_timeout)

    async def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._pool.release(connection)


def _lines(headers: Headers) -> list[tuple[str, str]]:
    """Return header lines, one for each value."""
    return [
        (name, value)
        for name, values in headers.items()
        for value in ((values,) if isinstance(values, str) else values)
    ]
