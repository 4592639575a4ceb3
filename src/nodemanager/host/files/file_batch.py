"""Carries out the file steps of a plan, all of them as one batch.

    make directories -> stage contents -> validate -> keep what is replaced -> all of it on disk
    -> record which restarts are owed -> rename, set attributes, remove -> directories on disk

A visible change is made only after everything that was promised about it is on disk. One
file that cannot be written does not stop the others.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodemanager.api.common.declarations import Validation
from nodemanager.host.base import HostError, Runner
from nodemanager.host.files import commits, differences, staging, validating
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.files.durable import Unsynced
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import ResourceOutcome, Result, idle_outcome, left_alone, result
from nodemanager.host.state.journal import Journal
from nodemanager.plan.resources import ResourceId, shown
from nodemanager.plan.steps import (
    Blocked,
    FileStep,
    MakeDirectory,
    MakeLink,
    Observed,
    Step,
    Waiting,
    WriteFile,
)
from nodemanager.plan.subscribers import owed

log = logging.getLogger(__name__)
FIXES = {
    errno.ENOSPC: "free some space on that filesystem",
    errno.EDQUOT: "raise the quota, or free some space",
    errno.EROFS: "the filesystem is mounted read-only: mount it writable, or remove the declaration",
    errno.EMFILE: "the agent has too many files open: raise LimitNOFILE of its service",
    errno.ENFILE: "the system has too many files open: raise fs.file-max",
    errno.EIO: "the disk reports errors: see dmesg",
    errno.EPERM: "it may be immutable: see lsattr, and chattr -i",
    errno.ENOTEMPTY: "the directory is not empty: remove its content first, or declare it absent, too",
}


@dataclass(slots=True)
class FileTools:
    """The tools of a batch."""

    tree: Tree
    bucket: Bucket | None
    journal: Journal
    run: Runner
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class _Job:
    """The progress of one step."""

    step: FileStep
    staged: staging.Staged | None = None
    began: float = 0.0
    devices: set[int] = field(default_factory=set)
    """The filesystems of its new content and of the backup of the old one: both must be synced first."""


@dataclass(slots=True)
class FileBatch:
    """One run over the steps for files."""

    tools: FileTools
    results: list[Result] = field(default_factory=list)
    aborted: set[str] = field(default_factory=set)
    """ConfigSets in which a validation with `onFailure: abort` failed."""
    kept: dict[str, str] = field(default_factory=dict)
    """SHA-256 of what was replaced or removed, by path, where it is in the bucket.

    Only of files that everybody on the host could read: it is published, and the digest of a password
    is enough to guess it. What is private is found with `nodemanager backups`.
    """
    _failed: set[ResourceId] = field(default_factory=set)
    _left: set[ResourceId] = field(default_factory=set)
    """Missing paths that stay missing."""
    _put_off: set[ResourceId] = field(default_factory=set)
    """Paths that are made later: an entry below one would be made elsewhere, and be in its way."""
    _jobs: list[_Job] = field(default_factory=list)
    _unsynced: Unsynced = field(default_factory=Unsynced)
    _areas: staging.Areas = field(default_factory=staging.Areas)
    _needed: set[ResourceId] = field(default_factory=set)
    """Directories and links that other steps of the batch need on their way."""

    async def apply(self, steps: Sequence[Step]) -> list[Result]:
        """Carry out the steps and return what became of each."""
        self.tools.tree.forget()
        self._needed = {one for step in steps if isinstance(step, FileStep) for one in step.needs}
        try:
            for step in steps:
                await self._prepare(step)
            if self._jobs:  # in a thread: a slow disk must not keep the agent from its heartbeat
                await in_thread(self._commit)
        finally:
            for job in self._jobs:
                if job.staged is not None:
                    job.staged.discard(self.tools.tree)
            self._areas.close()
            self._unsynced.close()
            self.tools.tree.forget()
        return self.results

    async def _prepare(self, step: Step) -> None:
        if isinstance(step, Observed):
            await self._observe(step)
            return
        if not isinstance(step, FileStep):
            if step.ACTS:
                raise TypeError(f"cannot do {type(step).__name__} to files")
            if isinstance(step, Waiting):
                self._put_off.add(step.id)
            self._say(step, idle_outcome(step) if isinstance(step, Blocked) else ResourceOutcome.UNCHANGED)
            return
        later = next((one for one in step.needs if one in self._put_off), None)
        if later is not None:
            self._put_off.add(step.id)
            why = f"waits for {later}, which waits, too"
            self._say(Waiting(id=step.id, sources=step.sources, reason=why), ResourceOutcome.WAITING)
            return
        if obstacle := self._obstacle(step):
            self._say(step, ResourceOutcome.BLOCKED, obstacle)
            return
        job = _Job(step, began=self.tools.clock())
        try:
            await self._stage(job)
        except (OSError, ValueError) as error:
            self._fail(job, error)
        else:
            self._jobs.append(job)

    async def _observe(self, step: Observed) -> None:
        """Say how it differs; steps below a directory that stays missing wait for it."""
        would = step.would
        if isinstance(would, MakeDirectory | MakeLink):
            self._left.add(step.id)
        if not isinstance(would, FileStep):
            raise TypeError(f"cannot do {type(would).__name__} to files")
        seen = await in_thread(lambda: differences.look(self.tools.tree, would))
        said = f"{step.reason}\n{seen.diff}" if seen.diff else step.reason
        self.results.append(
            replace(
                result(step, left_alone(step), said),
                found=seen.found,
                wanted=seen.wanted,
                mark=f"{step.reason} {seen.private}",
            )
        )

    def _obstacle(self, step: FileStep) -> str:
        missing = next((one for one in step.needs if one in self._failed), None)
        if missing is not None:
            return f"waits for {missing}, which failed"
        left = next((one for one in step.needs if one in self._left), None)
        if left is not None:
            return f"waits for {left}, which is left alone as its drift policy says; put that back first"
        if step.sources and self.aborted.issuperset(step.sources):
            return f"ConfigSet {step.sources[0]} was aborted by a validation that failed before"
        return ""

    async def _stage(self, job: _Job) -> None:
        step, tree = job.step, self.tools.tree
        if isinstance(step, MakeDirectory):
            if step.notifies:
                self.tools.journal.owe(owed([step]))
            commits.make_directory(tree, step)
        elif isinstance(step, MakeLink):
            job.staged = staging.stage_link(tree, step, self._areas)
            if step.id in self._needed:  # first: what belongs below it would be made elsewhere
                self._commit_early(job, job.staged)
        elif isinstance(step, WriteFile):
            job.staged = staging.stage_file(tree, step, self._areas)
            try:
                if step.validation is not None:
                    await self._validate(step, job.staged, step.validation)
                job.devices.add(self._unsynced.add(job.staged.hand_over()))
            except BaseException:
                job.staged.discard(tree)
                raise

    async def _validate(self, step: WriteFile, staged: staging.Staged, check: Validation) -> None:
        try:
            if staged.area < 0:
                await validating.validate(self.tools.run, step, check, staged.temporary)
            else:  # by its name, the program might be given something else to read, and to quote
                with validating.copied(self.tools.tree, self.tools.journal.folder, step) as copy:
                    await validating.validate(self.tools.run, step, check, copy)
        except validating.ValidationFailed:
            if check.on_failure == "abort":
                self.aborted.update(step.sources)
            raise

    def _commit_early(self, job: _Job, staged: staging.Staged) -> None:
        try:
            self._keep(job)
            if failed := self._unsynced.sync():
                raise next(iter(failed.values()))
            self.tools.journal.owe(owed([job.step]))
            staged.commit(self.tools.tree)
        except BaseException:
            staged.discard(self.tools.tree)
            raise

    def _commit(self) -> None:
        for job in list(self._jobs):
            try:
                self._keep(job)
            except OSError as error:  # what cannot be kept is not touched
                self._drop(job, error)
        self._drop_unsynced(self._unsynced.sync())
        owing = self._owe()
        folders: dict[str, None] = {}
        done: list[_Job] = []
        undone: list[_Job] = []
        for job in self._jobs:
            try:
                commits.carry_out(self.tools.tree, job.step, job.staged)
            except OSError as error:
                self._fail(job, error)
                undone.append(job)
            else:
                folders[job.step.path.rpartition("/")[0] or "/"] = None
                done.append(job)
        self._retract(owing, undone)
        failed = self._sync_folders(folders)
        for job in done:
            folder = job.step.path.rpartition("/")[0] or "/"
            if why := failed.get(folder):
                self._fail(job, NotDurable(f"cannot be sure that {job.step.path} is on disk: {why.strerror}"))
            else:
                self._say(job.step, ResourceOutcome.CHANGED, seconds=self.tools.clock() - job.began)

    def _keep(self, job: _Job) -> None:
        """Copy what is about to be replaced or removed: the file that is there now."""
        if self.tools.bucket is None or not commits.replaces(job.step):
            return
        try:
            place = self.tools.tree.place(job.step.path)
            if not stat.S_ISREG(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode):
                return
            kept = self.tools.bucket.keep(place, self._unsynced)
        except FileNotFoundError:
            return  # it does not exist yet, or another program removed it meanwhile
        except BlockingIOError:
            log.warning("no backup of %s: its owner holds a lease on it", shown(job.step.path))
            return
        if kept is not None:
            if kept.mode & stat.S_IROTH:
                self.kept[shown(job.step.path)] = kept.digest
            job.devices.add(kept.device)

    def _drop_unsynced(self, failed: Mapping[int, OSError]) -> None:
        for job in list(self._jobs):
            for device in job.devices & failed.keys():
                self._drop(job, failed[device])
                break

    def _owe(self) -> Mapping[ResourceId, tuple[str, ...]]:
        """Record which restarts are owed; files without that record are not changed."""
        notifying = [job for job in self._jobs if job.step.notifies]
        try:
            return self.tools.journal.owe(owed(job.step for job in notifying))
        except OSError as error:
            for job in notifying:
                self._drop(job, error)
            return {}

    def _retract(self, owing: Mapping[ResourceId, tuple[str, ...]], undone: Iterable[_Job]) -> None:
        """Owe nothing for a path that stayed as it was, or its services would restart at every pass."""
        same = {shown(job.step.path) for job in undone if commits.replaces(job.step)}
        vain = {one: [path for path in paths if path in same] for one, paths in owing.items()}
        try:
            self.tools.journal.retract({one: paths for one, paths in vain.items() if paths})
        except OSError as error:
            log.warning("%s", error)

    def _sync_folders(self, folders: Iterable[str]) -> dict[str, OSError]:
        """Make the changes of directories durable; return those of which that is not sure."""
        failed: dict[str, OSError] = {}
        devices: dict[str, int] = {}
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        for folder in folders:
            try:
                opened = os.open(".", flags, dir_fd=self.tools.tree.folder(folder))
                devices[folder] = self._unsynced.add(opened)
            except OSError as error:
                failed[folder] = error
        unsynced = self._unsynced.sync()
        return failed | {folder: unsynced[on] for folder, on in devices.items() if on in unsynced}

    def _drop(self, job: _Job, error: OSError) -> None:
        self._jobs.remove(job)
        if job.staged is not None:
            job.staged.discard(self.tools.tree)
        self._fail(job, error)

    def _fail(self, job: _Job, error: Exception) -> None:
        self._failed.add(job.step.id)
        self._say(job.step, ResourceOutcome.FAILED, explain(job.step, error), self.tools.clock() - job.began)

    def _say(self, step: Step, outcome: ResourceOutcome, message: str = "", seconds: float = 0.0) -> None:
        said = result(step, outcome, message, seconds)
        if isinstance(step, WriteFile) and differences.is_public(step):
            found = self.kept.get(shown(step.path), "")
            said = replace(said, found=found, wanted=step.content.digest)
        self.results.append(said)


class NotDurable(HostError):
    """The change was made, but a power cut may undo it."""


def explain(step: FileStep, error: Exception) -> str:
    """Return what went wrong with a path, and what to do about it."""
    cause = error.__cause__ if isinstance(error, HostError) else error
    number = cause.errno if isinstance(cause, OSError) else None
    fix = FIXES.get(number) if number else None
    plain = isinstance(error, OSError) and not isinstance(error, HostError)
    why = os.strerror(number) if number else str(error)
    said = f"cannot change {step.path}: {why}" if plain else str(error)
    return f"{said}; {fix}" if fix else said
