"""Runs of executions, each with a record that outlives us: their end is known even if we were killed.

The program is started by a shell that does nothing but run it and note how it ended. It writes
into a file, for a pipe would break, and end the program, when we go. After a crash there are four
cases: it had not begun, and we take back that it may; the end is noted, and counts; the shell is still
there, and is waited for; or neither, and the run was interrupted (a power cut, or somebody killed
everything), and has to begin again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nodemanager.api.common.declarations import Execution
from nodemanager.host.base import Runner
from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import processes
from nodemanager.host.process.processes import Process
from nodemanager.host.process.runner import CommandTimedOut, Completed, RunError
from nodemanager.host.state import state_files
from nodemanager.host.state.journal import STATE, Journal
from nodemanager.kube.go import durations
from nodemanager.plan.resources import ResourceId

SUPERVISOR: Final = """\
read -r permit || exit 125
{ read -r boot < /proc/sys/kernel/random/boot_id; read -r stat < /proc/self/stat; } 2> /dev/null
began() { shift 19; started=$1; }
[ -z "$stat" ] || began ${stat##*) }
mv "$0.$permit" "$0.$$.$started.$boot" 2> /dev/null || exit 125
"$@" < /dev/null >> "$0.out" 2>&1
status=$?
echo "$status" > "$0.new" && mv "$0.new" "$0"
exit "$status"
"""
"""A fixed text; the program and its arguments are passed beside it, and are never parsed.

It takes the permission to begin by giving it a name that says which process took it: in one step, so that
no program runs of which nobody knows whose it is. Who comes back and can take the permission away knows that
the program never ran, and never will: each permission has a name of its own, so that a shell that comes late
does not take the next one. Nobody but us can have written any of this: our folder is closed to all others.
"""
POLL: Final = 0.2
MAX_OUTPUT: Final = 1024 * 1024
"""How much output of a program is kept: of more, the beginning is lost."""
SHOWN: Final = 16 * 1024
_PERMIT: Final = "may-begin-"


class ProgramCall(NamedTuple):
    """The program to run."""

    argv: tuple[str, ...]
    timeout: float
    env: Mapping[str, str] | None = None
    """Additional variables of its environment."""
    cwd: str | None = None


class Runs:
    """The runs of one host; without a journal, the caller remembers which ones are owed."""

    def __init__(
        self, tree: Tree, journal: Journal | None, run: Runner, folder: str = f"{STATE}/runs"
    ) -> None:
        self._tree = tree
        self._journal = journal
        self._run = run
        self._folder = folder

    async def run(self, resource: ResourceId, execution: Execution) -> Completed:
        """Run a program to its end, and count it as owed until it is settled.

        A cancelled caller leaves it alone: it goes on, and `recover` finds out how it ended.
        """
        argv = execution.command, *execution.args
        return await self.start(resource, ProgramCall(argv, durations.parse(execution.timeout)))

    async def start(self, resource: ResourceId, program: ProgramCall) -> Completed:
        """Run a program with all that goes with it."""
        try:
            self._tree.forget()
            state_files.prepare_below(self._tree, self._folder)
            self.clear(resource)
            permit = self._permit(resource)
        except OSError as error:
            where = self._tree.outside(self._folder)
            raise RunError(
                f"cannot run {program.argv[0]}: its run cannot be recorded in {where}: "
                f"{error.strerror or error}"
            ) from error
        if self._journal is not None:
            self._journal.begin(resource)
        bounding = asyncio.create_task(self._bound(resource))
        try:
            return await self._supervised(resource, program, permit)
        finally:
            bounding.cancel()

    async def _supervised(self, resource: ResourceId, program: ProgramCall, permit: str) -> Completed:
        argv = ["/bin/sh", "-c", SUPERVISOR, self._note(resource), *program.argv]
        try:
            ended = await self._run(
                argv, stdin=f"{permit}\n".encode(), timeout=program.timeout, env=program.env, cwd=program.cwd,
                finish=True, bounded=True,
            )  # fmt: skip
        except CommandTimedOut as error:
            raise CommandTimedOut(
                f"cannot run {program.argv[0]}: it did not finish within {program.timeout:g} s and was killed"
            ) from error
        return Completed(program.argv, ended.returncode, self.said(resource), ended.stderr)

    def said(self, resource: ResourceId) -> bytes:
        """Return the end of what a program wrote; that matters less than how it ended."""
        try:
            written = file_facts.open_file(self._tree.place(self._note(resource) + ".out"))
        except OSError:
            return b""
        try:
            os.lseek(written, max(os.fstat(written).st_size - SHOWN, 0), os.SEEK_SET)
            return os.read(written, SHOWN)
        finally:
            os.close(written)

    async def _bound(self, resource: ResourceId) -> None:
        """Keep what a program says from filling the disk."""
        while True:
            await asyncio.sleep(1.0)
            with contextlib.suppress(OSError):
                place = self._tree.place(self._note(resource) + ".out")
                written = os.open(place.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
                try:
                    if os.fstat(written).st_size > MAX_OUTPUT:
                        os.ftruncate(written, 0)  # the program appends, so it goes on at the beginning
                finally:
                    os.close(written)

    async def recover(self, resource: ResourceId, timeout: float) -> int | None:
        """Return how a run ended that was begun before we were killed; None = it has to begin again."""
        bounding = asyncio.create_task(self._bound(resource))
        try:
            if self._forbid(resource):
                return None
            async with asyncio.timeout(timeout):
                while True:
                    running = self._process(resource)  # first: who is gone now has noted its end before
                    status = self._status(resource)
                    if status is not None or running is None:
                        return status
                    await asyncio.sleep(POLL)  # it is not our child, so no event reports its end
        except TimeoutError:
            if running := self._process(resource):
                processes.kill_group(running)
            return 128 + signal.SIGKILL
        finally:
            bounding.cancel()

    def withdraw(self, resource: ResourceId) -> bool:
        """Take back that a program may begin; True = it never began, and never will."""
        if self._forbid(resource):
            return True
        own = self._name(resource)
        return not any(name == own or _taken(name, own) for name in self._names())

    def clear(self, resource: ResourceId) -> None:
        """Forget the last run."""
        own = self._name(resource)
        self._remove(name for name in self._names() if name.partition(".")[0] == own)

    def sweep(self, kept: Iterable[ResourceId]) -> None:
        """Forget all runs but these: a process that was killed may have had no time to."""
        known = {self._name(one) for one in kept}
        self._remove(name for name in self._names() if name.partition(".")[0] not in known)

    def _names(self) -> Iterable[str]:
        return file_facts.list_names(self._tree, self._folder) or ()

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._tree.folder(self._folder))

    def _name(self, resource: ResourceId) -> str:
        return hashlib.sha256(str(resource).encode()).hexdigest()[:24]

    def _note(self, resource: ResourceId) -> str:
        return f"{self._folder}/{self._name(resource)}"

    def _status(self, resource: ResourceId) -> int | None:
        noted = state_files.read(self._tree, self._note(resource), 64)
        text = (noted or b"").decode("ascii", "replace").strip()
        return int(text) if text.isdecimal() else None

    def _permit(self, resource: ResourceId) -> str:
        """Let a shell begin, and make the file for the program's output, which only we may read."""
        permit, folder = f"{_PERMIT}{secrets.token_hex(8)}", self._tree.folder(self._folder)
        for end in ("out", permit):
            os.close(os.open(f"{self._name(resource)}.{end}", state_files.NEW, 0o600, dir_fd=folder))
        return permit

    def _forbid(self, resource: ResourceId) -> bool:
        """Take back that a shell may begin; False = it has begun, or there was none."""
        for name in self._names():
            if name.startswith(f"{self._name(resource)}.{_PERMIT}"):
                try:
                    os.unlink(name, dir_fd=self._tree.folder(self._folder))
                except FileNotFoundError:
                    continue
                return True
        return False

    def _process(self, resource: ResourceId) -> Process | None:
        """Return the shell of a run, if it is still there."""
        own = self._name(resource)
        for pid, started, boot in (taken for name in self._names() if (taken := _taken(name, own))):
            try:
                return processes.same(int(pid), int(started), boot)
            except ValueError:  # without /proc it is never certain that a process is ours
                return None
        return None


def _taken(name: str, run: str) -> list[str]:
    """Return which process took the permission, if that is what a name says: number, beginning, boot."""
    own, *process = name.split(".")
    return process if own == run and len(process) == len(("pid", "started", "boot")) else []
