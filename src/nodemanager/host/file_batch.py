"""Carries out the file steps of a plan, all of them as one batch.

    make directories -> stage contents -> validate -> keep what is replaced -> all of it on disk
    -> record who is owed a restart -> rename, set attributes, remove -> directories on disk

Nothing that others see changes before everything that was promised about it is on disk. One
file that cannot be written does not stop the others.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from nodemanager.host import commits, runner, staging
from nodemanager.host.base import HostError, Runner
from nodemanager.host.bucket import Bucket
from nodemanager.host.durable import Unsynced
from nodemanager.host.journal import Journal
from nodemanager.host.results import Outcome, Result, result
from nodemanager.host.threads import in_thread
from nodemanager.host.tree import Tree
from nodemanager.plan.facts import Kind
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import (
    IDLE,
    Blocked,
    FileStep,
    MakeDirectory,
    MakeLink,
    Step,
    WriteFile,
)
from nodemanager.plan.subscribers import owed

FIXES = {
    errno.ENOSPC: "free some space on that filesystem",
    errno.EDQUOT: "raise the quota, or free some space",
    errno.EROFS: "the filesystem is mounted read-only: mount it writable, or remove the declaration",
    errno.EPERM: "it may be immutable: see lsattr, and chattr -i",
    errno.ENOTEMPTY: "the directory is not empty: remove its content first, or declare it absent, too",
}


@dataclass(slots=True)
class Hands:
    """What a batch works with."""

    tree: Tree
    bucket: Bucket | None
    journal: Journal
    run: Runner
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class _Job:
    """One step on its way."""

    step: FileStep
    staged: staging.Staged | None = None
    began: float = 0.0


@dataclass(slots=True)
class FileBatch:
    """One run over the steps for files."""

    hands: Hands
    results: list[Result] = field(default_factory=list)
    aborted: set[str] = field(default_factory=set)
    """ConfigSets in which a validation with `onFailure: abort` failed."""
    kept: dict[str, str] = field(default_factory=dict)
    """SHA-256 of what was replaced or removed, by path, where it is in the bucket."""
    _failed: set[ResourceId] = field(default_factory=set)
    _jobs: list[_Job] = field(default_factory=list)
    _unsynced: Unsynced = field(default_factory=Unsynced)

    async def apply(self, steps: Sequence[Step]) -> list[Result]:
        """Carry out the steps and return what became of each."""
        self.hands.tree.forget()
        try:
            for step in steps:
                await self._prepare(step)
            if self._jobs:  # in a thread: a slow disk must not keep the agent from its heartbeat
                await in_thread(self._commit)
        finally:
            for job in self._jobs:
                if job.staged is not None:
                    job.staged.discard(self.hands.tree)
            self._unsynced.close()
            self.hands.tree.forget()
        return self.results

    async def _prepare(self, step: Step) -> None:
        if not isinstance(step, FileStep):
            idle = Outcome.BLOCKED if isinstance(step, Blocked) else Outcome.UNCHANGED
            self._say(step, idle)
            if not isinstance(step, IDLE):
                raise TypeError(f"cannot do {type(step).__name__} to files")
            return
        if obstacle := self._obstacle(step):
            self._say(step, Outcome.BLOCKED, obstacle)
            return
        job = _Job(step, began=self.hands.clock())
        try:
            await self._stage(job)
        except (OSError, ValueError) as error:
            self._fail(job, error)
        else:
            self._jobs.append(job)

    def _obstacle(self, step: FileStep) -> str:
        missing = next((one for one in step.needs if one in self._failed), None)
        if missing is not None:
            return f"waits for {missing}, which failed"
        if step.sources and self.aborted.issuperset(step.sources):
            return f"ConfigSet {step.sources[0]} was aborted by a validation that failed before"
        return ""

    async def _stage(self, job: _Job) -> None:
        step, tree = job.step, self.hands.tree
        if isinstance(step, MakeDirectory):
            if step.notifies:
                self.hands.journal.owe(owed([step]))
            commits.make_directory(tree, step)
        elif isinstance(step, MakeLink):
            job.staged = staging.stage_link(tree, step)
        elif isinstance(step, WriteFile):
            job.staged = staging.stage_file(tree, step)
            try:
                await self._validate(step, job.staged)
            except BaseException:
                job.staged.discard(tree)
                raise
            self._unsynced.add(job.staged.hand_over())

    async def _validate(self, step: WriteFile, staged: staging.Staged) -> None:
        check = step.validation
        if check is None:
            return
        values = {"${STAGED}": staged.temporary, "${TARGET}": step.path}
        argv = [check.command]
        for argument in check.args:
            for name, value in values.items():
                argument = argument.replace(name, value)  # noqa: PLW2901
            argv.append(argument)
        try:
            completed = await self.hands.run(argv, timeout=check.timeout_seconds)
            completed.check()
        except runner.RunError as error:
            if check.on_failure == "abort":
                self.aborted.update(step.sources)
            said = _without_output(error) if step.content.secret else str(error)
            raise ValidationFailed(
                f"cannot put {step.path} in place: its validation failed: {said}"
            ) from None

    def _commit(self) -> None:
        self._keep_old()
        try:
            self._unsynced.sync()
            self.hands.journal.owe(owed(job.step for job in self._jobs))
        except OSError as error:
            for job in self._jobs:
                self._fail(job, error)
            return
        folders: dict[str, None] = {}
        for job in self._jobs:
            try:
                commits.carry_out(self.hands.tree, job.step, job.staged)
                folders[job.step.path.rpartition("/")[0] or "/"] = None
            except OSError as error:
                self._fail(job, error)
            else:
                self._say(job.step, Outcome.CHANGED, seconds=self.hands.clock() - job.began)
        self._sync_folders(folders)

    def _keep_old(self) -> None:
        """Copy what is about to be replaced or removed; what cannot be kept is not touched."""
        if self.hands.bucket is None:
            return
        for job in list(self._jobs):
            if job.step.before.kind is not Kind.FILE or not commits.replaces(job.step):
                continue
            try:
                digest = self.hands.bucket.keep(self.hands.tree.place(job.step.path), self._unsynced)
                if digest:
                    self.kept[job.step.path] = digest
            except FileNotFoundError:
                continue  # somebody else removed it meanwhile
            except OSError as error:
                self._jobs.remove(job)
                if job.staged is not None:
                    job.staged.discard(self.hands.tree)
                self._fail(job, error)

    def _sync_folders(self, folders: Iterable[str]) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        for folder in folders:
            self._unsynced.add(os.open(".", flags, dir_fd=self.hands.tree.folder(folder)))
        self._unsynced.sync()

    def _fail(self, job: _Job, error: Exception) -> None:
        self._failed.add(job.step.id)
        self._say(job.step, Outcome.FAILED, explain(job.step, error), self.hands.clock() - job.began)

    def _say(self, step: Step, outcome: Outcome, message: str = "", seconds: float = 0.0) -> None:
        self.results.append(result(step, outcome, message, seconds))


def _without_output(error: runner.RunError) -> str:
    """Return why a program failed, without its words: they may quote the secret it looked at."""
    if not isinstance(error, runner.CommandFailed):
        return str(error)
    return f"exit status {error.returncode}, output not shown: the content is made of Secrets"


class ValidationFailed(HostError):
    """A program refused the new content of a file; the old one is in place."""


def explain(step: FileStep, error: Exception) -> str:
    """Return what went wrong with a path, and what to do about it."""
    if isinstance(error, HostError) or not isinstance(error, OSError):
        return str(error)
    fix = FIXES.get(error.errno or 0)
    return f"cannot change {step.path}: {error.strerror}" + (f"; {fix}" if fix else "")
