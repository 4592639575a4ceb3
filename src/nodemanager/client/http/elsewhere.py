"""One GET to an address that is no Kubernetes API: none of our secrets are sent there.

No credential, no cookie, no proxy; redirects are not followed, so the configured address is the only
one that is asked. Certificates are checked against the system's trust store.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, Request, read_all
from nodemanager.kube import errors

MAX_BODY: Final = 1024 * 1024


class Fetched(NamedTuple):
    """What was answered."""

    status: int
    body: bytes = b""


async def fetch(url: str, *, timeout: float, wants_body: bool = True) -> Fetched:
    """Return what an address answers, within so many seconds; raise KubeError if it does not."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    transport = HttpTransport(ClientConfig(f"{parts.scheme}://{parts.netloc}"))
    try:
        async with asyncio.timeout(timeout):
            response = await transport.send(Request("GET", target, headers={"accept": "*/*"}))
            try:
                body = await read_all(response, MAX_BODY) if wants_body else b""
            finally:
                await response.close()
    except TimeoutError as error:
        raise errors.TimedOut(f"no answer within {timeout:g} s") from error
    finally:
        await transport.close()
    return Fetched(response.status, body)
