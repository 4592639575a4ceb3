"""The least that reading can cost: a blocking socket, large reads, and nobody who looks at the bytes."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from urllib.parse import urlsplit

from bench import script
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import tls

TIMEOUT = 60.0
READ_SIZE = 256 * 1024


async def read_alone(config: ClientConfig, wanted: script.Script, size: int) -> float:
    """Return the CPU seconds of receiving `size` bytes of modifications, decrypted where need be."""
    identity = await config.credentials.tls_identity()
    headers = {"host": "bench", **await config.credentials.headers()}
    url = urlsplit(config.server)
    unpaced = replace(wanted, pace=0, gated=False)
    target = f"{MANAGED_NODES.path()}?watch=1&labelSelector={unpaced.selector()}"
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    with socket.create_connection((url.hostname, url.port), timeout=TIMEOUT) as plain:
        if url.scheme == "http":
            return _read(plain, "\r\n".join(lines).encode(), size)
        with tls.build(config, identity).wrap_socket(plain, server_hostname=url.hostname) as encrypted:
            return _read(encrypted, "\r\n".join(lines).encode(), size)


def _read(sock: socket.socket, request: bytes, size: int) -> float:
    sock.sendall(request)
    buffer = bytearray(READ_SIZE)
    started = time.process_time()
    while size > 0:
        if not (received := sock.recv_into(buffer)):
            raise ConnectionError("cannot measure reading: the server ended the stream")
        size -= received  # headers and chunk sizes are counted in, and are a few bytes in a thousand
    return time.process_time() - started
