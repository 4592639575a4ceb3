"""Real TLS handshakes between two sockets of one process."""

from __future__ import annotations

import concurrent.futures
import socket
import ssl
from typing import Any, NamedTuple

TIMEOUT = 50.0


class Seen(NamedTuple):
    """What each side learned of the other."""

    of_client: dict[str, Any]
    client_der: bytes
    of_server: dict[str, Any]
    version: str


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> Seen:
    """Connect, send one byte each way (TLS 1.3 reports a refused client only then), and look.

    When both sides fail, the one that did not trust the other is raised: its peer sees an alert or,
    when that is overtaken by the end of the connection, only a reset.
    """
    left, right = socket.socketpair()
    for end in (left, right):
        end.settimeout(TIMEOUT)
    with left, right, concurrent.futures.ThreadPoolExecutor(1) as pool:
        serving = pool.submit(_serve, server, left)
        failures: list[BaseException] = []
        of_server: dict[str, Any] = {}
        version = ""
        try:
            of_server, version = _visit(client, right, name)
        except OSError as err:
            failures.append(err)
        right.close()
        failed = serving.exception(TIMEOUT)
        failures += [failed] if failed else []
        for failure in sorted(failures, key=lambda one: not isinstance(one, ssl.SSLCertVerificationError)):
            raise failure
        of_client, der = serving.result()
        return Seen(of_client, der, of_server, version)


def _visit(context: ssl.SSLContext, end: socket.socket, name: str) -> tuple[dict[str, Any], str]:
    with context.wrap_socket(end, server_hostname=name) as secure:
        secure.sendall(b"?")
        if secure.recv(1) != b"!":
            raise ConnectionResetError("the server ended the connection")
        return dict(secure.getpeercert() or {}), str(secure.version())


def _serve(context: ssl.SSLContext, end: socket.socket) -> tuple[dict[str, Any], bytes]:
    with context.wrap_socket(end, server_side=True) as secure:
        assert secure.recv(1) == b"?"
        secure.sendall(b"!")
        return dict(secure.getpeercert() or {}), secure.getpeercert(binary_form=True) or b""
