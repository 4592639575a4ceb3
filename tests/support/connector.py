"""Connections of aiohttp that end with their session.

aiohttp closes the connection of an answer that was not read to its end, such as a watch, with a goodbye of
TLS, and forgets it. It is open until the peer has said goodbye, too, or for half a minute: on a busy machine
longer than the session, than the test and than its event loop.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import aiohttp

from support.scripted_server import until


class Connector(aiohttp.TCPConnector):
    """All of whose connections are closed when it is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(socket_factory=self._make, **options)
        self.made: list[socket.socket] = []
        """Those that are open, and perhaps some that were."""

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close what is in the pool, then tell the kernel to end what aiohttp has forgotten."""
        await super().close(abort_ssl=abort_ssl)
        for one in self._open():
            with contextlib.suppress(OSError):  # the peer was quicker
                one.shutdown(socket.SHUT_RDWR)
        await until(lambda: not self._open())

    def _make(self, address: Any) -> socket.socket:
        made = socket.socket(*address[:3])
        self.made = [*self._open(), made]
        return made

    def _open(self) -> list[socket.socket]:
        return [one for one in self.made if one.fileno() >= 0]
