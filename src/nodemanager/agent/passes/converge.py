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
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nodemanager.agent.passes import executing, noting, recovery
from nodemanager.agent.passes.background import Background
from nodemanager.agent.passes.host_records import HostRecords
from nodemanager.agent.passes.no_wait import NoWait
from nodemanager.agent.passes.progress import PassProgress
from nodemanager.agent.passes.restraints import Restraints
from nodemanager.agent.passes.stage import PassStage, changed_by, newer, was_held, without, without_aborted
from nodemanager.agent.passes.tidying import Tidying
from nodemanager.agent.passes.underway import Underway
from nodemanager.host.apply import Tools
from nodemanager.host.base import HostError
from nodemanager.host.kind_parts import HostParts, StageWork
from nodemanager.host.observe import Observer
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.host.stages import PARTS
from nodemanager.plan import drift_policies, preview, subscribers, unmade
from nodemanager.plan.desired import Contents, Desired, Item
from nodemanager.plan.focus import Focus
from nodemanager.plan.host_kinds import AnyKind, PlanInput
from nodemanager.plan.layout import Layout
from nodemanager.plan.resources import FILE, PACKAGE, SERVICE, ResourceId
from nodemanager.plan.stages import KINDS, HostKinds
from nodemanager.plan.steps import Step, changes
from nodemanager.plan.unmade import HeldBack

log = logging.getLogger(__name__)
_NOTHING: Final = frozenset[ResourceId]()


def _never(_: ResourceId) -> bool:
    """Tell that no resource held before: for runs without memory."""
    return False


@dataclass(slots=True)
class Converger:
    """Brings a host to its wanted state."""

    observer: Observer
    tools: Tools
    records: HostRecords = field(default_factory=HostRecords)
    no_wait: NoWait = field(default_factory=NoWait)
    progress: PassProgress = field(default_factory=PassProgress)
    """Notices a hanging pass."""
    restraints: Restraints = field(default_factory=Restraints)
    kinds: HostKinds = KINDS
    parts: HostParts = field(default_factory=lambda: PARTS)
    """How each kind is observed and changed."""
    background: Background = field(default_factory=Background)
    """Does work that may take minutes."""
    underway: Underway = field(default_factory=Underway)
    """Reports the progress of a long pass."""
    host_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by each stage of a pass and by each repair: only one of them works on the host at a time."""
    upgrading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during the upgrade of the whole system, as changes by packages are no drift. Repairs wait for it;
    passes do not, because they have to report the progress."""
    _aborted: set[str] = field(default_factory=set)
    """ConfigSets that the last pass aborted: repairs leave them alone, too."""
    _tidying: Tidying = field(default_factory=Tidying)

    def __post_init__(self) -> None:
        self.parts = self.kinds.each("host part", self.parts)

    async def preview(
        self,
        desired: Desired,
        contents: Contents,
        observer: Observer | None = None,
        observe_only: AbstractSet[ResourceId] = _NOTHING,
    ) -> list[Step]:
        """Return what a pass would do, as things are now; another `observer` may see less."""
        pending = self.tools.journal.pending()
        changing: Mapping[ResourceId, tuple[str, ...]] = {}
        steps: list[Step] = []
        for kind in self.kinds:
            given = PlanInput(desired, contents, pending, changing)
            work = StageWork(given, observer or self.observer, self.tools)
            facts = await self._look(kind, work)
            found = drift_policies.leave_alone(kind.plan(work.given, facts), observe_only)
            found = unmade.without(found, self._held_back(desired, contents, _never))
            found = preview.expect(await self.parts[kind.name].rehearse(found, work), steps, self.kinds)
            changing = {**changing, **subscribers.owed(found)}
            steps += found
        return steps

    async def run(
        self,
        desired: Desired,
        contents: Contents,
        observe_only: AbstractSet[ResourceId] = _NOTHING,
        held: Callable[[ResourceId], bool] = _never,
    ) -> list[Result]:
        """Make it so, and return what became of every resource; those `observe_only` are not changed.

        What `held` before as it is declared now is put back even if an earlier file has no content.
        """
        with self.progress.working(), self.underway.passing():
            found = self._held_back(desired, contents, held)
            return await self._run(desired, contents, observe_only, found)

    async def _run(
        self, desired: Desired, contents: Contents, observe_only: AbstractSet[ResourceId], found: HeldBack
    ) -> list[Result]:
        no_wait = self.no_wait.in_pass(self.tools)
        results: list[Result] = []
        busy: set[str] | None = None
        shut = self.restraints.shut()  # once: what comes later in a set is not done before what comes first
        for kind in self.kinds:
            async with self.host_lock:
                if busy is None:
                    busy = set()
                    await self._begin(desired, contents)
                busy |= self.background.busy
                if kind.name == FILE:  # what repairs noted until now is about the state before this pass
                    self._aborted = set()
                held, changed = was_held(results), changed_by(results)
                stage = PassStage(kind, observe_only, {}, found, frozenset(busy), held, changed, shut)
                done = await self._bring_about(stage, self._work(desired, contents, no_wait))
            if kind.background:
                done = await self._finished(done, desired.items.get(kind.name, ()), whole=True)
            elif no_wait.locks is not self.tools.locks:
                done = await self._bring_about_locked(stage, desired, contents, no_wait, done)
            self.underway.done(done)
            results += done
        return results

    async def _begin(self, desired: Desired, contents: Contents) -> None:
        """Find out how an earlier process of ours has left the host."""
        self.take_state(desired)
        self.background.begin_pass(desired, contents)
        jobs = recovery.jobs(desired, self.tools, self.progress, self.background.busy)
        for config_set, todo in jobs.items():
            self.background.start(config_set, todo)
        if jobs:
            await self.background.wait()
        owed = [item.id for kind in self.kinds.owed for item in desired.items.get(kind.name, ())]
        owed += self.background.ids
        self._tidying.tidy(desired, owed, self.tools, self.observer.tree, self.records)

    def take_state(self, desired: Desired) -> None:
        """Make the state ours, as long as we live; raise if another process has it."""
        self.records.take(self.tools.journal, make=any(desired.items.values()))

    async def repair(
        self,
        focus: Focus,
        contents: Contents,
        observe_only: AbstractSet[ResourceId] = _NOTHING,
        held: Callable[[ResourceId], bool] = _never,
    ) -> list[Result]:
        """Put back a few resources, files first, and return what became of them.

        The caller holds `host_lock`. Besides them, only subscribers of files that were put back are looked
        at. No other tool is asked.
        """
        with self.progress.working():
            found = self._held_back(focus.lens.desired, contents, held)
            return await self._repair(focus, contents, observe_only, found)

    async def _repair(
        self, focus: Focus, contents: Contents, observe_only: AbstractSet[ResourceId], found: HeldBack
    ) -> list[Result]:
        journal, results = self.tools.journal, list[Result]()
        no_wait = self.no_wait.in_repair(self.tools)
        before, shut = journal.pending(), self.restraints.shut()
        for kind in self.kinds.put_back:
            if focus.desired.items.get(kind.name):
                work = self._work(focus.desired, contents, no_wait, focus.layout)
                stage = PassStage(kind, observe_only, {}, found, held=was_held(results), shut=shut)
                results += await self._bring_about(stage, work)
        newly = {one for one, entry in journal.pending().items() if entry != before.get(one)}
        owed = focus.lens.owed(focus.ids | newly)
        unsure = [one for one in journal.started() if one not in self.background.ids]
        unknown = dict.fromkeys(unsure, "how its last run ended is found out by the next pass")
        for kind in self.kinds.owed:
            if owed.items.get(kind.name):
                work = self._work(owed, contents, no_wait, focus.layout)
                held, changed = was_held(results), changed_by(results)
                stage = PassStage(kind, observe_only, unknown, found, held=held, changed=changed, shut=shut)
                done = await self._bring_about(stage, work)
                results += await self._finished(done, owed.items[kind.name]) if kind.background else done
        return results

    def _held_back(
        self, desired: Desired, contents: Contents, held: Callable[[ResourceId], bool]
    ) -> HeldBack:
        return unmade.held_back(desired, contents, held, self.kinds.beginning(desired))

    def _work(
        self, desired: Desired, contents: Contents, tools: Tools, layout: Layout | None = None
    ) -> StageWork:
        """Return what a stage works with now; with the `layout` of everything declared, it is a repair."""
        repair = layout is not None
        pending = tools.journal.pending()
        given = PlanInput(desired, contents, pending, layout=layout, repair=repair)
        observer = replace(self.observer, services=tools.services) if repair else self.observer
        return StageWork(
            given, observer, tools, self.records.bucket, frozenset(self._aborted), self._aborted,
            self.records.replaced, self.no_wait.unread, self.refresh,
        )  # fmt: skip

    async def _look(self, kind: AnyKind, work: StageWork) -> Any:
        return await self.parts[kind.name].observe(kind.needs(work.given), work)

    async def _bring_about(self, stage: PassStage, work: StageWork) -> list[Result]:
        """Observe, plan, apply; once more, if what was done changed what was observed."""
        kind, results, held, ledger = stage.kind, list[Result](), stage.held, self.records.ledger
        for _ in range(2):
            facts = await self._look(kind, work)
            steps = drift_policies.leave_alone(kind.plan(work.given, facts), stage.observe_only)
            if kind.name in self.kinds.after_files:
                steps = without_aborted(steps, self._aborted)
            steps = unmade.without(without(steps, stage.unknown), stage.held_back)
            held = held or not self.restraints.may_act()
            steps = self.may_do(steps, stage.busy, stage.shut, held=held)
            if ledger is not None and kind.owning is not None:
                steps = await noting.noted(ledger, kind.owning, steps, work, facts, self.parts[kind.name])
                if kind.name in (PACKAGE, FILE) and not work.given.repair and changes(steps):
                    await noting.foresee(ledger, work, self.parts[SERVICE])
            if kind.background:
                steps = executing.start(self.background, steps, stage, work, self._apply_later)
            elif (acting := changes(steps)) and not work.given.repair:
                self.underway.doing(acting)
            done = await self.parts[kind.name].apply(steps, work)
            if ledger is not None and kind.owning is not None:
                await noting.tell_failures(ledger, done)
            results = newer(results, done) if results else done
            if not kind.again(steps, work.given):
                break
        return results

    def may_do(
        self, steps: list[Step], busy: AbstractSet[str], shut: AbstractSet[str], *, held: bool
    ) -> list[Step]:
        """Return the steps without what is not to be done now."""
        steps = self.background.put_off(steps, busy)
        if held:
            steps = drift_policies.hold_back(steps)
        return drift_policies.put_off(steps, shut)

    def taking_back(self, desired: Desired, contents: Contents, whole: Layout) -> StageWork:
        """Return what it takes to put back a few resources that are not declared any more."""
        given = PlanInput(desired, contents, layout=whole)
        return StageWork(given, self.observer, self.tools, self.records.bucket, frozenset(self._aborted))

    async def refresh(self) -> None:
        """Have service managers read what repairs enabled: for about a second, they do not answer."""
        await self.no_wait.refresh(self.tools)

    async def _bring_about_locked(
        self, stage: PassStage, desired: Desired, contents: Contents, no_wait: Tools, results: list[Result]
    ) -> list[Result]:
        """Do what waits for a lock of another host; nobody on this one has to wait with it meanwhile."""
        late = {one.id: one for one in results if one.outcome is ResourceOutcome.BLOCKED and one.lock}
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

    async def _apply_later(self, step: Step, work: StageWork) -> list[Result]:
        """Do what had to wait for its turn, unless the host was held or its window shut meanwhile."""
        steps = [step] if self.restraints.may_act() else drift_policies.hold_back([step])
        steps = drift_policies.put_off(steps, self.restraints.shut())
        return await self.parts[step.id.kind].apply(steps, work)

    async def _finished(
        self, results: list[Result], items: Sequence[Item[Any]], *, whole: bool = False
    ) -> list[Result]:
        journal = self.tools.journal
        return await executing.finished(self.background, journal, results, items, whole=whole)
