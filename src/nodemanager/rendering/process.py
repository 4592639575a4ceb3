"""One process that renders, as seen from here: send requests, read answers, end it, and report its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

import nodemanager
from nodemanager.plan.templates import jobs
from nodemanager.rendering import frames
from nodemanager.rendering.limits import MIB, RenderLimits

_BOOT: Final = "import sys; sys.path[:] = sys.argv[4:]; from nodemanager.rendering.child import main; main()"
RENDER: Final = "-render"
"""With which the static program knows that it is to render; tools/release/boot.py looks for it."""
_CHUNK: Final = 256 * 1024
_GREETING_MAX: Final = 4096
_REAP: Final = (0.0, 0.001, 0.004, 0.016, 0.064, 0.25, 1.0, 4.0)
"""Seconds between two looks whether a killed process is gone; it usually is at the second."""


class ChildProcess(Protocol):
    """A program that was started."""

    def kill(self) -> None:
        """End it, if it has not ended."""
        ...

    def poll(self) -> int | None:
        """Return its exit status, or the negative number of the signal that ended it; None while it runs."""
        ...


class Start(Protocol):
    """Starts a program with one descriptor as its stdin and nothing else (`host.runner.companion` is one)."""

    def __call__(self, argv: Sequence[str], channel: int) -> ChildProcess:
        """Start it, or raise OSError."""
        ...


class Ended(Exception):
    """The process is no more, or is not to be listened to any more; says why, as part of a sentence."""


def command(limits: RenderLimits) -> list[str]:
    """Return how to start another one of us: same interpreter, same modules, nothing of the environment."""
    numbers = map(str, (os.getpid(), limits.cpu, limits.memory))
    if getattr(sys, "frozen", False):  # the static program is interpreter and modules in one
        return [sys.executable, RENDER, *numbers]
    paths = [str(Path(nodemanager.__file__).parents[1]), *(path for path in sys.path if path.startswith("/"))]
    return [sys.executable, "-ISc", _BOOT, *numbers, *dict.fromkeys(paths)]


class RenderProcess:
    """A process and the stream to it."""

    def __init__(self, process: ChildProcess, channel: socket.socket, limits: RenderLimits) -> None:
        self._process = process
        self._channel = channel
        self._limits = limits

    @classmethod
    def begin(cls, start: Start, limits: RenderLimits) -> RenderProcess:
        """Start one, and do not wait for it: it is of use once it has greeted. Raise OSError."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = start(command(limits), theirs.fileno())
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return cls(process, ours, limits)

    async def greeted(self) -> list[str]:
        """Wait until it is of use, and return what it could not give up. Raise Ended."""
        try:
            greeting = await self._message(_GREETING_MAX, self._limits.start)
            kept, why = msgspec.msgpack.decode(greeting, type=tuple[list[str], str])
            if not why:
                return kept
        except (Ended, ValueError) as error:
            why = str(error)
        except BaseException:
            await self.end()
            raise
        await self.end()
        raise Ended(why)

    async def ask(self, request: bytes) -> None:
        """Send a request; raise Ended if the process is gone."""
        try:
            async with asyncio.timeout(self._limits.wall):
                await asyncio.get_running_loop().sock_sendall(self._channel, frames.framed(request))
        except (OSError, TimeoutError):
            raise Ended(await self._why()) from None

    async def answer(self) -> jobs.TemplateAnswer:
        """Return the next answer; raise Ended if there is none, with what to say of the template."""
        try:
            return jobs.decoded_answer(await self._message(jobs.ANSWER_MAX, self._limits.wall))
        except ValueError:
            await self.end()
            raise Ended("it made the renderer answer with nonsense") from None

    async def end(self) -> int | None:
        """End it, and return how it had ended or ends now; None for one that even SIGKILL does not end."""
        self._channel.close()
        ended = self._process.poll()
        if ended is None:
            self._process.kill()
        for pause in _REAP:
            if (status := self._process.poll()) is not None:
                return status
            await asyncio.sleep(pause)
        return None

    async def _message(self, limit: int, seconds: float) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await self._read(frames.length(await self._read(frames.HEAD), limit))
        except TimeoutError:
            await self.end()
            raise Ended(f"it took longer than {seconds:g} s and was ended") from None
        except OSError:
            raise Ended(await self._why()) from None

    async def _read(self, size: int) -> bytes:
        loop, read = asyncio.get_running_loop(), bytearray()
        while len(read) < size:
            chunk = await loop.sock_recv(self._channel, min(size - len(read), _CHUNK))
            if not chunk:
                raise ConnectionResetError
            read += chunk
        return bytes(read)

    async def _why(self) -> str:
        """Return how it ended by itself; the stream is closed a moment before the process is gone."""
        for pause in _REAP[:-2]:
            if self._process.poll() is not None:
                break
            await asyncio.sleep(pause)
        return ending(await self.end(), self._limits)


def ending(status: int | None, limits: RenderLimits) -> str:
    """Return what an exit status says about the template that was being rendered."""
    if status == -signal.SIGXCPU:
        return f"it needs more than {limits.cpu} s of processor time"
    if status in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE):
        return f"it made the renderer crash ({signal.Signals(-status).name})"
    if status == -signal.SIGKILL:
        return "the renderer was killed while at it, most likely because memory was short"
    if status is not None and status < 0:
        return f"the renderer was ended by signal {-status} while at it"
    return f"it ended the renderer (status {status}); it may have {limits.memory // MIB} MiB of memory"
