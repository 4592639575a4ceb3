"""Closes connections that ask for nothing: headers that never end, idle clients, too many connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from asyncio.trsock import TransportSocket
from collections.abc import Iterable, Sequence
from typing import Any

log = logging.getLogger(__name__)
IDLE_SECONDS = 90.0
"""Longer than the keep-alive of aiohttp (75 s): a client that is idle for longer sends no next request."""
LOOK_EVERY = 1.0
HANG_UP_LOOK = 0.01
SHARE = 0.8
"""Share of the file descriptors that connections may take; the store and the log need some, too."""


def raise_file_limit() -> int:
    """Allow ourselves as many open files as the system lets us; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


class IdleConnections:
    """Looks at the connections of a server every second, and closes those that are idle for too long."""

    def __init__(self, limit: int, idle_seconds: float = IDLE_SECONDS) -> None:
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._since: dict[Any, float] = {}

    def close_idle(self, connections: Iterable[Any], now: float) -> int:
        """Close what is idle for too long, and the longest idle ones if there are too many; count them."""
        every = list(connections)
        # aiohttp has no public way to ask whether a connection is working on a request.
        idle = [one for one in every if getattr(one, "_current_request", one) is None]
        self._since = {one: self._since.get(one, now) for one in idle}
        oldest = sorted(self._since, key=self._since.__getitem__)
        excess = max(0, len(every) - self._limit)
        doomed = [
            one
            for place, one in enumerate(oldest)
            if place < excess or now - self._since[one] > self._idle_seconds
        ]
        for one in doomed:
            self._since.pop(one)
            one.force_close()
            if one.transport is not None:
                one.transport.abort()
        return len(doomed)

    async def run(self, connections: Any) -> None:
        """Close idle connections until cancelled; `connections` returns those that are open."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if ended := self.close_idle(connections(), loop.time()):
                log.debug("ended %d connections that asked for nothing", ended)


def sockets_of(connections: Iterable[Any]) -> list[TransportSocket]:
    """Return the sockets of connections: a transport of TLS forgets its own when it is closed."""
    transports = [one.transport for one in connections if one.transport is not None]
    return [sock for one in transports if (sock := one.get_extra_info("socket")) is not None]


async def hang_up(sockets: Sequence[TransportSocket], seconds: float) -> None:
    """Wait until these sockets, which are being closed, are closed; cut off those that take longer.

    TLS ends with a goodbye from both sides. A client that does not answer ours would keep its connection
    for half a minute, and the event loop that has to close it may be gone by then.
    """
    left = await _still_open(sockets, seconds)
    for sock in left:
        with contextlib.suppress(OSError):  # gone meanwhile
            sock.shutdown(socket.SHUT_RDWR)
    await _still_open(left, seconds)


async def _still_open(sockets: Sequence[TransportSocket], seconds: float) -> list[TransportSocket]:
    """Return, after so many seconds at most, the sockets that are not closed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (left := [one for one in sockets if one.fileno() >= 0]) and loop.time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(HANG_UP_LOOK)  # a transport reports only to its protocol
    return left
