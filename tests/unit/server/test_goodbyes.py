"""A server that ends leaves no connection open, whatever its clients do."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nodemanager.client.auth.config import ClientConfig
from nodemanager.server import embedded
from support import whole_server

ASK = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"


def visit(config: ClientConfig) -> ssl.SSLSocket:
    """Ask something, and stay."""
    url = urlsplit(config.server)
    assert config.ca is not None
    context = ssl.create_default_context(cadata=config.ca.decode())
    plain = socket.create_connection((str(url.hostname), url.port), timeout=50)
    secure = context.wrap_socket(plain, server_hostname="127.0.0.1")
    secure.sendall(ASK)
    assert secure.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
    return secure


async def test_who_does_not_return_the_goodbye_of_tls_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "GOODBYE_SECONDS", 0.1)
    async with whole_server.serving(tmp_path) as (config, _):
        secure = await asyncio.to_thread(visit, config)
    with socket.socket(fileno=secure.detach()) as plain:
        plain.settimeout(50)
        assert await asyncio.to_thread(_to_the_end, plain)  # the goodbye, and then the end of the connection


def _to_the_end(plain: socket.socket) -> bytes:
    heard = b""
    while more := plain.recv(65536):
        heard += more
    return heard
