"""Asks the agent of this host how it goes, on the socket that it answers on."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
from collections.abc import Iterator
from typing import Final

import msgspec

from nodemanager.agent.report import status_socket
from nodemanager.agent.report.local_status import SOCKET, Snapshot
from nodemanager.host.files.tree import Tree
from nodemanager.kube.errors import UNREADABLE

ANSWER_SECONDS: Final = 10.0
MAX_BYTES: Final = 16 * 1024 * 1024


class NotRunning(Exception):
    """There is no agent to ask."""


class CannotAsk(OSError):
    """There is an agent, or may be, that does not answer us."""


class Line:
    """An open line to the agent of a root."""

    def __init__(self, root: str, request: bytes = b"once\n") -> None:
        self._socket = _connected(root)
        self._rest = b""
        self._heard = False
        """The agent has said something: if it hangs up then, it has ended."""
        try:
            self._socket.sendall(request)
        except OSError as error:
            self._socket.close()
            raise NotRunning(str(error)) from error

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def next(self, seconds: float = ANSWER_SECONDS) -> Snapshot | None:
        """Return the next snapshot, or None if none comes in time; raises NotRunning when the agent ends."""
        while b"\n" not in self._rest:
            if not select.select([self._socket], [], [], seconds)[0]:
                return None
            more = self._receive()
            if not more:
                raise self._ended()
            self._rest += more
            if len(self._rest) > MAX_BYTES:
                raise CannotAsk(f"cannot read the status: it is larger than {MAX_BYTES} bytes")
        self._heard = True
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=Snapshot)
        except UNREADABLE as error:
            raise CannotAsk(
                f"cannot read the status: {error}; the agent may be of another version: restart it"
            ) from error

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except ConnectionResetError:
            return b""

    def _ended(self) -> Exception:
        if self._heard:
            return NotRunning("the agent has ended")
        return CannotAsk(
            "cannot ask the agent: it hung up; too many may ask at once, so try again in a moment"
        )


def ask(root: str, request: bytes = b"once\n") -> Snapshot:
    """Return how it goes on a host right now, after what was requested."""
    with contextlib.closing(Line(root, request)) as line:
        found = line.next()
    if found is None:
        raise CannotAsk(
            f"cannot ask the agent: it does not answer within {ANSWER_SECONDS:g} s, so it may hang; "
            "its log says more, and its watchdog restarts it"
        )
    return found


def follow(root: str, seconds: float) -> Iterator[Snapshot | None]:
    """Yield every change; None when `seconds` have passed without one. Raises NotRunning when it ends."""
    with contextlib.closing(Line(root, status_socket.WATCH)) as line:
        while True:
            yield line.next(seconds)


def _connected(root: str) -> socket.socket:
    tree = Tree(root)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(ANSWER_SECONDS)
    try:
        made.connect(status_socket.address(tree, SOCKET))
    except OSError as error:
        made.close()
        shown = tree.outside(SOCKET)
        if error.errno in (errno.EACCES, errno.EPERM):
            raise CannotAsk(
                f"cannot ask the agent on {shown}: only root may; run it with sudo, or ask the API: "
                "nodemanager get mn"
            ) from error
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            raise NotRunning(f"nothing answers on {shown}") from error
        raise CannotAsk(f"cannot ask the agent on {shown}: {error.strerror or error}") from error
    finally:
        tree.close()
    return made
