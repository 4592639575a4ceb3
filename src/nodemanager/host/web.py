"""Sends requests to web addresses, with a limit for the whole time.

The timeout of a socket is one of silence: a server that sends a byte now and then, be it of what comes before
the answer itself, would keep a thread of the host for ever. So its connection is cut when the time is up.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import threading
import urllib.request
from typing import Any, Self

from nodemanager.native import authorities


class Deadline:
    """Cuts the connections of one request after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = seconds <= 0
        """Whether the time is up: an answer that ends after that is not complete."""
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            while self._sockets:
                self._sockets.pop().close()

    def check(self) -> None:
        """Raise TimeoutError if the time is up."""
        if self.passed:
            raise TimeoutError(f"it takes longer than {self.seconds:g} s")

    def watch(self, connected: socket.socket) -> None:
        """Cut this connection as well; by a descriptor of our own, as TLS takes over the one that it has."""
        with self._lock:
            self._sockets.append(connected.dup())
        if self.passed:
            self._cut()

    def _cut(self) -> None:
        with self._lock:
            self.passed = True
            for each in self._sockets:
                with contextlib.suppress(OSError):  # it has ended by itself
                    each.shutdown(socket.SHUT_RDWR)


class _Connection(http.client.HTTPConnection):
    deadline: Deadline

    def connect(self) -> None:
        super().connect()
        self.deadline.watch(self.sock)


class _SecureConnection(http.client.HTTPSConnection, _Connection):
    """Connects as the other one does, before it talks TLS."""


def _connection(kind: type[_Connection], deadline: Deadline, host: str, **how: Any) -> _Connection:
    made = kind(host, **how)
    made.deadline = deadline
    return made


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._made = functools.partial(_connection, _Connection, deadline)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._made, req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        context = authorities.client_context()
        super().__init__(context=context)
        self._made = functools.partial(_connection, _SecureConnection, deadline, context=context)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._made, req)


def opener(deadline: Deadline, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return what asks addresses, of servers that the system trusts, until the time is up."""
    return urllib.request.build_opener(_Plain(deadline), _Secure(deadline), *handlers)
