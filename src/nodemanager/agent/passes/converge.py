"""One pass over a host: observe, plan, apply, stage by stage.

    packages -> files -> services -> executions        (the table in plan/stages.py)

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
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nodemanager.agent.passes.progress import Progress
from nodemanager.host.apply import Locks, Tools
from nodemanager.host.base import HostError, ServiceManager
from nodemanager.host.files import staging
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.kind_parts import HostParts, Work
from nodemanager.host.observe import Observer
from nodemanager.host.results import Outcome, Result
from nodemanager.host.stages import PARTS
from nodemanager.host.state.state_lock import StateLock
from nodemanager.kube.go import durations
from nodemanager.plan import drift_policies, subscribers
from nodemanager.plan.desired import Contents, Desired
from nodemanager.plan.focus import Focus
from nodemanager.plan.host_kinds import AnyKind, PlanInput
from nodemanager.plan.layout import Layout
from nodemanager.plan.resources import FILE, ResourceId
from nodemanager.plan.stages import KINDS, HostKinds
from nodemanager.plan.steps import Blocked, Step

log = logging.getLogger(__name__)
_NOTHING: Final = frozenset[ResourceId]()


@dataclass(frozen=True, slots=True)
class _Stage:
    """One kind in a pass or in a repair."""

    kind: AnyKind
    observe_only: AbstractSet[ResourceId]
    """What is only looked at."""
    unknown: Mapping[ResourceId, str] = field(default_factory=dict)
    """What must not run now, and why."""


@dataclass(slots=True)
class Converger:
    """Makes a host what it shall be."""

    observer: Observer
    tools: Tools
    bucket: Bucket | None
    lock: StateLock | None = None
    """Taken with the first pass that may change something, and kept."""
    no_wait_services: ServiceManager | None = None
    """The service manager for repairs: it does not wait to see whether what it started stays up."""
    no_wait_locks: Locks | None = None
    """Locks that are not waited for: while another host holds one, nothing else on this host waits for it."""
    progress: Progress = field(default_factory=Progress)
    """Notices a pass that hangs."""
    may_act: Callable[[], bool] = lambda: True
    """Whether the host may be changed now: asked before each stage and each repair."""
    kinds: HostKinds = KINDS
    parts: HostParts = field(default_factory=lambda: PARTS)
    """How each of the kinds is observed and changed."""
    host_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by each stage of a pass and by each repair: only one of them works on the host at a time."""
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

    def __post_init__(self) -> None:
        self.parts = self.kinds.each("host part", self.parts)

    async def preview(self, desired: Desired, contents: Contents) -> list[Step]:
        """Return what a pass would do, as things are now."""
        pending = self.tools.journal.pending()
        changing: Mapping[ResourceId, tuple[str, ...]] = {}
        steps: list[Step] = []
        for kind in self.kinds:
            work = Work(PlanInput(desired, contents, pending, changing), self.observer, self.tools)
            found = kind.plan(work.given, await self._look(kind, work))
            changing = {**changing, **subscribers.owed(found)}
            steps += found
        return steps

    async def run(
        self, desired: Desired, contents: Contents, observe_only: AbstractSet[ResourceId] = _NOTHING
    ) -> list[Result]:
        """Make it so, and return what became of every resource; those `observe_only` are not changed."""
        with self.progress.working():
            return await self._run(desired, contents, observe_only)

    async def _run(
        self, desired: Desired, contents: Contents, observe_only: AbstractSet[ResourceId]
    ) -> list[Result]:
        no_wait = replace(self.tools, locks=self.no_wait_locks or self.tools.locks)
        results: list[Result] = []
        unknown: dict[ResourceId, str] | None = None
        for kind in self.kinds:
            async with self.host_lock:
                if unknown is None:
                    unknown = await self._begin(desired)
                if kind.name == FILE:  # what repairs noted until now is about the state before this pass
                    self._aborted = set()
                stage = _Stage(kind, observe_only, unknown)
                done = await self._bring_about(stage, self._work(desired, contents, no_wait))
            if no_wait.locks is not self.tools.locks:
                done = await self._bring_about_locked(stage, desired, contents, no_wait, done)
            results += done
        return results

    async def _begin(self, desired: Desired) -> dict[ResourceId, str]:
        """Make the state ours, and find out how an earlier process of ours has left the host."""
        if self.lock is not None and self.lock.take(make=any(desired.items.values())):
            self.tools.journal.reload()  # whoever had it before may have written there
        unknown = await self._recover(desired)
        self._tidy(desired)
        return unknown

    async def repair(
        self, focus: Focus, contents: Contents, observe_only: AbstractSet[ResourceId] = _NOTHING
    ) -> list[Result]:
        """Put back a few resources, files first, and return what became of them.

        The caller holds `host_lock`. Besides them, only subscribers of files that were put back are looked
        at. No other tool is asked.
        """
        with self.progress.working():
            return await self._repair(focus, contents, observe_only)

    async def _repair(
        self, focus: Focus, contents: Contents, observe_only: AbstractSet[ResourceId]
    ) -> list[Result]:
        journal, results = self.tools.journal, list[Result]()
        no_wait = replace(
            self.tools,
            services=self.no_wait_services or self.tools.services,
            locks=self.no_wait_locks or self.tools.locks,
        )
        before = journal.pending()
        for kind in self.kinds.put_back:
            if focus.desired.items.get(kind.name):
                work = self._work(focus.desired, contents, no_wait, focus.layout)
                results += await self._bring_about(_Stage(kind, observe_only), work)
        newly = {one for one, entry in journal.pending().items() if entry != before.get(one)}
        owed = focus.lens.owed(focus.ids | newly)
        unknown = dict.fromkeys(journal.started(), "how its last run ended is found out by the next pass")
        for kind in self.kinds.owed:
            if owed.items.get(kind.name):
                work = self._work(owed, contents, no_wait, focus.layout)
                results += await self._bring_about(_Stage(kind, observe_only, unknown), work)
        return results

    def _work(self, desired: Desired, contents: Contents, tools: Tools, layout: Layout | None = None) -> Work:
        """Return what a stage works with now; with the `layout` of everything declared, it is a repair."""
        repair = layout is not None
        pending = tools.journal.pending()
        given = PlanInput(desired, contents, pending, layout=layout, repair=repair)
        observer = replace(self.observer, services=tools.services) if repair else self.observer
        return Work(
            given, observer, tools, self.bucket, frozenset(self._aborted), self._aborted, self.replaced,
            self.unread, self.refresh,
        )  # fmt: skip

    async def _look(self, kind: AnyKind, work: Work) -> Any:
        return await self.parts[kind.name].observe(kind.needs(work.given), work)

    async def _bring_about(self, stage: _Stage, work: Work) -> list[Result]:
        """Observe, plan, apply; once more, if what was done changed what was observed."""
        kind, results = stage.kind, list[Result]()
        for _ in range(2):
            steps = drift_policies.leave_alone(
                kind.plan(work.given, await self._look(kind, work)), stage.observe_only
            )
            if kind.name in self.kinds.after_files:
                steps = _without_aborted(steps, self._aborted)
            steps = _without(steps, stage.unknown)
            steps = steps if self.may_act() else drift_policies.hold_back(steps)
            done = await self.parts[kind.name].apply(steps, work)
            results = _newer(results, done) if results else done
            if not kind.again(steps, work.given):
                break
        return results

    async def refresh(self) -> None:
        """Have service managers notice what repairs enabled: a second or so, in which they answer nobody."""
        manager = self.no_wait_services or self.tools.services
        while manager is not None and self.unread:
            try:
                await manager.refresh(self.unread.pop())
            except HostError as error:
                log.warning("%s", error)

    async def _bring_about_locked(
        self, stage: _Stage, desired: Desired, contents: Contents, no_wait: Tools, results: list[Result]
    ) -> list[Result]:
        """Do what waits for a lock of another host; nobody on this one has to wait with it meanwhile."""
        late = {one.id: one for one in results if one.outcome is Outcome.BLOCKED and one.lock}
        name = stage.kind.name
        waiting = [item for item in desired.items.get(name, ()) if item.id in late]
        for lock in dict.fromkeys(late[item.id].lock for item in waiting):
            part = tuple(item for item in waiting if late[item.id].lock == lock)
            again: list[Result] = []
            try:
                async with self.tools.locks.hold(lock), self.host_lock:
                    only = replace(desired, items={**desired.items, name: part})
                    again = await self._bring_about(stage, self._work(only, contents, no_wait))
            except HostError as error:  # it is not our turn; or it was, and what was done is done
                again = again or [replace(late[item.id], message=str(error)) for item in part]
            done = [late[item.id] for item in part]
            results = [one for one in results if one not in done] + again
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
        declared = [item.id for kind in self.kinds.owed for item in desired.items.get(kind.name, ())]
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


def _newer(old: list[Result], new: list[Result]) -> list[Result]:
    """Return the results of a second look; what was changed before it was changed in this pass."""
    changed = {one.id: one for one in old if one.outcome is Outcome.CHANGED}
    both = [changed.pop(one.id, one) if one.outcome is Outcome.UNCHANGED else one for one in new]
    again = {one.id for one in both}
    return both + [one for one in changed.values() if one.id not in again]


def _without(steps: list[Step], unknown: Mapping[ResourceId, str]) -> list[Step]:
    if not unknown:
        return steps
    return [
        Blocked(id=step.id, sources=step.sources, reason=unknown[step.id]) if step.id in unknown else step
        for step in steps
    ]


def _without_aborted(steps: list[Step], aborted: set[str]) -> list[Step]:
    """Hold back the steps of ConfigSets that a failed validation has aborted."""
    if not aborted:
        return steps
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
    return [one for one in results if one.bad]
