"""A very small HTTP/1.1 server for documents that are made in memory: probes and metrics.

It may face every client that reaches its port, so everything is bounded: connections, header size,
and the time for headers, answers and idling. Request bodies are never read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

import h11

from nodemanager.runtime import tasks

log = logging.getLogger(__name__)
_READ_SIZE = 4096


class Reply(NamedTuple):
    """An answer, complete in memory."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    allow: str = ""
    """The allowed methods, for a 405."""


Handler = Callable[[str, str], Reply]
"""From method and request target to the answer; called on the event loop, so it must be quick."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What a client may take."""

    connections: int = 32
    header_bytes: int = 16 * 1024
    header_timeout: float = 10.0
    """Seconds from the connection, or the first byte of a further request, to the end of its headers."""
    idle_timeout: float = 120.0
    """Seconds without a further request; longer than the usual scrape interval."""
    write_timeout: float = 10.0


class Connections:
    """All open connections of one listening socket."""

    def __init__(self, handler: Handler, limits: HttpLimits) -> None:
        self._handler = handler
        self._limits = limits
        self._open: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.Task[None], None] = {}
        """Idle connections between two requests, longest first."""
        self._tasks: set[asyncio.Task[None]] = set()
        """The tasks of open connections, and of those that are just being ended."""

    def __len__(self) -> int:
        return len(self._open)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection; when there are too many, end the one idle longest, or turn it away."""
        # Nothing may pile up in the transport, so that `drain` means "handed to the kernel".
        writer.transport.set_write_buffer_limits(high=0)
        if len(self._open) >= self._limits.connections and self._idle:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            self._open.discard(oldest)
            oldest.cancel()
        if len(self._open) >= self._limits.connections:
            writer.write(
                b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer), name="probe connection")
        self._open.add(task)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        task.add_done_callback(lambda _: writer.close())  # also of one that was ended before it began

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        self._tasks.discard(task)
        self._idle.pop(task, None)

    async def close(self) -> None:
        """End all connections."""
        await tasks.end(self._tasks.copy())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.header_bytes)
        try:
            await self._converse(connection, reader, writer)
        except (TimeoutError, OSError, h11.LocalProtocolError) as exc:
            log.debug("a probe connection ended early: %r", exc)
        finally:
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()  # the rest belongs to a client that does not read
            else:
                writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _converse(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer requests until one side wants to end."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are a coroutine of one
        patience = self._limits.header_timeout
        while True:
            try:
                request = await self._next_request(connection, reader, patience)
                if request is None:
                    return
                self._idle.pop(task, None)
                reply, head = self._answer(request), request.method == b"HEAD"
            except h11.RemoteProtocolError as exc:
                reply, head = Reply(HTTPStatus(exc.error_status_hint), b"bad request\n"), False
            await self._send(connection, writer, reply, head=head)
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return  # an error, `Connection: close`, or a body, which we do not read
            connection.start_next_cycle()
            patience = self._limits.idle_timeout
            self._idle[task] = None

    async def _next_request(
        self, connection: h11.Connection, reader: asyncio.StreamReader, patience: float
    ) -> h11.Request | None:
        """Return the next request, or None when the client has ended the connection."""
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        async with asyncio.timeout(patience) as scope:
            while (event := connection.next_event()) is h11.NEED_DATA:
                connection.receive_data(await reader.read(_READ_SIZE))
                if deadline is None:
                    # One deadline for all headers: bytes that trickle in do not extend it.
                    deadline = loop.time() + self._limits.header_timeout
                    scope.reschedule(deadline)
        if not isinstance(event, h11.Request):
            return None
        connection.next_event()  # the end of the message, when it has no body
        return event

    def _answer(self, request: h11.Request) -> Reply:
        method, target = request.method.decode("ascii"), request.target.decode("ascii", "replace")
        try:
            return self._handler(method, target)
        except Exception:
            log.exception("cannot answer %s %.100s: a mistake in the program", method, target)
            return Reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error, see the log\n")

    async def _send(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, reply: Reply, *, head: bool
    ) -> None:
        headers = [
            ("Content-Type", reply.content_type),
            ("Content-Length", str(len(reply.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if reply.allow:
            headers.append(("Allow", reply.allow))
        response = h11.Response(
            status_code=reply.status, headers=headers, reason=reply.status.phrase.encode()
        )
        parts = [connection.send(response)]
        if not head:
            parts.append(connection.send(h11.Data(data=reply.body)))
        parts.append(connection.send(h11.EndOfMessage()))
        async with asyncio.timeout(self._limits.write_timeout):
            writer.write(b"".join(part for part in parts if part))
            await writer.drain()
