"""The state of the host: the wanted one, the results of work, and foreign changes.

Passes over the whole host and repairs of a few resources both end here. So the status can be written
at any time from what is known, without a look at the whole host for a report about one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.drift import drift
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.agent.drift.repair_backoff import RepairBackoff
from nodemanager.agent.drift.repair_turn import RepairTurn
from nodemanager.agent.passes.patience import Patience
from nodemanager.api.common.managednode import DriftRecord
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import times
from nodemanager.plan.resources import ResourceId


class DriftRecorder(Protocol):
    """Takes every drift and reports it once, now or later."""

    def add(self, record: DriftRecord) -> DriftRecord:
        """Take a drift and return it with its number; does not wait for anything."""
        ...

    async def settle(self) -> bool:
        """Have on disk what was added until now; tell whether it is."""
        ...


def nobody(_: ResourceId) -> str:
    """Return who changed something where the host cannot tell."""
    return ""


@dataclass(slots=True)
class HostState:
    """The known state of the host."""

    drifts: DriftRecorder
    now: Callable[[], datetime]
    clock: Callable[[], float]
    """In seconds; the same clock as for `since` of touched resources."""
    watch: DriftWatch = field(default_factory=DriftWatch)
    backoff: RepairBackoff = field(default_factory=RepairBackoff)
    patience: Patience = field(default_factory=Patience)
    who: Callable[[ResourceId], str] = nobody
    """Tells which program changed a resource last."""
    turn: RepairTurn = field(default_factory=RepairTurn)
    """Whether a pass may repair what is otherwise left alone."""
    desired_state: DesiredState | None = None
    """The wanted state; None before the first pass."""
    results: dict[ResourceId, Result] = field(default_factory=dict)
    """The results for all resources, except those that needed no work."""
    changes: int = 0
    """How often `results` has changed."""
    shortfalls: tuple[str, ...] | None = None
    """What is not watched, as text; None = everything is."""
    _strays: set[ResourceId] = field(default_factory=set)
    """Results for resources that no set declares: entries of purged directories."""
    _repaired: dict[ResourceId, Result] = field(default_factory=dict)
    """Results of repairs since a pass began: they are newer than what it saw."""

    def watched(self, shortfalls: tuple[str, ...]) -> list[str]:
        """Remember what cannot be watched, and return the part that was not known before."""
        new = [one for one in shortfalls if one not in (self.shortfalls or ())]
        self.shortfalls = shortfalls
        return new

    def begin(self, desired_state: DesiredState) -> frozenset[ResourceId]:
        """Take note of what is wanted from now on; return what a pass only observes."""
        if self.desired_state is not desired_state:
            self.desired_state = desired_state
            self.backoff.keep_only(desired_state.declared)
        self._repaired = {}
        self.watch.begin()
        turn = self.turn.begin()
        its = turn.config_set if turn is not None else ""
        observed = frozenset(one for one, item in desired_state.left.items() if its not in item.turns)
        return self.watch.observe_only(desired_state.declared, observed)

    def held(self, one: ResourceId) -> bool:
        """Tell whether a resource held before, as it is declared now."""
        return self.desired_state is not None and self.watch.held(one, self.desired_state.declared)

    def passed(self, results: Sequence[Result], pruned: Sequence[Result] = ()) -> list[Result]:
        """Take the results of a pass, and what it took back; return those worth telling, drifts marked."""
        judged = [*self._judge(results, None), *pruned]
        under_way = (one for one in results if one.outcome is ResourceOutcome.WAITING and not one.awaits)
        self.turn.passed({name for one in under_way for name in one.sources})
        told = [one for one in judged if one.outcome is not ResourceOutcome.UNCHANGED]
        told = self.patience.judged(told, self.clock(), whole=True)
        self.results = {one.id: one for one in told}
        self._strays = {
            one for one in self.results if not self.desired_state or one not in self.desired_state.declared
        }
        self._replace(self._repaired.values())
        return told

    def repaired(self, results: Sequence[Result], since: Mapping[ResourceId, float]) -> list[Result]:
        """Take the results of a repair, of what was touched when; return those worth telling."""
        judged = self.patience.judged(self._judge(results, since), self.clock())
        self._repaired.update({one.id: one for one in judged})
        self._replace(judged)
        return [one for one in judged if one.outcome is not ResourceOutcome.UNCHANGED]

    def told(self, results: Iterable[Result]) -> None:
        """Take note that the status tells these: what was changed is as it shall be from now on."""
        for one in results:
            if one.outcome is ResourceOutcome.CHANGED:
                if self.results.get(one.id) is one:
                    del self.results[one.id]
                if self._repaired.get(one.id) is one:  # the pass that is under way need not tell it again
                    self._repaired[one.id] = replace(one, outcome=ResourceOutcome.UNCHANGED)

    async def save(self) -> None:
        """Have on disk what the next process has to know, before anybody hears of it.

        Drifts first: who is killed in between tells one twice. The other way round, the next process would
        take one for told that is lost.
        """
        known = self.watch.document()
        if await self.drifts.settle():  # else the next save has both
            await in_thread(lambda: self.watch.save(known))

    def _replace(self, results: Iterable[Result]) -> None:
        """Put newer results in the place of older ones."""
        new = {one.id: one for one in results}
        declared = self.desired_state.declared if self.desired_state else {}
        for one in self._strays - new.keys():
            if self.watch.owning_resource(one, declared) in new:
                self._drop(one)  # the directory was looked at, and the entry is gone
        for one, result in new.items():
            if result.outcome is ResourceOutcome.UNCHANGED:
                self._drop(one)
            elif self.results.get(one) != result:
                self.results[one] = result
                self.changes += 1
                if one not in declared:
                    self._strays.add(one)

    def _drop(self, resource: ResourceId) -> None:
        """Forget what became of something, unless it was changed and nobody was told yet."""
        known = self.results.get(resource)
        if known is None:
            self._strays.discard(resource)
        elif known.outcome is not ResourceOutcome.CHANGED:
            del self.results[resource]
            self._strays.discard(resource)
            self.changes += 1

    def _judge(self, results: Sequence[Result], since: Mapping[ResourceId, float] | None) -> list[Result]:
        declared = self.desired_state.declared if self.desired_state else {}
        judged = self._with_names(self.watch.judge(declared, results, whole=since is None), declared)
        stamp, clock = times.rfc3339(self.now()), self.clock()
        first = min((since or {}).values(), default=clock)
        for one in self.watch.fresh(judged):
            began = (since or {}).get(self.watch.owning_resource(one.id, declared), first)
            took = one.seconds if since is None else clock - began
            self.drifts.add(drift.record(one, stamp, took))
        self._note_repairs(judged, clock, trying=since is not None)
        return judged

    def _with_names(self, results: Iterable[Result], declared: Mapping[ResourceId, object]) -> list[Result]:
        """Say of all that somebody changed who it was, and what becomes of it."""
        left = self.desired_state.left if self.desired_state else {}
        found = []
        for one in results:
            if one.drifted:
                item = left.get(self.watch.owning_resource(one.id, declared))
                policy, turns = (item.policy, item.turns) if item is not None else ("", ())
                one = replace(one, by=self.who(one.id), policy=policy, turns=turns)  # noqa: PLW2901
            found.append(one)
        return found

    def _note_repairs(self, judged: Sequence[Result], clock: float, *, trying: bool) -> None:
        """Take note of what was put back or failed: once for a directory, however much was purged in it."""
        declared = self.desired_state.declared if self.desired_state else {}
        put_back = {
            self.watch.owning_resource(one.id, declared): one
            for one in judged
            if one.drifted and one.outcome is ResourceOutcome.CHANGED
        }
        for resource, one in put_back.items():
            self.backoff.repaired(resource, clock, one.found, one.wanted, by=one.by)
        for one in judged:
            resource = self.watch.owning_resource(one.id, declared)
            if one.failed and trying:
                self.backoff.failed(resource, clock)
            elif one.outcome is ResourceOutcome.UNCHANGED and resource not in put_back:
                self.backoff.holds(resource)
