"""Starts all other programs, with limits for their time and output.

    RunError (an OSError)
    +-- CommandNotFound (also FileNotFoundError)   there is no such program
    +-- CommandTimedOut (also TimeoutError)        it was killed because it took too long
    +-- OutputTooLarge                             it was killed because it wrote too much
    +-- CommandFailed                              it ran and said no (`Completed.check`)

Every child leads a session of its own, so that it and all it started can be ended as one
process group. A child that exits normally has succeeded: a process that it left running (a daemon that
an init script started) is not killed, and not waited for, even if it holds our pipes open.

A program that leaves a mess behind when it is killed (a package manager) is run with `finish`:
nothing that happens to us ends it. It writes to files and not to pipes, because a pipe breaks
when we go; and a thread waits for it, because asyncio kills its children when it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from nodemanager.host.process import priority
from nodemanager.host.process.pipes import Input, LinesOutput, Output

MAX_OUTPUT = 1024 * 1024
"""How much a child may write to stdout and to stderr, unless the caller sets another limit."""
MAX_LINE = 64 * 1024
"""The longest line of a followed program."""
TERM_GRACE = 2.0
"""Seconds between asking a process group to end and killing it."""

_SHOWN_COMMAND = 200
_SHOWN_OUTPUT = 1024


class RunError(OSError):
    """A program could not be run, or failed."""


class CommandNotFound(RunError, FileNotFoundError):
    """There is no such program."""


class CommandTimedOut(RunError, TimeoutError):
    """The program took longer than allowed; it was killed, unless it had to be left to finish."""


class OutputTooLarge(RunError):
    """The program was killed because it wrote more than allowed."""


class CommandFailed(RunError):
    """The program ran and ended with a status other than 0."""

    def __init__(self, completed: Completed):
        self.argv = completed.argv
        self.returncode = completed.returncode
        self.stdout = tail(completed.stdout)
        self.stderr = tail(completed.stderr)
        said = self.stderr or self.stdout or "it said nothing"
        super().__init__(f"cannot run {_shown(self.argv)}: {_ending(self.returncode)}: {said}")


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended and what it wrote."""

    argv: tuple[str, ...]
    returncode: int
    """Exit status, or the negative number of the signal that ended it."""
    stdout: bytes
    stderr: bytes

    def check(self) -> Completed:
        """Return self, or raise CommandFailed if the program did not succeed."""
        if self.returncode != 0:
            raise CommandFailed(self)
        return self


async def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float,
    max_output: int = MAX_OUTPUT,
    cwd: str | None = None,
    finish: bool = False,
    bounded: bool = False,
) -> Completed:
    """Run a program to its end and return what it wrote, whatever its exit status.

    `env` replaces the environment (None = ours); a program without a slash is looked up in
    the PATH of that environment. On timeout, cancellation and too much output the whole
    process group is ended before this returns. With `finish` it is not: the program goes on
    to its own end, also after we are gone, and of too much output the last part is returned. A program
    that is `bounded` is ended after its time all the same, as long as we are there to do it.
    """
    argv = tuple(argv)
    if finish:
        with _files(argv, stdin) as files:
            status = await _left_alone(argv, files, env, cwd, timeout, bounded=bounded)
            return Completed(argv, status, _end_of(files[1], max_output), _end_of(files[2], max_output))
    with _pipes(argv, stdin, max_output) as (source, stdout, stderr):
        process = await _start(argv, source.child_end, (stdout.child_end, stderr.child_end), env, cwd)
        for pipe in (source, stdout, stderr):
            pipe.attach(lambda: _abort(process))
        try:
            async with asyncio.timeout(timeout):
                await process.wait()
        except TimeoutError:
            fate = "was killed" if await _end(process) else "could not even be killed"
            raise CommandTimedOut(
                f"cannot run {_shown(argv)}: it did not finish within {timeout:g} s and {fate}"
            ) from None
        except BaseException:
            await _end(process)
            raise
        stdout.drain()
        stderr.drain()
        if stdout.overflowed or stderr.overflowed:
            name = "stdout" if stdout.overflowed else "stderr"
            raise OutputTooLarge(
                f"cannot run {_shown(argv)}: it wrote more than {max_output} bytes to {name}"
            )
        return Completed(argv, process.returncode or 0, stdout.collected(), stderr.collected())


async def follow(
    argv: Sequence[str], heard: Callable[[bytes], None], *, env: Mapping[str, str] | None = None
) -> int:
    """Run a program that goes on and on, and hand over its lines; it ends with us.

    Returns its exit status if it ends before. Its stderr is not read.
    """
    argv = tuple(argv)
    with LinesOutput(MAX_LINE, heard) as lines:
        process = await _start(argv, -1, (lines.child_end, subprocess.DEVNULL), env, "/")
        lines.attach(lambda: _abort(process))
        try:
            await process.wait()
        except BaseException:
            await _end(process)
            raise
        lines.drain()
        return process.returncode or 0


@contextlib.contextmanager
def _pipes(argv: tuple[str, ...], stdin: bytes, max_output: int) -> Iterator[tuple[Input, Output, Output]]:
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(Input(stdin))
            outputs = [stack.enter_context(Output(max_output)) for _ in range(2)]
        except OSError as error:  # no file descriptors left
            raise RunError(f"cannot run {_shown(argv)}: {error.strerror or error}") from error
        yield source, outputs[0], outputs[1]


async def _start(
    argv: tuple[str, ...],
    stdin: int,
    outputs: tuple[int, int],
    env: Mapping[str, str] | None,
    cwd: str | None,
) -> asyncio.subprocess.Process:
    with _starting(argv, cwd), priority.usual():
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=stdin if stdin >= 0 else subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            env=env,
            cwd=cwd,
            close_fds=True,
            start_new_session=True,
        )


@contextlib.contextmanager
def _starting(argv: tuple[str, ...], cwd: str | None) -> Iterator[None]:
    """Turn what the system says when a program does not start into errors of ours."""
    if not argv or not argv[0]:
        raise RunError("cannot run a command: no program was named")
    try:
        yield
    except FileNotFoundError as error:
        if cwd is not None and error.filename == cwd:
            raise RunError(f"cannot run {_shown(argv)}: there is no directory {cwd}") from error
        raise CommandNotFound(
            f"cannot run {_shown(argv)}: {argv[0]} (or the interpreter its first line names) is not there"
        ) from error
    except OSError as error:
        raise RunError(f"cannot run {_shown(argv)}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL byte, a lone surrogate, or "=" in the name of a variable
        raise RunError(f"cannot run {_shown(argv)}: an argument or variable is malformed: {error}") from None


def companion(argv: Sequence[str], channel: int) -> subprocess.Popen[bytes]:
    """Start a program that talks to us through one descriptor and has nothing else of ours.

    It runs at our priority, as part of our own work; the caller kills it, and reads how it ended.
    """
    argv = tuple(argv)
    with _starting(argv, "/"):
        return subprocess.Popen(  # noqa: S603 - an argv
            argv, stdin=channel, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}, cwd="/",
            start_new_session=True,
        )  # fmt: skip


@contextlib.contextmanager
def _files(argv: tuple[str, ...], stdin: bytes) -> Iterator[tuple[IO[bytes], IO[bytes], IO[bytes]]]:
    """Open files without a name for stdin, stdout and stderr."""
    import tempfile  # here, because it brings compressors along that an agent at rest has no use for

    with contextlib.ExitStack() as stack:
        try:
            source, stdout, stderr = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            source.write(stdin)
            source.seek(0)
        except OSError as error:
            raise RunError(f"cannot run {_shown(argv)}: {error.strerror or error}") from error
        yield source, stdout, stderr


async def _left_alone(
    argv: tuple[str, ...],
    files: tuple[IO[bytes], IO[bytes], IO[bytes]],
    env: Mapping[str, str] | None,
    cwd: str | None,
    timeout: float,
    *,
    bounded: bool,
) -> int:
    """Start a program, wait until it ends or our patience does, and return its exit status."""
    with _starting(argv, cwd), priority.usual():
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - an argv, and asyncio's own start blocks as long
            argv, stdin=files[0], stdout=files[1], stderr=files[2], env=env, cwd=cwd, start_new_session=True
        )
    ended = _ending_of(process)
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.shield(ended)
    except TimeoutError:
        if bounded:
            fate = "was killed" if await _end_left_alone(process, ended) else "could not even be killed"
            raise CommandTimedOut(
                f"cannot run {_shown(argv)}: it did not finish within {timeout:g} s and {fate}"
            ) from None
        raise CommandTimedOut(
            f"cannot wait any longer for {_shown(argv)}: it still runs after {timeout:g} s, as process"
            f" {process.pid}, and is left to finish; look what it waits for"
        ) from None


async def _end_left_alone(process: subprocess.Popen[bytes], ended: asyncio.Future[int]) -> bool:
    """End the whole group: ask, then insist; return False for a child that outlives even that."""
    for number in (
        signal.SIGTERM,
        signal.SIGKILL,
    ):  # also if it is gone: others of its group may not be
        _signal_group(process, number)
        await asyncio.wait([ended], timeout=TERM_GRACE)
    return ended.done()


def _ending_of(process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """Return a future of the exit status; the thread that waits for it does not prevent our exit."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def tell(status: int) -> None:
        if not ended.done():
            ended.set_result(status)

    def wait() -> None:
        status = process.wait()
        with contextlib.suppress(RuntimeError):  # the loop was closed: the result is not needed any more
            loop.call_soon_threadsafe(tell, status)

    threading.Thread(target=wait, name=f"waits for {process.pid}", daemon=True).start()
    return ended


def _end_of(file: IO[bytes], limit: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - limit))
    return file.read(limit)


async def _end(process: asyncio.subprocess.Process) -> bool:
    """End the whole group: ask, then insist; also when we are cancelled while waiting.

    Return False for a child that outlives even that: one in uninterruptible sleep, on a dead NFS
    server perhaps. Waiting for it would pass its sleep on to us.
    """
    _signal_group(process, signal.SIGTERM)
    try:
        await _wait(process)
    finally:
        # Also when the child is gone: what it started may have ignored the first signal.
        _signal_group(process, signal.SIGKILL)
    return await _wait(process)


async def _wait(process: asyncio.subprocess.Process) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TERM_GRACE):
            await process.wait()
    return process.returncode is not None


def _abort(process: asyncio.subprocess.Process) -> None:
    """Kill a group that writes without end; once its leader has exited, the rest is not ours to kill."""
    if process.returncode is None:
        _signal_group(process, signal.SIGKILL)


def _signal_group(
    process: asyncio.subprocess.Process | subprocess.Popen[bytes], number: signal.Signals
) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # EPERM: only zombies left (BSD)
        os.killpg(process.pid, number)


def tail(output: bytes, limit: int = _SHOWN_OUTPUT) -> str:
    """Return the end of what a program wrote, fit for a message: bounded and printable."""
    text = output[-4 * limit :].decode("utf-8", "replace").strip()
    text = "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)
    return text if len(text) <= limit else "..." + text[-limit:]


def _shown(argv: tuple[str, ...]) -> str:
    text = "".join(char if char.isprintable() else "?" for char in shlex.join(argv))
    return text if len(text) <= _SHOWN_COMMAND else text[:_SHOWN_COMMAND] + "..."


def _ending(returncode: int) -> str:
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"
