"""One pass over a host: observe, plan, apply, stage by stage.

    packages -> files -> services -> executions

Every stage looks again, because the one before may have changed what it looks at: a package
brings files and units, a file brings a restart. A preview looks once and changes nothing.

A repair is a pass over a few resources that were touched. One of the two works on the host at a time:
a repair waits for the stage of a pass that is under way, and the next stage waits for the repair. That
is safe because a stage carries nothing of what it saw into the next one; all it hands on is what must
not be done (`aborted`, `unknown`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from nodemanager.agent.passes.progress import Progress
from nodemanager.host import apply
from nodemanager.host.apply import Locks, Tools
from nodemanager.host.base import HostError, ServiceManager
from nodemanager.host.files import staging
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.files.file_batch import FileBatch, Hands
from nodemanager.host.observe import Observer
from nodemanager.host.results import Outcome, Result
from nodemanager.host.state.state_lock import StateLock
from nodemanager.kube.go import durations
from nodemanager.plan import executions, files, packages, policies, services, subscribers
from nodemanager.plan.desired import Contents, Desired
from nodemanager.plan.focus import Focus
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, MakeLink, RestartService, Step

log = logging.getLogger(__name__)
_NOTHING: Final = frozenset[ResourceId]()
_RESTART: Final = RestartService.__name__


@dataclass(slots=True)
class Converger:
    """Makes a host what it shall be."""

    observer: Observer
    tools: Tools
    bucket: Bucket | None
    lock: StateLock | None = None
    """Taken with the first pass that may change something, and kept."""
    swift: ServiceManager | None = None
    """The service manager for repairs: it does not wait to see whether what it started stays up."""
    swift_locks: Locks | None = None
    """Locks that are not waited for: while another host holds one, nothing else on this host waits for it."""
    progress: Progress = field(default_factory=Progress)
    """Notices a pass that hangs."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a stage of a pass; whoever repairs holds it."""
    upgrading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while everything is upgraded: what packages stop and write in between is no drift. Repairs wait
    for that; passes do not, they have to report how it goes."""
    unread: set[str] = field(default_factory=set)
    """Users whose service manager has yet to notice what repairs enabled; empty is the host's own."""
    replaced: dict[str, str] = field(default_factory=dict)
    """SHA-256 of what files contained before they were first replaced or removed, until a report takes it."""
    _aborted: set[str] = field(default_factory=set)
    """ConfigSets that the last pass broke off: repairs do not go on with them either."""
    _swept: set[str] = field(default_factory=set)

    async def preview(self, desired: Desired, contents: Contents) -> list[Step]:
        """Return what a pass would do, as things are now."""
        pending = self.tools.journal.pending()
        package_steps = packages.plan_packages(desired, await self.observer.see_packages(desired))
        seen = await self.observer.see_files(desired, contents)
        file_steps = files.plan_files(desired, contents, seen)
        changing = subscribers.owed(file_steps)
        service_facts = await self.observer.see_services(desired, pending)
        execution_facts = await self.observer.see_executions(desired, pending, {*pending, *changing})
        return [
            *package_steps,
            *file_steps,
            *services.plan_services(desired, service_facts, changing),
            *executions.plan_executions(desired, execution_facts, changing),
        ]

    async def run(
        self, desired: Desired, contents: Contents, alone: AbstractSet[ResourceId] = _NOTHING
    ) -> list[Result]:
        """Make it so, and return what became of every resource; what to leave `alone` is only looked at."""
        with self.progress.working():
            return await self._run(desired, contents, alone)

    async def _run(
        self, desired: Desired, contents: Contents, alone: AbstractSet[ResourceId]
    ) -> list[Result]:
        tools, journal = self.tools, self.tools.journal
        wanted = desired.packages or desired.files or desired.services or desired.executions
        async with self.turn:
            if self.lock is not None and self.lock.take(make=bool(wanted)):
                journal.reload()  # whoever had it before may have written there
            unknown = await self._recover(desired)
            self._tidy(desired)
            seen = await self.observer.see_packages(desired)
            steps = policies.leave_alone(packages.plan_packages(desired, seen), alone)
            results = await apply.apply_packages(steps, tools)
        async with self.turn:
            self._aborted = set()
            results += await self._apply_files(desired, contents, alone)
        async with self.turn:
            quick = replace(tools, locks=self.swift_locks or tools.locks)
            results += await self._apply_services(desired, quick, self.observer, alone)
        if quick.locks is not tools.locks:
            results = await self._apply_locked(desired, quick, results, alone)
        async with self.turn:
            seen = await self.observer.see_executions(desired, journal.pending())
            steps = _without_aborted(executions.plan_executions(desired, seen), self._aborted)
            return results + await apply.apply_executions(_without(steps, unknown), tools)

    async def repair(
        self, focus: Focus, contents: Contents, alone: AbstractSet[ResourceId] = _NOTHING
    ) -> list[Result]:
        """Put back a few resources, files first, and return what became of them; the caller holds `turn`.

        Besides them, only subscribers of files that were put back are looked at. No other tool is asked.
        """
        with self.progress.working():
            return await self._repair(focus, contents, alone)

    async def _repair(self, focus: Focus, contents: Contents, alone: AbstractSet[ResourceId]) -> list[Result]:
        desired, tools, journal = focus.desired, self.tools, self.tools.journal
        results: list[Result] = []
        before = journal.pending()
        if desired.files:
            results += await self._apply_files(desired, contents, alone, focus.layout)
        if desired.packages:
            seen = await self.observer.see_packages(desired)
            steps = policies.leave_alone(packages.plan_packages(desired, seen), alone)
            results += await apply.apply_packages(steps, tools)
        newly = {one for one, entry in journal.pending().items() if entry != before.get(one)}
        owed = focus.lens.owed(focus.ids | newly)
        if owed.services:
            swift = replace(
                tools, services=self.swift or tools.services, locks=self.swift_locks or tools.locks
            )
            observer = replace(self.observer, services=swift.services)
            results += await self._apply_services(owed, swift, observer, alone)
        if owed.executions:
            unknown = dict.fromkeys(journal.started(), "how its last run ended is found out by the next pass")
            seen = await self.observer.see_executions(owed, journal.pending())
            steps = _without_aborted(executions.plan_executions(owed, seen), self._aborted)
            results += await apply.apply_executions(_without(steps, unknown), tools)
        return results

    async def _apply_services(
        self, desired: Desired, tools: Tools, observer: Observer, alone: AbstractSet[ResourceId]
    ) -> list[Result]:
        seen = await observer.see_services(desired, tools.journal.pending())
        if self.unread and any(fact.stale for fact in seen.services.values()):
            await self.refresh()  # they are because of us, and that is no drift
            seen = await observer.see_services(desired, tools.journal.pending())
        if observer is not self.observer:  # in a repair: what is on its way tells when it has arrived
            moving = {one for one, fact in seen.services.items() if fact.unsettled}
            desired = replace(
                desired, services=tuple(item for item in desired.services if item.id not in moving)
            )
        steps = _without_aborted(
            policies.leave_alone(services.plan_services(desired, seen), alone), self._aborted
        )
        return await apply.apply_services(steps, tools, None if observer is self.observer else self.unread)

    async def refresh(self) -> None:
        """Have service managers notice what repairs enabled: a second or so, in which they answer nobody."""
        manager = self.swift or self.tools.services
        while manager is not None and self.unread:
            try:
                await manager.refresh(self.unread.pop())
            except HostError as error:
                log.warning("%s", error)

    async def _apply_locked(
        self, desired: Desired, quick: Tools, results: list[Result], alone: AbstractSet[ResourceId]
    ) -> list[Result]:
        """Restart what waits for a lock of another host; nobody on this one has to wait with it meanwhile."""
        late = {one.id: one for one in results if one.outcome is Outcome.BLOCKED and one.deed == _RESTART}
        waiting = [item for item in desired.services if item.id in late]
        for group in dict.fromkeys(item.declaration.lock_group for item in waiting):
            part = tuple(item for item in waiting if item.declaration.lock_group == group)
            again: list[Result] = []
            try:
                async with self.tools.locks.hold(group), self.turn:
                    again = await self._apply_services(
                        replace(desired, services=part), quick, self.observer, alone
                    )
            except HostError as error:  # it is not our turn; or it was, and what was done is done
                again = again or [replace(late[item.id], message=str(error)) for item in part]
            done = [late[item.id] for item in part]
            results = [one for one in results if one not in done] + again
        return results

    async def _apply_files(
        self,
        desired: Desired,
        contents: Contents,
        alone: AbstractSet[ResourceId],
        whole: files.Layout | None = None,
    ) -> list[Result]:
        """Bring the files about; once more, if a link on the way to some of them leads elsewhere now.

        In a repair, `whole` is the layout of everything that is declared.
        """
        results: list[Result] = []
        layout = whole or files.layout(desired)
        broken_off = set() if whole is None else self._aborted
        for _ in range(2):
            hands = Hands(self.observer.tree, self.bucket, self.tools.journal, self.observer.run)
            batch = FileBatch(hands, aborted=set(broken_off))
            seen = await self.observer.see_files(desired, contents, whole=whole is None)
            steps = files.plan_files(desired, contents, seen, layout)
            steps = policies.leave_alone(steps, alone, layout.declared)
            results = _newer(results, await batch.apply(steps))
            self._aborted = self._aborted | batch.aborted
            for path, digest in batch.kept.items():
                self.replaced.setdefault(path, digest)
            if not any(isinstance(step, MakeLink) and _leads_on(step, desired) for step in steps):
                break
        return results

    async def _recover(self, desired: Desired) -> dict[ResourceId, str]:
        """Find out what became of runs that were under way when we were killed.

        Returns those of which that cannot be said or recorded now, and why: they must not run again.
        """
        known = {item.id: item.declaration for item in desired.executions}
        unknown: dict[ResourceId, str] = {}
        for resource in self.tools.journal.started():
            execution = known.get(resource)
            if execution is None:
                continue  # nobody wants it any more; if it still runs, it may end by itself
            try:
                timeout = durations.parse(execution.timeout)
                with self.progress.allowing(timeout):
                    status = await self.tools.runs.recover(resource, timeout)
                if status == 0:
                    self.tools.journal.settle([resource])
                else:
                    self.tools.journal.end(resource)
            except OSError as error:
                unknown[resource] = f"cannot tell how its last run ended: {error}"
        return unknown

    def _tidy(self, desired: Desired) -> None:
        """Drop what is owed to nobody, and what an earlier process of ours left when it was killed."""
        tools, tree = self.tools, self.observer.tree
        declared = [item.id for item in desired.services] + [item.id for item in desired.executions]
        try:
            tools.journal.keep_only([*declared, *desired.held])
            if not self._swept:
                tools.runs.sweep(tools.journal.started())
        except OSError as error:
            log.warning("%s", error)
        folders = {item.declaration.path.rpartition("/")[0] or "/" for item in desired.files}
        folders.add(tools.journal.folder)
        if self.bucket is not None:
            folders.add(self.bucket.folder)
        for folder in folders - self._swept:
            staging.sweep(tree, folder)
        self._swept = folders
        tree.forget()


def _leads_on(step: MakeLink, desired: Desired) -> bool:
    return any(item.declaration.path.startswith(f"{step.path}/") for item in desired.files)


def _newer(old: list[Result], new: list[Result]) -> list[Result]:
    """Return the results of a second look; what was changed before it was changed in this pass."""
    changed = {one.id: one for one in old if one.outcome is Outcome.CHANGED}
    both = [changed.pop(one.id, one) if one.outcome is Outcome.UNCHANGED else one for one in new]
    again = {one.id for one in both}
    return both + [one for one in changed.values() if one.id not in again]


def _without(steps: Iterable[Step], unknown: Mapping[ResourceId, str]) -> list[Step]:
    return [
        Blocked(id=step.id, sources=step.sources, reason=unknown[step.id]) if step.id in unknown else step
        for step in steps
    ]


def _without_aborted(steps: Iterable[Step], aborted: set[str]) -> list[Step]:
    """Hold back the steps of ConfigSets that a failed validation has aborted."""
    kept: list[Step] = []
    for step in steps:
        if step.sources and aborted.issuperset(step.sources):
            reason = f"ConfigSet {step.sources[0]} was aborted by a validation that failed before"
            kept.append(Blocked(id=step.id, sources=step.sources, reason=reason))
        else:
            kept.append(step)
    return kept


def failures(results: Iterable[Result]) -> list[Result]:
    """Return what did not go well."""
    return [one for one in results if one.outcome in (Outcome.FAILED, Outcome.BLOCKED)]
