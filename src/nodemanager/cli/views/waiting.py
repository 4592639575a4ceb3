"""A line on the terminal that says what is waited for, so that nobody takes it for a program that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final, TextIO

from nodemanager.cli.views import output

if TYPE_CHECKING:  # waiting for a host needs no network
    from nodemanager.client.http.transport import Request, Response, Transport

SILENT_SECONDS: Final = 1.0
"""What is over sooner needs no words."""
ERASE: Final = "\r\x1b[K"


@contextlib.asynccontextmanager
async def told(what: Callable[[], str], out: TextIO | None = None) -> AsyncIterator[None]:
    """Show what is waited for, and how long, if that takes more than a moment; on terminals only."""
    stream = sys.stderr if out is None else out
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    telling = asyncio.create_task(_tell(what, stream), name="tell what is waited for")
    try:
        yield
    finally:
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling


async def _tell(what: Callable[[], str], stream: TextIO) -> None:
    loop = asyncio.get_running_loop()
    began, shown = loop.time(), False
    try:
        while True:
            await asyncio.sleep(SILENT_SECONDS)
            width = max(10, min(60, _columns(stream) - 10))
            line = f"{output.one_line(what(), width)} ({loop.time() - began:.0f} s)"
            stream.write(f"{ERASE}{line}")
            stream.flush()
            shown = True
    finally:
        if shown:
            stream.write(ERASE)
            stream.flush()


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # it has no size, or is no file
        return 80


class TellingTransport:
    """Says that the API is waited for when it does not answer at once."""

    def __init__(self, transport: Transport, server: str) -> None:
        self._transport = transport
        self._server = server

    async def send(self, request: Request) -> Response:
        """Send a request, and have patience."""
        async with told(lambda: f"waiting for {self._server}"):
            return await self._transport.send(request)

    async def reauthenticate(self) -> bool:
        """Leave it to the transport below."""
        return await self._transport.reauthenticate()

    async def close(self) -> None:
        """Close the transport below."""
        await self._transport.close()
