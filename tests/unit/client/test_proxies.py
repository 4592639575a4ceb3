"""Connections through proxies, each of them a real socket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trustme

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import proxies
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES
from support.clients import connected
from support.cutting import close, cut
from support.scripted_server import Exchange, serve

LEASE = {"metadata": {"name": "a", "namespace": "test"}, "spec": {}}
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answer(exchange: Exchange) -> None:
    await exchange.json(LEASE)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def server_context(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    close(writer)


async def join(near: Streams, host: str, port: int) -> None:
    far = await asyncio.open_connection(host, port)
    try:
        await asyncio.gather(pump(near[0], far[1]), pump(far[0], near[1]))
    finally:
        cut(far[1])  # also when the test ends before the client has said goodbye


@contextlib.asynccontextmanager
async def listening(handler: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    links: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await handler(reader, writer)
        close(writer)

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links[writer] = asyncio.create_task(handled(reader, writer))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in links.values():
            task.cancel()
        await asyncio.gather(*links.values(), return_exceptions=True)
        for writer in links:
            cut(writer)


class ConnectProxy:
    """An HTTP proxy that tunnels, and remembers what it was asked."""

    def __init__(self, status: str = "200 ok") -> None:
        self.heads: list[str] = []
        self._status = status

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        writer.write(f"HTTP/1.1 {self._status}\r\n\r\n".encode())
        if self._status.startswith("200"):
            host, _, port = head.split(" ")[1].rpartition(":")
            await join((reader, writer), host, int(port))


async def test_https_through_an_http_proxy_with_a_password(ca: trustme.CA) -> None:
    proxy = ConnectProxy()
    async with serve(answer, server_context(ca)) as server, listening(proxy) as port:
        config = ClientConfig(
            server.url, ca=ca.cert_pem.bytes(), proxy=f"http://us%40er:se%3Acret@127.0.0.1:{port}"
        )
        async with connected(config) as client:
            for _ in range(2):
                assert (await client.get(LEASES, "a", "test")).metadata.name == "a"
        [head] = proxy.heads  # the tunnel is kept
        assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
        assert f"Basic {base64.b64encode(b'us@er:se:cret').decode()}" in head
        assert "proxy-authorization" not in server.requests[0].headers


async def test_https_through_an_https_proxy(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca.cert_pem.write_to_path(str(tmp_path / "system.crt"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.crt"))  # what the machine trusts
    proxy = ConnectProxy()
    async with serve(answer, server_context(ca)) as server, listening(proxy, server_context(ca)) as port:
        config = ClientConfig(server.url, ca=ca.cert_pem.bytes(), proxy=f"https://127.0.0.1:{port}")
        async with connected(config) as client:
            await client.get(LEASES, "a", "test")
        assert len(proxy.heads) == 1


async def test_plain_http_is_handed_to_the_proxy_whole() -> None:
    async with serve(answer) as proxy:
        config = ClientConfig("http://api.example:8080/prefix", proxy=f"http://u:p@127.0.0.1:{proxy.port}")
        async with connected(config) as client:
            await client.get(LEASES, "a", "test")
        [request] = proxy.requests
        assert request.target.startswith("http://api.example:8080/prefix/apis/coordination.k8s.io/v1/")
        assert request.headers["host"] == "api.example:8080"
        assert request.headers["proxy-authorization"].startswith("Basic ")


async def test_a_proxy_that_refuses_is_named_without_its_password(ca: trustme.CA) -> None:
    async with listening(ConnectProxy("407 who are you")) as port:
        config = ClientConfig("https://api.example", proxy=f"http://user:secret@127.0.0.1:{port}")
        async with connected(config) as client:
            with pytest.raises(errors.Unreachable, match=r"through Proxy.*: the proxy answered 407") as e:
                await client.get(LEASES, "a", "test")
        assert "secret" not in str(e.value)


async def test_a_proxy_that_closes_at_once() -> None:
    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(slam) as port:
        for scheme in ("http", "socks5"):
            config = ClientConfig("https://api.example", proxy=f"{scheme}://127.0.0.1:{port}")
            async with connected(config) as client:
                with pytest.raises(errors.TransportError):
                    await client.get(LEASES, "a", "test")


class SocksProxy:
    """A SOCKS5 proxy, with or without a password."""

    def __init__(self, user: bytes = b"", password: bytes = b"", reply: int = 0) -> None:
        self.user, self.password, self.reply = user, password, reply
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        method = 2 if self.user else 0
        writer.write(bytes([5, method if method in methods else 0xFF]))
        if self.user:
            _, length = await reader.readexactly(2)
            user = await reader.readexactly(length)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(bytes([1, (user, password) != (self.user, self.password)]))
        *_, kind = await reader.readexactly(4)
        host = await self._host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append((host, port))
        writer.write(bytes([5, self.reply, 0, 1, 0, 0, 0, 0, 0, 0]))
        if not self.reply:
            await join((reader, writer), "127.0.0.1", port)

    async def _host(self, reader: asyncio.StreamReader, kind: int) -> str:
        if kind == 4:
            return socket.inet_ntop(socket.AF_INET6, await reader.readexactly(16))
        return (await reader.readexactly((await reader.readexactly(1))[0])).decode()


@pytest.mark.parametrize(
    ("host", "userinfo"),
    [
        pytest.param("localhost", "", id="name"),
        pytest.param("localhost", "user:secret@", id="password"),
        pytest.param("[::1]", "", id="ipv6"),
    ],
)
async def test_https_through_socks5(ca: trustme.CA, host: str, userinfo: str) -> None:
    proxy = SocksProxy(*(b"user", b"secret") if userinfo else ())
    async with serve(answer, server_context(ca)) as server, listening(proxy) as port:
        config = ClientConfig(
            f"https://{host}:{server.port}", ca=ca.cert_pem.bytes(), tls_server_name="localhost",
            proxy=f"socks5://{userinfo}127.0.0.1:{port}",
        )  # fmt: skip
        async with connected(config) as client:
            await client.get(LEASES, "a", "test")
        assert proxy.asked == [(host.strip("[]"), server.port)]


@pytest.mark.parametrize(
    "proxy",
    [
        pytest.param(SocksProxy(reply=2), id="not-allowed"),
        pytest.param(SocksProxy(b"user", b"other"), id="wrong-password"),
    ],
)
async def test_socks5_refusals(proxy: SocksProxy) -> None:
    async with listening(proxy) as port:
        config = ClientConfig("https://api.example", proxy=f"socks5://user:secret@127.0.0.1:{port}")
        async with connected(config) as client:
            with pytest.raises(errors.Unreachable, match="it refused") as e:
                await client.get(LEASES, "a", "test")
        assert "secret" not in str(e.value)


@pytest.mark.parametrize("url", ["ftp://x", "socks4://x", "http://", "nonsense"])
def test_unknown_proxies_are_refused_by_name(url: str) -> None:
    with pytest.raises(errors.ConfigError, match="expected http, https or socks5"):
        proxies.parse(url)
