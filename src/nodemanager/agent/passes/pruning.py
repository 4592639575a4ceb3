"""Puts back what no ConfigSet declares any more, after everything that is declared was brought about.

    services -> files -> packages         the reverse of a pass: what uses something goes before it

The plan is that of a pass: how something was before us is declared, and the planner of its kind says what
that takes. So holds, windows, backups and crashes are what they are in a pass.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.stage import changed_by, without_aborted
from nodemanager.host.base import HostError
from nodemanager.host.files.former_content import former_content
from nodemanager.host.kind_parts import Work
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import Outcome, Result
from nodemanager.host.state.ownership_ledger import LedgerError, OwnershipLedger
from nodemanager.plan import ownership
from nodemanager.plan.desired import Content, Desired, Item
from nodemanager.plan.host_kinds import AnyKind
from nodemanager.plan.layout import layout
from nodemanager.plan.ownership import Owned, Prune, PutBack, Release, SetsTold
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Noop, Step

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Going:
    """What is to be done about the resources of one kind."""

    work: Work
    steps: list[Step] = field(default_factory=list)
    left: dict[ResourceId, Owned] = field(default_factory=dict)
    """What stays, and why."""
    gone: set[ResourceId] = field(default_factory=set)
    """What is as it was before us."""

    def leave(
        self, one: ResourceId, entry: Owned, why: str, *, waits: bool = False, final: bool = False
    ) -> None:
        """Leave something behind, and say why."""
        self.left[one] = msgspec.structs.replace(entry, left=why, waits=waits, final=final or entry.final)


@dataclass(frozen=True, slots=True)
class Pruner:
    """Takes back what a host has only because of sets that declare it no longer."""

    converger: Converger
    ledger: OwnershipLedger

    def begin(self, held: Iterable[ResourceId], told: SetsTold | None) -> None:
        """Take down what is to be remembered of sets; where there is no record, begin one.

        `held` is what the agent found, or brought about, before there was one. The caller has the state.
        """
        kinds, known = self.converger.kinds, [one for one in held if one.kind in self.converger.kinds]
        try:
            records, node = (told.records, told.node) if told else (self.ledger.sets, self.ledger.node)
            self.ledger.begin(records, node, [one for one in known if kinds[one.kind].owning])
        except LedgerError as error:
            log.warning("%s", error)

    async def run(self, desired: Desired, told: SetsTold) -> list[Result]:
        """Put back what is to be put back now, and return what became of it."""
        results: list[Result] = []
        try:
            for kind, releases in self._released(desired, told):
                async with self.converger.host_lock:
                    results += await self._put_back(kind, releases, desired)
        except LedgerError as error:
            log.warning("cannot tell what nobody declares any more: %s", error)
        if changed_by(results) and self.converger.tools.journal.pending():
            self.converger.background.ask()  # for restarts of what uses these files and stays
        return results

    async def preview(self, desired: Desired, told: SetsTold) -> list[Step]:
        """Return what would be put back, as things are now."""
        steps: list[Step] = []
        for kind, releases in self._released(desired, told):
            plan = await self._plan(kind, releases, desired)
            steps += await self.converger.parts[kind.name].rehearse(plan.steps, plan.work)
            steps += [
                Noop(id=one, sources=entry.sets, reason=f"nobody declares it; left behind: {entry.left}")
                for one, entry in plan.left.items()
            ]
        return steps

    def _released(self, desired: Desired, told: SetsTold) -> Iterable[tuple[AnyKind, list[Release]]]:
        kinds = self.converger.kinds

        def rank(one: ResourceId) -> Prune:
            owning = kinds[one.kind].owning if one.kind in kinds else None
            return owning.rank if owning else Prune.RESOURCES

        found = ownership.released(self.ledger.owned, self.ledger.sets, desired, told, rank)
        for kind in reversed(tuple(kinds)):
            if mine := [one for one in found if one.id.kind == kind.name]:
                yield kind, mine

    async def _put_back(self, kind: AnyKind, releases: list[Release], desired: Desired) -> list[Result]:
        converger, part = self.converger, self.converger.parts[kind.name]
        plan = await self._plan(kind, releases, desired)
        steps = without_aborted(plan.steps, set(plan.work.broken_off))
        steps = converger.may_do(
            await part.rehearse(steps, plan.work) if steps else [],
            converger.background.busy,
            converger.shut(),
            held=not converger.may_act(),
        )
        results = await part.apply(steps, plan.work) if steps else []
        entries = {one.id: one.owned for one in releases}
        for one in results:
            if one.outcome in (Outcome.CHANGED, Outcome.UNCHANGED):
                plan.gone.add(one.id)
            else:
                waits = one.outcome is not Outcome.BLOCKED
                plan.leave(one.id, entries[one.id], one.said, waits=waits)
        self._say(plan.left)
        await in_thread(lambda: self.ledger.settle(plan.left, plan.gone))
        return [
            replace(one, pruned=True, news=True)
            for one in results
            if one.outcome not in (Outcome.UNCHANGED, Outcome.BLOCKED)
        ]

    async def _plan(self, kind: AnyKind, releases: list[Release], desired: Desired) -> _Going:
        """Decide about each; nothing is changed."""
        whole, owning, part = layout(desired), kind.owning, self.converger.parts[kind.name]
        plan = _Going(self.converger.taking_back(Desired(), {}, whole))
        going: dict[ResourceId, Release] = {}
        for one in releases:
            if one.left:
                plan.leave(one.id, one.owned, one.left, waits=one.waits)
            elif owning is None or one.owned.untouched or owning.covered(one.id, desired):
                plan.gone.add(one.id)
            else:
                going[one.id] = one
        if owning is None or not going:
            return plan
        facts = await part.observe(owning.needs(going), plan.work)
        backs = owning.put_back({one: release.owned for one, release in going.items()}, facts)
        items: list[Item[Any]] = []
        contents: dict[str, Content] = {}
        for resource, back in backs.items():
            entry = going[resource].owned
            if back.left:
                plan.leave(resource, entry, back.left, final=back.final)
            elif back.declaration is None:
                plan.gone.add(resource)
            elif not back.content or await self._fetch(resource, entry, back, plan, contents):
                items.append(Item(resource, back.declaration, entry.sets))
        plan.work = self.converger.taking_back(Desired({kind.name: tuple(items)}), contents, whole)
        steps = kind.plan(plan.work.given, facts) if items else []
        plan.steps = [_explained(one, going, backs) for one in steps]
        return plan

    async def _fetch(
        self, resource: ResourceId, entry: Owned, back: PutBack, plan: _Going, contents: dict[str, Content]
    ) -> bool:
        """Fetch what a file contained; without that, it is left as it is."""
        tree, bucket = self.converger.observer.tree, self.converger.bucket
        try:
            data = await in_thread(lambda: former_content(tree, bucket, resource.name, back.content))
        except (HostError, OSError) as error:
            plan.leave(resource, entry, str(error))
            return False
        contents[resource.name] = Content(data, back.content, secret=True)
        return True

    def _say(self, left: Mapping[ResourceId, Owned]) -> None:
        """Say of what is left behind why it is, once."""
        known = self.ledger.owned
        for one, entry in left.items():
            if one not in known or known[one].left != entry.left:
                log.warning("%s is left behind, nobody declares it any more: %s", one, entry.left)


def _explained(step: Step, going: Mapping[ResourceId, Release], backs: Mapping[ResourceId, PutBack]) -> Step:
    if not step.ACTS or step.id not in going:
        return step
    return replace(step, reason=f"{going[step.id].cause}, and {backs[step.id].why}")
