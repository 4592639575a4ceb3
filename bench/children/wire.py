"""A client that costs next to nothing: one blocking TLS connection, requests written by hand.

What is measured with it is the server. It believes what the server sends; our own client does not.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from urllib.parse import urlsplit

from nodemanager.client.auth import load
from nodemanager.client.http import tls
from nodemanager.client.http.chunked import ChunkedBody
from nodemanager.host.process import runner

TIMEOUT = 60.0
READ_SIZE = 256 * 1024
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
APPLY = "application/apply-patch+yaml"


class Refused(RuntimeError):
    """The server did not do what a benchmark asked for."""


class Target:
    """A server and who we are there, read from a kubeconfig once."""

    def __init__(self, kubeconfig: str) -> None:
        config = load.discover(path=kubeconfig, environ={}, run=runner.run)
        url = urlsplit(config.server)
        self.address = (url.hostname or "", url.port or 443)
        self.context = tls.build(config, asyncio.run(config.credentials.tls_identity()))

    def connect(self) -> Wire:
        """Open a connection."""
        plain = socket.create_connection(self.address, timeout=TIMEOUT)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Wire(self.context.wrap_socket(plain, server_hostname=self.address[0]))


class Wire:
    """One connection, one request at a time."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock = sock

    def send(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> None:
        """Send a request."""
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: bench\r\nuser-agent: bench/1\r\naccept: application/json\r\n"
        )
        if body:
            head += f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
        self.sock.sendall(head.encode() + b"\r\n" + body)

    def receive(self) -> bytes:
        """Return the body of the answer; raise Refused for anything but success."""
        data = self.head()
        head, _, rest = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = self._chunked(rest) if length is None else self._sized(rest, int(length[1]))
        check(head, body)
        return body

    def head(self) -> bytes:
        """Return everything up to the end of the headers, and what came with it."""
        data = self._read()
        while b"\r\n\r\n" not in data:
            data += self._read()
        return data

    def exchange(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> bytes:
        """Send a request and return the body of its answer."""
        self.send(method, path, body, content_type)
        return self.receive()

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()

    def _read(self) -> bytes:
        data = self.sock.recv(READ_SIZE)
        if not data:
            raise Refused("cannot measure: the server closed the connection")
        return data

    def _sized(self, rest: bytes, size: int) -> bytes:
        parts, size = [rest], size - len(rest)
        while size > 0:
            parts.append(self._read())
            size -= len(parts[-1])
        return b"".join(parts)

    def _chunked(self, rest: bytes) -> bytes:
        chunked = ChunkedBody()
        parts = [chunked.feed(rest)] if rest else []
        while not chunked.complete:
            parts.append(chunked.feed(self._read()))
        return b"".join(parts)


def check(head: bytes, body: bytes = b"") -> None:
    """Raise Refused unless the answer is a success."""
    status = _STATUS.match(head)
    if status is None or status[1] not in (b"200", b"201"):
        raise Refused(f"cannot measure: the server answered {head[:40]!r} {body[:500]!r}")
