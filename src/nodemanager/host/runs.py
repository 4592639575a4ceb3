"""Runs of executions, each with a record that outlives us: how it ended is known even if we were killed.

The program is started by a shell that does nothing but note its own number, run it, and note
how it ended. After a crash there are three cases: the end is noted, and counts; the shell is
still there, and is waited for; or neither, and the run was interrupted (a power cut, or
somebody killed everything), and has to begin again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
from pathlib import Path
from typing import Final

from nodemanager.api import durations
from nodemanager.api.declarations import Execution
from nodemanager.host import state_files
from nodemanager.host.base import Runner
from nodemanager.host.journal import STATE, Journal
from nodemanager.host.runner import Completed
from nodemanager.host.tree import Tree
from nodemanager.plan.resources import ResourceId

SUPERVISOR: Final = """\
echo $$ > "$0.pid" || exit 125
"$@"
status=$?
echo "$status" > "$0.new" && mv "$0.new" "$0"
exit "$status"
"""
"""A fixed text; the program and its arguments are passed beside it, and are never parsed."""
POLL: Final = 0.2


class Runs:
    """The runs of one host."""

    def __init__(self, tree: Tree, journal: Journal, run: Runner, folder: str = f"{STATE}/runs") -> None:
        self._tree = tree
        self._journal = journal
        self._run = run
        self._folder = folder

    async def run(self, resource: ResourceId, execution: Execution) -> Completed:
        """Run a program to its end; it counts as owed until the caller settles it."""
        self._tree.forget()
        state_files.prepare_folder(self._tree, self._folder)
        self.clear(resource)
        self._journal.begin(resource)
        argv = ["/bin/sh", "-c", SUPERVISOR, self._note(resource), execution.command, *execution.args]
        return await self._run(argv, timeout=durations.parse(execution.timeout))

    async def recover(self, resource: ResourceId, timeout: float) -> int | None:
        """Return how a run ended that was begun before we were killed; None = it has to begin again."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    pid = self._process(resource)
                    status = self._status(resource)
                    if status is not None or pid is None:
                        return status
                    await asyncio.sleep(POLL)  # it is nobody's child any more, so nothing tells us
        except TimeoutError:
            if pid := self._process(resource):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            return 128 + signal.SIGKILL

    def clear(self, resource: ResourceId) -> None:
        """Forget the last run."""
        for name in ("", ".pid", ".new"):
            with contextlib.suppress(FileNotFoundError):
                place = self._tree.place(self._note(resource) + name)
                os.unlink(place.name, dir_fd=place.folder)

    def _note(self, resource: ResourceId) -> str:
        return f"{self._folder}/{hashlib.sha256(str(resource).encode()).hexdigest()[:24]}"

    def _status(self, resource: ResourceId) -> int | None:
        noted = state_files.read(self._tree, self._note(resource), 64)
        text = (noted or b"").decode("ascii", "replace").strip()
        return int(text) if text.isdecimal() else None

    def _process(self, resource: ResourceId) -> int | None:
        """Return the number of the shell of a run if it is still there, and not some other process."""
        noted = state_files.read(self._tree, self._note(resource) + ".pid", 64)
        text = (noted or b"").decode("ascii", "replace").strip()
        if not text.isdecimal():
            return None
        try:
            command = Path(f"/proc/{text}/cmdline").read_bytes()
        except OSError:
            return None
        return int(text) if self._note(resource).encode() in command.split(b"\0") else None
