"""Runs of executions, each with a record that outlives us: how it ended is known even if we were killed.

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

GO: Final = b"go\n"
SUPERVISOR: Final = """\
read -r go || exit 125
{ read -r boot < /proc/sys/kernel/random/boot_id; read -r stat < /proc/self/stat; } 2> /dev/null
echo "$boot $$ $stat" > "$0.by" && mv "$0.go" "$0.out" 2> /dev/null || exit 125
"$@" < /dev/null >> "$0.out" 2>&1
status=$?
echo "$status" > "$0.new" && mv "$0.new" "$0"
exit "$status"
"""
"""A fixed text; the program and its arguments are passed beside it, and are never parsed.

It notes which process it is, and then takes the permission to begin, `.go`, by making it the file for what
the program says. Who comes back and can take that away knows that the program never ran, and never will;
who cannot finds the note, which nobody but us can have written: our folder is closed to all others.
"""
POLL: Final = 0.2
MAX_OUTPUT: Final = 1024 * 1024
"""A program that writes more than this loses the beginning of it."""
SHOWN: Final = 16 * 1024
MAX_NOTE: Final = 4096


class Program(NamedTuple):
    """What is run."""

    argv: tuple[str, ...]
    timeout: float
    env: Mapping[str, str] | None = None
    """What its environment has besides the usual."""
    cwd: str | None = None


class Runs:
    """The runs of one host; without a journal, somebody else remembers which ones are owed."""

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
        return await self.start(resource, Program(argv, durations.parse(execution.timeout)))

    async def start(self, resource: ResourceId, program: Program) -> Completed:
        """Run a program with all that goes with it."""
        try:
            self._tree.forget()
            state_files.prepare_below(self._tree, self._folder)
            self.clear(resource)
            self._permit(resource)
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
            return await self._supervised(resource, program)
        finally:
            bounding.cancel()

    async def _supervised(self, resource: ResourceId, program: Program) -> Completed:
        argv = ["/bin/sh", "-c", SUPERVISOR, self._note(resource), *program.argv]
        try:
            ended = await self._run(
                argv, stdin=GO, timeout=program.timeout, env=program.env, cwd=program.cwd,
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
                    await asyncio.sleep(POLL)  # it is nobody's child any more, so nothing tells us
        except TimeoutError:
            if running := self._process(resource):
                processes.kill_group(running)
            return 128 + signal.SIGKILL
        finally:
            bounding.cancel()

    def withdraw(self, resource: ResourceId) -> bool:
        """Take back that a program may begin; True = it never began, and never will."""
        names = frozenset(file_facts.list_names(self._tree, self._folder) or ())
        return (
            self._forbid(resource) or not {self._name(resource) + end for end in ("", ".by", ".out")} & names
        )

    def clear(self, resource: ResourceId) -> None:
        """Forget the last run."""
        self._remove(self._name(resource) + end for end in ("", ".out", ".new", ".go", ".by"))

    def sweep(self, kept: Iterable[ResourceId]) -> None:
        """Forget all runs but these: a process that was killed may have had no time to."""
        known = {self._name(one) for one in kept}
        names = file_facts.list_names(self._tree, self._folder) or ()
        self._remove(name for name in names if name.partition(".")[0] not in known)

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

    def _permit(self, resource: ResourceId) -> None:
        """Let a shell begin; what it says goes there, too, for nobody else to read."""
        folder = self._tree.folder(self._folder)
        os.close(os.open(self._name(resource) + ".go", state_files.NEW, 0o600, dir_fd=folder))

    def _forbid(self, resource: ResourceId) -> bool:
        """Take back that a shell may begin; False = it has begun, or there was none."""
        try:
            os.unlink(self._name(resource) + ".go", dir_fd=self._tree.folder(self._folder))
        except FileNotFoundError:
            return False
        return True

    def _process(self, resource: ResourceId) -> Process | None:
        """Return the shell of a run, if it is still there."""
        noted = state_files.read(self._tree, self._note(resource) + ".by", MAX_NOTE) or b""
        boot, _, rest = noted.partition(b" ")
        pid, _, stat = rest.partition(b" ")
        try:
            return processes.same(int(pid), processes.parse(stat).started, boot.decode("ascii"))
        except ValueError:  # where the system has no /proc; without it nobody is ours for certain
            return None
