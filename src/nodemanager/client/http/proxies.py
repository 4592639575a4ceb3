"""Connections through a proxy: HTTP CONNECT, HTTPS proxies, SOCKS5."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import h11

from nodemanager.kube import errors
from nodemanager.native import authorities

DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as `proxy-url` names it."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.scheme}://{self.host}:{self.port})"

    @property
    def headers(self) -> dict[str, str]:
        """Headers that authenticate us to an HTTP proxy."""
        if not self.user:
            return {}
        token = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return {"proxy-authorization": f"Basic {token}"}

    def forwards(self, scheme: str) -> bool:
        """Tell whether plain HTTP requests are handed to the proxy whole instead of tunnelled."""
        return scheme == "http" and self.scheme in ("http", "https")


def parse(url: str) -> Proxy:
    """Read a proxy URL; the message of the error never repeats a password."""
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise errors.ConfigError(
            f"cannot use a proxy-url with scheme {parts.scheme!r}: expected http, https or socks5"
        )
    return Proxy(
        parts.scheme,
        parts.hostname,
        parts.port or DEFAULT_PORTS[parts.scheme],
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


async def open_tunnel(proxy: Proxy, scheme: str, host: str, port: int) -> Streams:
    """Return streams whose far end is `host:port` (or the proxy itself, when it forwards)."""
    context = None
    if proxy.scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authorities.load(context)
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port, ssl=context)
    try:
        if proxy.scheme.startswith("socks5"):
            await _socks5(reader, writer, proxy, (host, port))
        elif not proxy.forwards(scheme):
            await _connect(reader, writer, proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: Proxy, authority: str
) -> None:
    wire = h11.Connection(h11.CLIENT)
    headers = [("host", authority), *proxy.headers.items()]
    writer.write(wire.send(h11.Request(method="CONNECT", target=authority, headers=headers)) or b"")
    writer.write(wire.send(h11.EndOfMessage()) or b"")
    try:
        while (event := wire.next_event()) is h11.NEED_DATA:
            # In TLS and in HTTP the server speaks second, so nothing of its can follow the header here.
            wire.receive_data(await reader.read(4096))
    except h11.RemoteProtocolError as error:
        raise errors.ProtocolError(f"cannot use {proxy!r}: it does not speak HTTP") from error
    if not isinstance(event, h11.Response) or not 200 <= event.status_code < 300:
        code = getattr(event, "status_code", "nothing")
        raise errors.Unreachable(f"cannot reach {authority} through {proxy!r}: the proxy answered {code}")


async def _socks5(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: Proxy, target: tuple[str, int]
) -> None:
    """RFC 1928 with RFC 1929 passwords; the proxy resolves the name, as in Go."""
    refused = errors.Unreachable(f"cannot reach {target[0]}:{target[1]} through {proxy!r}: it refused")
    writer.write(b"\x05\x02\x00\x02" if proxy.user else b"\x05\x01\x00")
    version, method = await _exactly(reader, 2, proxy)
    if version != 5 or method not in (0, 2):
        raise refused
    if method == 2:
        user, password = proxy.user.encode()[:255], proxy.password.encode()[:255]
        writer.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await _exactly(reader, 2, proxy))[1] != 0:
            raise refused
    if ":" in target[0]:
        address = b"\x04" + socket.inet_pton(socket.AF_INET6, target[0])
    else:
        name = target[0].encode("idna")
        address = bytes([3, len(name)]) + name
    writer.write(b"\x05\x01\x00" + address + target[1].to_bytes(2, "big"))
    _, reply, _, kind = await _exactly(reader, 4, proxy)
    if reply != 0 or kind not in (1, 3, 4):
        raise refused
    length = {1: 4, 4: 16}.get(kind) or (await _exactly(reader, 1, proxy))[0]
    await _exactly(reader, length + 2, proxy)


async def _exactly(reader: asyncio.StreamReader, count: int, proxy: Proxy) -> bytes:
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError as error:
        raise errors.Unreachable(f"cannot use {proxy!r}: it closed the connection") from error
