"""Steps that install one file: by the same plan and batch as a pass, so that it can be undone."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import msgspec

from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Exclusive, Performer
from nodemanager.api.common.declarations import File
from nodemanager.host.base import HostError
from nodemanager.host.files import file_facts
from nodemanager.host.files.former_content import former_content
from nodemanager.host.kind_parts import StageWork
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import ResourceOutcome
from nodemanager.kube import wording
from nodemanager.plan import resources
from nodemanager.plan.desired import Content, Contents, Desired, Item
from nodemanager.plan.facts import FileFact, Kind
from nodemanager.plan.host_kinds import PlanInput
from nodemanager.plan.resources import FILE
from nodemanager.plan.stages import KINDS

MakeContents = Callable[[Desired], Awaitable[Contents]]
"""Makes the contents of files: literal, from Secrets and ConfigMaps, or from a template."""


class FileBefore(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was at a path before a step."""

    kind: Kind
    mode: int = 0
    uid: int = 0
    gid: int = 0
    digest: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Files(Performer):
    """Installs files for tasks."""

    converger: Converger
    contents: MakeContents
    exclusive: Exclusive
    declared: Callable[[], AbstractSet[str]]
    """Paths that ConfigSets declare: a pass would restore them at once."""

    async def prepare(self, action: File) -> bytes:
        """Return what is there."""
        if action.purge:
            raise HostError(f"cannot purge {action.path}: a step could not take that back; use a ConfigSet")
        async with self.exclusive():
            if action.path in self.declared():
                raise HostError(
                    f"cannot change {action.path}: a ConfigSet of this host declares it; change that"
                )
            fact = await self._look(action)
        if fact.error or (fact.kind is Kind.FILE and not fact.digest):
            raise HostError(fact.error or f"cannot read {action.path}: somebody else is changing it")
        before = FileBefore(fact.kind, fact.mode, fact.uid, fact.gid, fact.digest, fact.target)
        return msgspec.json.encode(before)

    async def perform(self, action: File, attempt: Attempt) -> AttemptResult:
        """Put it in place; what it replaces is in the bucket before."""
        del attempt
        contents = await self.contents(_desired(action))
        async with self.exclusive():
            return await self._apply(action, contents)

    async def take_back(self, action: File, attempt: Attempt) -> AttemptResult:
        """Put back what was there, from its backup, or remove what was not."""
        before = msgspec.json.decode(attempt.known.inverse, type=FileBefore)
        if before.kind is Kind.OTHER:
            return AttemptResult(
                succeeded=False, message=f"cannot put back {action.path}: it was {Kind.OTHER.words}"
            )
        was = File(path=action.path, ensure=before.kind.value, target=before.target)
        if before.kind is not Kind.ABSENT:
            owner, group = str(before.uid), str(before.gid)
            mode = "" if before.kind is Kind.SYMLINK else f"{before.mode:04o}"
            was = msgspec.structs.replace(was, owner=owner, group=group, mode=mode)
        async with self.exclusive():
            contents: Contents = {}
            if before.kind is Kind.FILE:
                contents = {action.path: await self._kept(action, before)}
            return await self._apply(was, contents)

    async def _kept(self, action: File, before: FileBefore) -> Content:
        """Return what a file contained: it still does, or its backup is in the bucket."""
        bucket, tree = self.converger.records.bucket, self.converger.observer.tree
        data = await in_thread(lambda: former_content(tree, bucket, action.path, before.digest))
        return Content(data, before.digest, secret=True)

    async def _look(self, action: File) -> FileFact:
        tree = self.converger.observer.tree

        def look() -> FileFact:
            tree.forget()
            try:
                place = tree.place(action.path)
                size = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_size
            except OSError:
                size = None
            return file_facts.observe(tree, action.path, size, file_facts.DigestCache())

        return await in_thread(look)

    async def _apply(self, action: File, contents: Contents) -> AttemptResult:
        work = self._work(_desired(action), contents)
        kind, part = KINDS[FILE], self.converger.parts[FILE]
        results = await part.apply(
            kind.plan(work.given, await part.observe(kind.needs(work.given), work)), work
        )
        bad = [one.message or str(one.outcome) for one in results if one.outcome not in _GOOD]
        if bad:
            return AttemptResult(succeeded=False, message=wording.shorten("; ".join(bad), 1024))
        changed = any(one.outcome is ResourceOutcome.CHANGED for one in results)
        return AttemptResult(succeeded=True, changed=changed)

    def _work(self, desired: Desired, contents: Contents) -> StageWork:
        found = self.converger
        given = PlanInput(desired, contents, repair=True)  # it is not all that is declared
        return StageWork(given, found.observer, found.tools, found.records.bucket)


_GOOD = (ResourceOutcome.CHANGED, ResourceOutcome.UNCHANGED)


def _desired(file: File) -> Desired:
    return Desired({FILE: (Item(resources.file_id(file.path), file, ("task",)),)})
