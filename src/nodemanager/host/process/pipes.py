"""Pipes between us and a child, served by the event loop without blocking it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from types import TracebackType
from typing import Self

_CHUNK = 64 * 1024


class Pipe:
    """One pipe to a child, served by the event loop without blocking it.

    asyncio's own pipes are not used: with them, waiting for a child also waits for every
    process that inherited its stdout.
    """

    def __init__(self) -> None:
        self.child_end = -1
        self.our_end = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close_child_end()
        self.close_our_end()

    def attach(self, abort: Callable[[], None]) -> None:
        """Start serving the pipe, once the child has its end; `abort` ends the child."""
        raise NotImplementedError

    def close_child_end(self) -> None:
        """Drop our copy of the child's end, or we would keep the pipe open ourselves."""
        if self.child_end >= 0:
            os.close(self.child_end)
            self.child_end = -1

    def close_our_end(self) -> None:
        """Stop serving the pipe and close it; may be called twice."""
        if self.our_end >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.our_end)
            loop.remove_writer(self.our_end)
            os.close(self.our_end)
            self.our_end = -1


class Output(Pipe):
    """Collects what a child writes, up to a limit."""

    def __init__(self, limit: int):
        super().__init__()
        self.overflowed = False
        self._limit = limit
        self._data = bytearray()
        self._abort: Callable[[], None] = _nothing

    def __enter__(self) -> Self:
        self.our_end, self.child_end = os.pipe()
        os.set_blocking(self.our_end, False)
        return self

    def attach(self, abort: Callable[[], None]) -> None:
        """Start reading; too much output aborts the child."""
        self._abort = abort
        self.close_child_end()
        asyncio.get_running_loop().add_reader(self.our_end, self._read)

    def drain(self) -> None:
        """Read what is in the pipe now, without waiting for processes that still hold it open."""
        while self._read():
            pass

    def collected(self) -> bytes:
        """Return everything read so far."""
        return bytes(self._data)

    def _read(self) -> bool:
        if self.our_end < 0:
            return False
        try:
            chunk = os.read(self.our_end, _CHUNK)
        except BlockingIOError:
            return False
        self._data += chunk
        if len(self._data) > self._limit:
            self.overflowed = True
            self._abort()
        if not chunk or self.overflowed:
            self.close_our_end()
            return False
        return True


class LinesOutput(Output):
    """Hands over what a child writes, line by line; the limit is that of one line."""

    def __init__(self, limit: int, heard: Callable[[bytes], None]):
        super().__init__(limit + _CHUNK)  # many short lines that come at once are not a long one
        self._longest = limit
        self._heard = heard

    def _read(self) -> bool:
        more = super()._read()
        *lines, rest = bytes(self._data).split(b"\n")
        self._data[:] = rest
        for line in lines:
            self._heard(line)
        if len(rest) > self._longest and not self.overflowed:
            self.overflowed = True
            self._abort()
            self.close_our_end()
        return more and not self.overflowed


class Input(Pipe):
    """Feeds bytes to a child's stdin and then closes it; without bytes there is no pipe."""

    def __init__(self, data: bytes):
        super().__init__()
        self._rest = memoryview(data)

    def __enter__(self) -> Self:
        if self._rest:
            self.child_end, self.our_end = os.pipe()
            os.set_blocking(self.our_end, False)
        return self

    def attach(self, abort: Callable[[], None]) -> None:  # noqa: ARG002 - input cannot grow too large
        """Start writing."""
        self.close_child_end()
        if self.our_end >= 0:
            asyncio.get_running_loop().add_writer(self.our_end, self._write)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self.our_end, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # a child may well ignore its input; its exit status says if it minds
            self._rest = self._rest[:0]
        if not self._rest:
            self.close_our_end()


def _nothing() -> None:
    """Do nothing: there is no child yet."""
