"""One POST to an address that is a secret: error messages do not repeat it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, Request
from nodemanager.kube import errors

TIMEOUT: Final = 10.0
MAX_URL: Final = 4096
CA: Final = "ca.crt"
"""Key with the authority of the other side's certificate, beside the address."""


class NotDelivered(Exception):
    """Why something was not delivered, and what to do; without the address."""


class Address:
    """The address of a receiver."""

    def __init__(
        self, text: str, ca: bytes | None, where: str, schemes: tuple[str, ...] = ("http", "https")
    ) -> None:
        self.where = where
        try:
            url = urlsplit(text.strip())
            good = url.scheme in schemes and bool(url.hostname) and url.port != 0
        except ValueError:
            good = False
        if not good or not text.strip().isascii() or not text.strip().isprintable() or len(text) > MAX_URL:
            raise NotDelivered(f"{where} is no address: write https://HOST/PATH into it")
        self.config = ClientConfig(f"{url.scheme}://{url.netloc.rpartition('@')[2]}", ca=ca)
        self.target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self.headers: dict[str, str] = {}
        if url.username:
            pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
            self.headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"

    def __repr__(self) -> str:
        return f"Address({self.where})"


async def post(to: Address, body: bytes, headers: Mapping[str, str]) -> None:
    """Deliver a body, or say why not. A redirect is no delivery: it could lead anywhere."""
    status = await _answer(to, Request("POST", to.target, body, {**to.headers, **headers}))
    if 300 <= status < 400:
        said = "which is not followed: write the address where it leads"
        raise NotDelivered(f"it redirects ({status}), {said} into {to.where}")
    if not 200 <= status < 300:
        raise NotDelivered(f"it answers {status}: see whether the address in {to.where} is still right")


async def _answer(to: Address, request: Request) -> int:
    """Return the status that a request is answered with; the rest of the answer is not read."""
    see = f"see whether the address in {to.where} is right, and can be reached from the operator"
    try:
        transport = HttpTransport(to.config)
        try:
            async with asyncio.timeout(TIMEOUT):
                response = await transport.send(request)
                return response.status
        finally:
            await transport.close()
    except (TimeoutError, errors.TimedOut):
        raise NotDelivered(f"it does not answer within {TIMEOUT:g} s: {see}") from None
    except errors.TlsError:
        said = f"write its authority into key {CA} of the same Secret, if it is none that everybody knows"
        raise NotDelivered(f"its certificate is not accepted: {said}") from None
    except errors.ConfigError:
        raise NotDelivered(f"it cannot be used: {see}, and whether key {CA} is PEM") from None
    except (errors.KubeError, OSError):
        raise NotDelivered(f"it cannot be reached: {see}") from None
