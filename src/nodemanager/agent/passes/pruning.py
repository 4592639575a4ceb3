"""Takes back what no ConfigSet declares any more, after everything that is declared was brought about.

    services -> files -> packages         the reverse of a pass: what uses something goes before it

The plan is that of a pass: how something was before us is declared, and the planner of its kind says what
that takes. So holds, windows, backups and crashes are what they are in a pass.

Nothing is put back before it was not declared for a minute: it may be on its way from one set to another.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.stage import changed_by, without_aborted
from nodemanager.host.files.bucket import BucketError
from nodemanager.host.files.former_content import former_content
from nodemanager.host.kind_parts import StageWork, Twin
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.host.state.ownership_ledger import OwnershipLedger, OwnershipLedgerError
from nodemanager.plan import ownership
from nodemanager.plan.desired import Content, Desired, Item
from nodemanager.plan.host_kinds import AnyKind, AnyOwning
from nodemanager.plan.layout import layout
from nodemanager.plan.ownership import Owned, PutBack, Release
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import Prune, SetsTold
from nodemanager.plan.steps import Noop, Step

log = logging.getLogger(__name__)
Coming = Mapping[ResourceId, AbstractSet[str]]
"""The declarations of sets in a revision that this host does not have yet, by name."""
GRACE_SECONDS: Final = 60.0
"""How long to wait, as a person who moves something to another set edits one set after the other."""


@dataclass(slots=True)
class _Going:
    """The work on the resources of one kind."""

    work: StageWork
    steps: list[Step] = field(default_factory=list)
    left: dict[ResourceId, Owned] = field(default_factory=dict)
    """The resources that stay, and why."""
    gone: set[ResourceId] = field(default_factory=set)
    """The resources that are as they were before us."""
    moved: dict[ResourceId, ResourceId] = field(default_factory=dict)
    """The resources that are declared under another name."""
    awaited: dict[ResourceId, str] = field(default_factory=dict)
    """What a coming revision declares under another name, as text."""

    def leave(
        self, one: ResourceId, entry: Owned, why: str, *, waits: bool = False, final: bool = False
    ) -> None:
        """Leave something behind, and say why."""
        self.left[one] = msgspec.structs.replace(entry, left=why, waits=waits, final=final or entry.final)

    def keep(self, one: ResourceId, entry: Owned, back: PutBack) -> None:
        """Leave something behind; what of it somebody put back by hand is not ours any more."""
        ours = entry.ours if back.ours is None else (back.ours,)
        self.leave(one, msgspec.structs.replace(entry, ours=ours), back.left, final=back.final)

    def is_settled(self, one: Release, owning: AnyOwning | None, desired: Desired) -> bool:
        """Tell whether there is nothing to look at, and take note of what becomes of it."""
        if one.waits or one.owned.before is None:
            self.leave(one.id, one.owned, one.left, waits=one.waits)
        elif owning is None or one.owned.untouched or owning.covered(one.id, desired):
            self.gone.add(one.id)
        else:
            return False
        return True

    def has_twin(self, one: ResourceId, entry: Owned, twins: Mapping[ResourceId, Twin]) -> bool:
        """Tell whether something is declared under another name: then it stays."""
        twin = twins.get(one)
        if twin is not None and twin.same_place:
            self.moved[one] = twin.id
        elif twin is not None:
            self.leave(one, entry, f"it is the same as {twin.id}, or leads to it, which is declared")
        elif one in self.awaited:
            self.leave(one, entry, f"waits: {self.awaited[one]}", waits=True)
        return twin is not None or one in self.awaited

    def is_over(self, one: ResourceId, entry: Owned, back: PutBack) -> bool:
        """Tell whether nothing is to be done, and take note of why."""
        if back.left:
            self.keep(one, entry, back)
        elif back.declaration is None:
            self.gone.add(one)
        return bool(back.left) or back.declaration is None


@dataclass(frozen=True, slots=True)
class Pruner:
    """Takes back what a host has only because of sets that do not declare it any more."""

    converger: Converger
    ledger: OwnershipLedger
    again: Callable[[float], None] = lambda _seconds: None
    """Asks for another pass after so many seconds."""
    grace: float = GRACE_SECONDS
    """Seconds that no set may declare something before it is taken back."""
    clock: Callable[[], float] = time.monotonic
    _since: dict[ResourceId, float] = field(default_factory=dict)
    """Since when no set declares something, and no other reason keeps it."""

    def begin(self, held: Iterable[ResourceId], told: SetsTold | None) -> None:
        """Record what is to be remembered of sets; where there is no record, begin one.

        `held` is what the agent found, or brought about, before there was one. The caller has the state.
        """
        kinds, known = self.converger.kinds, [one for one in held if one.kind in self.converger.kinds]
        try:
            records = told.records if told else self.ledger.sets
            self.ledger.begin(records, [one for one in known if kinds[one.kind].owning])
        except OwnershipLedgerError as error:
            log.warning("%s", error)

    async def run(
        self, desired: Desired, told: SetsTold, unfinished: AbstractSet[str] = frozenset()
    ) -> list[Result]:
        """Put back what is to be put back now, and return what became of it.

        `unfinished` sets are not in place: what they had before may have to do until they are.
        """
        results: list[Result] = []
        try:
            found = [_unless(one, unfinished) for one in self._released(desired, told)]
            for kind, releases in self._by_kind(self._in_time(found)):
                async with self.converger.host_lock:
                    await self._put_back(kind, releases, desired, told.coming, results)
        except OwnershipLedgerError as error:
            log.warning("cannot record what no set declares any more, the next pass tries again: %s", error)
        if changed_by(results) and self.converger.tools.journal.pending():
            self.converger.background.ask()  # for restarts of what uses these files and stays
        return results

    def wait_anew(self) -> None:
        """Begin the minute anew: nobody knows what was declared meanwhile."""
        self._since.clear()

    async def preview(self, desired: Desired, told: SetsTold) -> list[Step]:
        """Return what would be put back, as things are now."""
        steps: list[Step] = []
        for kind, releases in self._by_kind(self._released(desired, told)):
            plan = await self._plan(kind, releases, desired, told.coming)
            steps += await self.converger.parts[kind.name].rehearse(plan.steps, plan.work)
            steps += [
                Noop(id=one, sources=entry.names, reason=f"nobody declares it; left behind: {entry.left}")
                for one, entry in plan.left.items()
            ]
        return steps

    def _released(self, desired: Desired, told: SetsTold) -> list[Release]:
        kinds = self.converger.kinds

        def rank(one: ResourceId) -> Prune:
            owning = kinds[one.kind].owning if one.kind in kinds else None
            return owning.rank if owning else Prune.RESOURCES

        return ownership.released(self.ledger.owned, self.ledger.sets, desired, told, rank)

    def _in_time(self, found: list[Release]) -> list[Release]:
        """Return the same; what may be taken back since a moment ago only is left for now."""
        now = self.clock()
        since = {one.id: self._since.get(one.id, now) for one in found if not one.left}
        self._since.clear()
        self._since.update(since)
        early = {one: now - at for one, at in since.items() if now - at < self.grace}
        if early:
            self.again(self.grace - max(early.values()))
        why = f"it is taken back unless a set declares it within {self.grace:g} seconds"
        return [
            one._replace(left=f"waits: {one.cause}; {why}", waits=True)
            if one.id in early and not one.owned.untouched
            else one
            for one in found
        ]

    def _by_kind(self, found: list[Release]) -> Iterable[tuple[AnyKind, list[Release]]]:
        for kind in reversed(tuple(self.converger.kinds)):
            if mine := [one for one in found if one.id.kind == kind.name]:
                yield kind, mine

    async def _put_back(
        self, kind: AnyKind, releases: list[Release], desired: Desired, coming: Coming, done: list[Result]
    ) -> None:
        """Put back resources of one kind, and add to `done` what became of them."""
        converger, part = self.converger, self.converger.parts[kind.name]
        plan = await self._plan(kind, releases, desired, coming)
        steps = without_aborted(plan.steps, set(plan.work.broken_off))
        steps = converger.may_do(
            await part.rehearse(steps, plan.work) if steps else [],
            converger.background.busy,
            _shut(steps, converger.restraints.shut()),
            held=not converger.restraints.may_act(),
        )
        results = await part.apply(steps, plan.work) if steps else []
        done += [
            replace(one, pruned=True, news=True)
            for one in results
            if one.outcome not in (ResourceOutcome.UNCHANGED, ResourceOutcome.BLOCKED)
        ]
        entries = {one.id: one.owned for one in releases}
        for one in results:
            if one.outcome in (ResourceOutcome.CHANGED, ResourceOutcome.UNCHANGED):
                plan.gone.add(one.id)
            else:
                waits = one.outcome is not ResourceOutcome.BLOCKED
                plan.leave(one.id, entries[one.id], one.said, waits=waits)
        self._say(plan.left)
        gone = plan.gone | plan.moved.keys()
        await in_thread(lambda: self.ledger.settle(plan.left, gone, plan.moved))

    async def _plan(self, kind: AnyKind, releases: list[Release], desired: Desired, coming: Coming) -> _Going:
        """Decide about each; nothing is changed."""
        whole, owning, part = layout(desired), kind.owning, self.converger.parts[kind.name]
        plan = _Going(self.converger.taking_back(Desired(), {}, whole))
        seen = {one.id: one for one in releases if not plan.is_settled(one, owning, desired)}
        if owning is None or not seen:
            return plan
        facts = await part.observe(
            owning.needs({one: release.owned for one, release in seen.items()}), plan.work
        )
        backs = _decided(owning, seen, facts)
        doing = [one for one, back in backs.items() if _is_new(back, seen[one])]
        declared = [one for one in _declared(desired) if one.kind == kind.name]
        twins = await part.twins(doing, declared, plan.work) if doing and declared else {}
        others = [seen[one] for one in doing if one not in twins]
        plan.awaited = await self._awaited(kind, others, coming, plan.work)
        staying = twins.keys() | plan.awaited.keys()
        if staying:  # what stays is in the way of directories that would go
            rest = {one: release for one, release in seen.items() if one not in staying}
            backs = {one: backs[one] for one in staying} | _decided(owning, rest, facts)
        items: list[Item[Any]] = []
        contents: dict[str, Content] = {}
        for resource, back in backs.items():
            entry = seen[resource].owned
            if plan.has_twin(resource, entry, twins) or plan.is_over(resource, entry, back):
                continue
            if not back.content or await self._fetch(resource, entry, back, plan, contents):
                items.append(Item(resource, back.declaration, entry.names))
        plan.work = self.converger.taking_back(Desired({kind.name: tuple(items)}), contents, whole)
        steps = kind.plan(plan.work.given, facts) if items else []
        plan.steps = [_explained(one, seen, backs) for one in steps]
        return plan

    async def _awaited(
        self, kind: AnyKind, going: list[Release], coming: Coming, work: StageWork
    ) -> dict[ResourceId, str]:
        """Return what other sets declare under another name, in a revision that is yet to come, in words."""
        part, found = self.converger.parts[kind.name], dict[ResourceId, str]()
        for own in {one.owned.names for one in going}:  # what they declare themselves does not come by others
            mine = [one.id for one in going if one.owned.names == own]
            others = {one: sets - set(own) for one, sets in coming.items() if one.kind == kind.name}
            ids = [one for one, sets in others.items() if sets]
            twins = await part.twins(mine, ids, work) if ids else {}
            for one, twin in twins.items():
                said = f"{twin.id}, which it is or leads to, in a revision that this host does not have yet"
                found[one] = f"ConfigSet {', '.join(sorted(others[twin.id]))} declares {said}"
        return found

    async def _fetch(
        self, resource: ResourceId, entry: Owned, back: PutBack, plan: _Going, contents: dict[str, Content]
    ) -> bool:
        """Fetch what a file contained; without that, it is left as it is."""
        tree, bucket = self.converger.observer.tree, self.converger.records.bucket
        try:
            data = await in_thread(lambda: former_content(tree, bucket, resource.name, back.content))
        except OSError as error:
            plan.leave(resource, entry, str(error), final=isinstance(error, BucketError))
            return False
        contents[resource.name] = Content(data, back.content, secret=True)
        return True

    def _say(self, left: Mapping[ResourceId, Owned]) -> None:
        """Say of what is left behind why it is, once."""
        known = self.ledger.owned
        for one, entry in left.items():
            if one not in known or known[one].left != entry.left:
                log.warning("%s is left behind, nobody declares it any more: %s", one, entry.left)


def _unless(one: Release, unfinished: AbstractSet[str]) -> Release:
    """Return the same; of a set that is not in place, nothing goes yet."""
    waiting = [name for name in one.owned.names if name in unfinished]
    if one.left or one.owned.untouched or not waiting:
        return one
    return one._replace(left=f"waits: {one.cause}, but what it declares is not in place yet", waits=True)


def _declared(desired: Desired) -> Iterable[ResourceId]:
    return (*(item.id for group in desired.items.values() for item in group), *desired.held)


def _decided(owning: AnyOwning, seen: Mapping[ResourceId, Release], facts: Any) -> dict[ResourceId, PutBack]:
    """Return what is to be done; what is left stays so, unless nothing of ours is there any more."""
    going = {one: release.owned for one, release in seen.items() if not release.left}
    staying = {one: release.owned for one, release in seen.items() if release.left}
    found = dict(owning.put_back(going, facts)) if going else {}
    for one, back in (owning.put_back(staying, facts) if staying else {}).items():
        is_over = back.declaration is None and not back.left
        found[one] = back if is_over or back.final else PutBack(left=seen[one].left, ours=back.ours)
    return found


def _is_new(back: PutBack, release: Release) -> bool:
    """Tell whether something becomes of it for the first time: it may be declared under another name."""
    return back.declaration is not None or (back.final and not release.owned.final)


def _shut(steps: Iterable[Step], shut: AbstractSet[str]) -> frozenset[str]:
    """Return the sets of which nothing is put back now: a shut window is one for those who share with it."""
    return frozenset(shut).union(*(one.sources for one in steps if not shut.isdisjoint(one.sources)))


def _explained(step: Step, going: Mapping[ResourceId, Release], backs: Mapping[ResourceId, PutBack]) -> Step:
    if not step.ACTS or step.id not in going:
        return step
    return msgspec.structs.replace(step, reason=f"{going[step.id].cause}, and {backs[step.id].why}")
