"""A certificate that is refused for its dates: whose clock is wrong is found out and said."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, Request
from nodemanager.kube import errors, times

HEARD = list[bytes]


def now() -> datetime:
    """Not when this file was read: that may be minutes ago."""
    return datetime.now(UTC).replace(microsecond=0)


@contextlib.asynccontextmanager
async def serving(expired: datetime, head: str, heard: HEARD) -> AsyncIterator[ClientConfig]:
    """A server whose certificate was good until a time, and that answers with this head."""
    ca = trustme.CA()
    made = ca.issue_cert("127.0.0.1", not_before=expired - timedelta(days=1), not_after=expired)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.configure_cert(context)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(head.encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        yield ClientConfig(f"https://127.0.0.1:{port}", ca=ca.cert_pem.bytes())
    finally:
        server.close()
        await server.wait_closed()


async def refusals(config: ClientConfig) -> list[str]:
    """Return what is said of two attempts."""
    transport, said = HttpTransport(config), []
    try:
        for _ in range(2):
            with pytest.raises(errors.TlsError) as caught:
                await transport.send(Request("GET", "/version", headers={"authorization": "Bearer secret"}))
            said.append(str(caught.value))
    finally:
        await transport.close()
    return said


def dated(moment: datetime) -> str:
    return f"HTTP/1.1 200 OK\r\nDate: {email.utils.format_datetime(moment, usegmt=True)}\r\n\r\n"


async def test_a_clock_that_is_wrong_by_a_year_is_named_with_both_times() -> None:
    theirs, heard = now() - timedelta(days=365), HEARD()
    async with serving(theirs + timedelta(days=30), dated(theirs), heard) as config:
        first, second = await refusals(config)
    assert "certificate has expired; the clock of this machine says " in first
    assert f"that of the server {times.rfc3339(theirs)}; set the one that is wrong" in first
    assert second == first, "an outage is worth one line in a log"
    assert b"secret" not in b"".join(heard), "whoever answers there is not known"


async def test_a_certificate_that_has_really_expired_is_not_blamed_on_a_clock() -> None:
    async with serving(now() - timedelta(days=1), dated(now()), HEARD()) as config:
        first, _ = await refusals(config)
    assert first.endswith("the clocks of both sides agree, so have the server get another certificate")


@pytest.mark.parametrize(
    "head",
    [
        "",
        "HTTP/1.1 200 OK\r\nDate: tomorrow\r\n\r\n",
        "HTTP/1.1 200 OK\r\nDate: Fri, 31 Dec 9999 23:59:00 -2300\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ],
)
async def test_a_server_that_does_not_say_the_time_is_no_riddle(head: str) -> None:
    async with serving(now() - timedelta(days=1), head, HEARD()) as config:
        first, _ = await refusals(config)
    assert first.endswith("check certificate-authority and tls-server-name in the kubeconfig")
