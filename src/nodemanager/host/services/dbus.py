"""A small D-Bus client: one connection, one task, every wait bounded.

Calls are pipelined: `ask` sends any number of them and then collects the replies, so that looking at
a hundred units costs as many round trips as looking at one. Signals that arrive meanwhile are kept
for the caller that waits for them. There is no background task and no reconnection: connecting
to a local socket takes less than a millisecond, so every visit opens a connection of its own.

    BusError (a HostError)
    +-- BusUnreachable   no process listens, or a wrong one does, or the conversation broke
    +-- Refused          the peer answered with an error; `code` is its name
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nodemanager.host.base import HostError

if TYPE_CHECKING:
    from nodemanager.host.services.dbus_messages import BusCall, BusFailure, BusReply, Signal

CONNECT_SECONDS: Final = 5.0
MAX_SIGNALS: Final = 4096
"""How many signals are kept; beyond that, the oldest are dropped."""
MAX_IN_FLIGHT: Final = 64
"""How many calls may be open: a system bus refuses more than 128 of a connection."""
_PEER: Final = struct.Struct("iII")


class BusError(HostError):
    """A D-Bus call failed."""


class BusUnreachable(BusError):
    """No process answers at that socket, or a wrong one."""


class CallRefused(BusError):
    """The peer answered with an error."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said or code)
        self.code = code


class BusConnection:
    """An authenticated connection; not for several tasks at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from nodemanager.host.services import dbus_messages  # not before a service is declared

        self._messages = dbus_messages
        self._decoder = dbus_messages.Decoder()
        self._reader = reader
        self._writer = writer
        self._serial = 0
        self._signals: deque[Signal] = deque(maxlen=MAX_SIGNALS)

    @classmethod
    async def open(cls, path: str, *, owner: int | None = None) -> BusConnection:
        """Connect to a socket, whose listener must be user `owner` if one is given, and say who we are."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    _check_owner(writer, path, owner)
                    await _authenticate(reader, writer)
                except BaseException:
                    writer.close()
                    raise
        except TimeoutError:
            raise BusUnreachable(f"{path} did not answer within {CONNECT_SECONDS:g} s") from None
        except BusError:
            raise
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise BusUnreachable(f"{path}: {_why(error)}") from error
        return cls(reader, writer)

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._writer.wait_closed()

    async def call(self, call: BusCall, timeout: float) -> tuple[Any, ...]:
        """Call a method and return its answer; raises Refused."""
        [answer] = await self.ask([call], timeout)
        if isinstance(answer, CallRefused):
            raise answer
        return answer

    async def ask(self, calls: Sequence[BusCall], timeout: float) -> list[tuple[Any, ...] | CallRefused]:
        """Make many calls at once; their answers, or errors, are in the order of the calls."""
        answers: dict[int, tuple[Any, ...] | CallRefused] = {}
        first = self._serial + 1
        waiting: set[int] = set()
        ahead = deque(calls)
        try:
            async with asyncio.timeout(timeout):
                while ahead or waiting:
                    while ahead and len(waiting) < MAX_IN_FLIGHT:
                        waiting.add(self._send(ahead.popleft()))
                    await self._writer.drain()
                    message = await self._receive()
                    if message is not None and message.serial in waiting:
                        waiting.discard(message.serial)
                        answers[message.serial] = self._answer(message)
        except TimeoutError:
            raise BusUnreachable(f"there was no answer within {timeout:g} s") from None
        except (OSError, EOFError, ValueError) as error:
            raise BusUnreachable(f"the connection broke: {_why(error)}") from error
        return [answers[first + index] for index in range(len(calls))]

    async def signal(self, wanted: Callable[[Signal], bool], timeout: float | None) -> Signal | None:
        """Return the first signal that is wanted, also one that came before; None if none comes in time.

        Without a timeout it is waited for as long as the connection holds.

        Signals before it that are not wanted are forgotten.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    while self._signals:
                        one = self._signals.popleft()
                        if wanted(one):
                            return one
                    await self._receive()
        except TimeoutError:
            return None
        except (OSError, EOFError, ValueError) as error:
            raise BusUnreachable(f"the connection broke: {_why(error)}") from error

    def _send(self, call: BusCall) -> int:
        self._serial += 1
        self._writer.write(self._messages.encode(call, self._serial))
        return self._serial

    async def _receive(self) -> BusReply | BusFailure | None:
        """Return the next answer; None when it was a signal, which is kept."""
        while (message := self._decoder.next()) is None:
            data = await self._reader.read(65536)
            if not data:
                raise EOFError("the peer hung up")
            self._decoder.feed(data)
        if isinstance(message, self._messages.Signal):
            self._signals.append(message)
            return None
        return message

    def _answer(self, message: BusReply | BusFailure) -> tuple[Any, ...] | CallRefused:
        if isinstance(message, self._messages.BusFailure):
            return CallRefused(message.code, message.said)
        return message.body


def _check_owner(writer: asyncio.StreamWriter, path: str, owner: int | None) -> None:
    """A socket in a user's directory may lead anywhere; root must not be sent to another manager by it."""
    if owner is None:
        return
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    found = _PEER.unpack(peer)[1]
    if found != owner:
        raise BusUnreachable(f"{path} belongs to user number {found}, not to {owner}")


async def _authenticate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say who we are, which the kernel has said already, and begin: all at once, as systemctl does.

    A systemd that reads BEGIN and the first call in one go leaves the call lying until more arrives.
    """
    user = str(os.geteuid()).encode().hex()
    writer.write(f"\0AUTH EXTERNAL {user}\r\nBEGIN\r\n".encode())
    await writer.drain()
    line = await reader.readuntil(b"\r\n")
    if not line.startswith(b"OK "):
        raise ConnectionRefusedError(f"it does not let user number {os.geteuid()} in")


def _why(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
