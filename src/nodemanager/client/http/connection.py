"""One HTTP/1.1 connection: asyncio streams for the bytes, h11 for their meaning."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import h11

from nodemanager import __version__
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import proxies
from nodemanager.client.http.chunked import ChunkedBody
from nodemanager.client.http.server_clock import ServerClock
from nodemanager.kube import errors

USER_AGENT = f"nodemanager/{__version__}"
CONNECT_TIMEOUT = 10.0
CLOSE_TIMEOUT = 1.0
READ_SIZE = 64 * 1024
MAX_HEADER = 64 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
"""A peer that vanished without a word is noticed within half a minute, by the kernel."""


class Dialer:
    """Opens connections to the configured server, through its proxy if there is one."""

    def __init__(self, config: ClientConfig) -> None:
        url, port = _parts(config.server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise errors.ConfigError(f"{_unusable(config.server)}: expected a URL such as https://host:6443")
        self._url = url
        self._config = config
        self._host = url.hostname
        self._port = port or (443 if url.scheme == "https" else 80)
        self._proxy = proxies.parse(config.proxy) if config.proxy else None
        authority = url.netloc.rpartition("@")[2]
        self._prefix = url.path.rstrip("/")
        self._unwanted: set[asyncio.Task[Streams]] = set()
        """Connections that are being opened for a request that was cancelled meanwhile."""
        self._clock = ServerClock(authority, lambda context: self._kept(self._open(context)))
        self._headers = {"host": authority, "user-agent": USER_AGENT}
        if self._proxy and self._proxy.forwards(url.scheme):
            self._prefix = f"{url.scheme}://{authority}{self._prefix}"
            self._headers |= self._proxy.headers

    async def dial(self, context: ssl.SSLContext | None) -> Connection:
        """Open a connection, or raise a TransportError that says where it failed."""
        where = f"cannot reach {self._config.server}"
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await self._kept(self._open(context))
        except TimeoutError as error:
            raise errors.TimedOut(f"{where}: no connection within {CONNECT_TIMEOUT:.0f} s") from error
        except ssl.SSLCertVerificationError as error:
            advice = await self._clock.advice(error)
            raise errors.TlsError(
                f"{where}: its certificate was not accepted: {error.verify_message}; {advice}"
            ) from error
        except ssl.SSLError as error:
            raise errors.TlsError(f"{where}: TLS handshake failed: {error.reason or error}") from error
        except OSError as error:
            raise errors.Unreachable(f"{where}: {_why(error)}") from error
        except UnicodeError as error:
            raise errors.ConfigError(f"{where}: {self._host!r} is not a host name") from error
        _keep_alive(writer)
        return Connection(reader, writer, context, self._prefix, self._headers)

    async def close(self) -> None:
        """Wait until unwanted connections are open, and then closed; but not for long."""
        if self._unwanted:
            _, late = await asyncio.wait(self._unwanted, timeout=CLOSE_TIMEOUT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _kept(self, opening: Coroutine[Any, Any, Streams]) -> Streams:
        """Open a connection; when we are cancelled in the meantime, close it as soon as it is there.

        Cancelled in the middle, Python 3.11 may lose a connected socket to the garbage collector.
        """
        task = asyncio.create_task(opening)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._unwanted.add(task)
            task.add_done_callback(_drop)
            task.add_done_callback(self._unwanted.discard)
            raise

    async def _open(self, context: ssl.SSLContext | None) -> Streams:
        name = self._config.tls_server_name or self._host
        if self._proxy is None:
            if context is None:
                return await asyncio.open_connection(self._host, self._port, happy_eyeballs_delay=0.25)
            return await asyncio.open_connection(
                self._host, self._port, ssl=context, server_hostname=name,
                ssl_shutdown_timeout=CLOSE_TIMEOUT, happy_eyeballs_delay=0.25,
            )  # fmt: skip
        reader, writer = await proxies.open_tunnel(self._proxy, self._url.scheme, self._host, self._port)
        if context is not None:
            await writer.start_tls(context, server_hostname=name)
        return reader, writer


def _parts(server: str) -> tuple[SplitResult, int | None]:
    """Return a URL taken apart, with its port, which is looked at only now."""
    try:
        return (url := urlsplit(server)), url.port
    except ValueError as error:
        raise errors.ConfigError(f"{_unusable(server)}: {error}") from error


def _unusable(server: str) -> str:
    return f"cannot use server {server!r}"


def _why(error: OSError) -> str:
    """Return why there is no connection; the error of asyncio names only the address."""
    if error.errno and error.errno > 0:  # those of the resolver are below
        return os.strerror(error.errno)
    return error.strerror or str(error)


class Connection:
    """One connection, one request at a time."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext | None,
        prefix: str,
        headers: Mapping[str, str],
    ) -> None:
        self.context = context
        self.idle_since = 0.0
        self._reader = reader
        self._writer = writer
        self._prefix = prefix
        self._headers = headers
        self._h11 = _new_cycle()
        self._chunked: ChunkedBody | None = None
        self._unread = b""
        self._keep_alive = True

    async def exchange(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> tuple[int, dict[str, str]]:
        """Send a request and return status and headers of the answer."""
        fields = [*self._headers.items(), *headers]
        if body or method in ("POST", "PUT", "PATCH"):
            fields.append(("content-length", str(len(body))))
        try:
            request = h11.Request(method=method, target=self._prefix + target, headers=fields)
            data = self._h11.send(request) or b""
            if body:
                data += self._h11.send(h11.Data(data=body)) or b""
            data += self._h11.send(h11.EndOfMessage()) or b""
        except h11.LocalProtocolError as error:
            raise errors.ConfigError(f"cannot send {method} {target}: {error}") from error
        self._writer.write(data)
        # A server may answer before it has read everything ("too large") and close: what it said counts
        # more than that we could not go on.
        with contextlib.suppress(OSError):
            await self._writer.drain()
        event = await self._next_event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise errors.Unreachable("cannot read the answer: the server closed the connection")
        found = {k.decode("latin-1"): v.decode("latin-1") for k, v in event.headers}
        if found.get("transfer-encoding", "").lower() == "chunked" and event.status_code not in (204, 304):
            # From here on h11 is out of it, so what it would say about reuse is decided here.
            self._chunked = ChunkedBody()
            self._unread = self._h11.trailing_data[0]
            closing = "close" in found.get("connection", "").lower()
            self._keep_alive = event.http_version == b"1.1" and not closing
        return event.status_code, found

    async def read_chunk(self, idle_timeout: float | None = None) -> bytes:
        """Return the next piece of the body, empty at its end."""
        try:
            async with asyncio.timeout(idle_timeout):
                if self._chunked is not None:
                    return await self._next_piece(self._chunked)
                event = await self._next_event()
        except TimeoutError as error:
            raise errors.TimedOut(f"cannot go on reading: no byte for {idle_timeout:.0f} s") from error
        if isinstance(event, h11.Data):
            return event.data  # bytearray in truth; everything downstream takes either
        return b""

    def usable(self) -> bool:
        """Tell whether an idle connection can still be used, as far as we have heard."""
        if self._writer.is_closing() or self._reader.at_eof() or self._reader.exception():
            return False
        # Unexpected bytes would be taken for the next answer. asyncio has no public way to
        # ask for them; without the attribute, we would be as careless as most clients are.
        return not getattr(self._reader, "_buffer", b"")

    def reset(self) -> bool:
        """Get ready for the next request; False when the answer was not read to its end."""
        if not self.usable():
            return False
        if self._chunked is not None:
            read = self._chunked.complete and not self._unread
            self._chunked, self._h11 = None, _new_cycle()
            return read and self._keep_alive
        if self._h11.trailing_data[0]:
            return False
        try:
            self._h11.start_next_cycle()
        except h11.LocalProtocolError:
            return False
        return True

    def abort(self) -> None:
        """Drop the connection at once."""
        with contextlib.suppress(AttributeError):  # Python 3.11.2: a connection of TLS that was closed twice
            self._writer.transport.abort()

    async def close(self) -> None:
        """Say goodbye, but not for long."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                self._writer.close()
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self.abort()

    async def _next_piece(self, body: ChunkedBody) -> bytes:
        """Return everything that one read completes, empty at the end of the body."""
        data, self._unread = self._unread, b""
        while not body.complete:
            data = data or await self._receive()
            if not data:
                raise errors.Unreachable("cannot read the answer: the connection was closed half-way")
            if piece := body.feed(data):
                return piece
            data = b""
        return b""

    async def _next_event(self) -> object:
        try:
            while (event := self._h11.next_event()) is h11.NEED_DATA:
                self._h11.receive_data(await self._receive())
        except h11.RemoteProtocolError as error:
            if self._reader.at_eof():
                raise errors.Unreachable(
                    "cannot read the answer: the connection was closed half-way"
                ) from error
            raise errors.ProtocolError(f"cannot read the answer: it is not HTTP: {error}") from error
        return event

    async def _receive(self) -> bytes:
        try:
            return await self._reader.read(READ_SIZE)
        except ssl.SSLError as error:
            raise errors.TlsError(
                f"cannot read the answer: TLS failed: {error.reason or error}; if the server asks for"
                " a client certificate, check that ours is not expired"
            ) from error
        except OSError as error:
            raise errors.Unreachable(
                f"cannot go on: the connection broke: {error.strerror or error}"
            ) from error


def _drop(opened: asyncio.Future[Streams]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result()[1].transport.abort()


def _new_cycle() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER)


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not every system has all four
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
