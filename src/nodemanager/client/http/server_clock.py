"""Tells a certificate that has really expired from a machine whose clock is wrong.

A certificate is judged by our own clock. When that refuses one, we ask the server what time it is: on a
connection that is not verified, so no secret is sent on it, and the answer goes into a message and
nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from nodemanager.kube import times

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
OUT_OF_TIME: Final = (9, 10)
"""What OpenSSL says of a certificate that is not valid yet, or not any more."""
SLACK: Final = timedelta(minutes=5)
ASK_SECONDS: Final = 5.0
MAX_HEAD: Final = 16384
OUR_CLOCK: Final = "the clock of this machine"
_DATE: Final = re.compile(rb"^date:[ \t]*([ -~]{1,64})\r?$", re.IGNORECASE | re.MULTILINE)


class ServerClock:
    """Compares our clock with that of a server, when it matters."""

    def __init__(
        self, authority: str, open_unverified: Callable[[ssl.SSLContext], Awaitable[Streams]]
    ) -> None:
        self._authority = authority
        self._open = open_unverified
        self._off: timedelta | None = None
        self._said = ""

    async def advice(self, error: ssl.SSLCertVerificationError) -> str:
        """Return what to do about a certificate that was refused; the same words as long as they are true."""
        if error.verify_code in OUT_OF_TIME and (theirs := await self._ask()) is not None:
            ours = datetime.now(UTC)
            if abs(ours - theirs) <= SLACK:
                return "the clocks of both sides agree, so have the server get another certificate"
            if self._off is None or abs(ours - theirs - self._off) > SLACK:
                self._off = ours - theirs
                self._said = (
                    f"{OUR_CLOCK} says {times.rfc3339(ours)}, that of the server {times.rfc3339(theirs)}; "
                    "set the one that is wrong, here for instance with timedatectl set-ntp true"
                )
            return self._said
        return "check certificate-authority and tls-server-name in the kubeconfig"

    async def _ask(self) -> datetime | None:
        """Return the time of the server, to the second; None if it does not say."""
        import email.utils  # here: nine modules, for a question that most processes never ask

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with contextlib.suppress(OSError, ValueError, OverflowError, asyncio.IncompleteReadError):
            async with asyncio.timeout(ASK_SECONDS):
                reader, writer = await self._open(context)
                try:
                    writer.write(f"HEAD / HTTP/1.1\r\nHost: {self._authority}\r\n\r\n".encode())
                    head = await reader.read(MAX_HEAD)
                finally:
                    writer.transport.abort()
            if found := _DATE.search(head):
                return email.utils.parsedate_to_datetime(found[1].decode()).astimezone(UTC)
        return None
