"""Advances the virtual time: moves visits, looks at maintenances, and jumps to the next event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.fleet import series
from nodemanager.fleet.maintenance import beginning, facts, openings, passes, visits
from nodemanager.fleet.maintenance.beginning import VisitOwner
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.decide import MaintenanceDecision
from nodemanager.fleet.maintenance.facts import HostFacts, MaintenanceFacts, Run, TaskFacts
from nodemanager.fleet.maintenance.passes import MaintenanceLook, Upkeep
from nodemanager.fleet.maintenance.runs import OperationMemory, run_id
from nodemanager.fleet.maintenance.states import Visit, VisitHold
from nodemanager.fleet.series import HostGroup
from nodemanager.fleet.simulation.record import SimRecord, SimRun, SimVisit
from nodemanager.fleet.simulation.world import Dice, SimHost, SimMaintenance
from nodemanager.kube.objects import ObjectMeta

SLOWEST: Final = timedelta(hours=6)
"""The longest time between two looks."""
UNDO_TAKES: Final = timedelta(minutes=5)


def _nobody(_maintenance: SimMaintenance, _look: MaintenanceLook) -> None:
    """Watch nothing."""


@dataclass(slots=True)
class Engine:
    """A fleet, its maintenances, and the time."""

    now: datetime
    hosts: dict[str, SimHost]
    maintenances: list[SimMaintenance]
    dice: Dice
    tick: timedelta = timedelta(seconds=1)
    """Events within one tick are looked at together."""
    watch: Callable[[SimMaintenance, MaintenanceLook], None] = _nobody
    """Called with every look, before the simulation acts on it."""
    record: SimRecord = field(default_factory=SimRecord)
    _facts: dict[str, HostFacts] = field(default_factory=dict)
    _groups: dict[str, tuple[HostGroup, ...]] = field(default_factory=dict)
    _wakes: set[datetime] = field(default_factory=set)
    _due: datetime | None = None
    """When maintenances are looked at next, if no event comes before."""

    def run_until(self, horizon: datetime, rounds: int | None = None) -> None:
        """Advance the time until then, until no more events come, or until all had so many runs."""
        while self.now < horizon:
            self.look()
            if rounds is not None and all(self._has_had(one, rounds) for one in self.maintenances):
                break
            later = [wake for wake in self._wakes if wake > self.now]
            if not later and not self._is_at_work():
                break
            self.jump(min([*later, self.now + SLOWEST]) if later else self.now + SLOWEST)

    def _has_had(self, one: SimMaintenance, rounds: int) -> bool:
        if one.stopped and not any(host.works for host in self.hosts.values()):
            return True
        return sum(run.maintenance == one.name for run in self.record.runs) >= rounds

    def _is_at_work(self) -> bool:
        running = any(one.run is not None for one in self.maintenances)
        return running or any(host.works for host in self.hosts.values())

    def jump(self, to: datetime) -> None:
        """Set the clock, forward by whole ticks."""
        ahead = max(to - self.now, timedelta())
        if ahead % self.tick:
            to = self.now + (ahead // self.tick + 1) * self.tick
        self.record.passed(max(to - self.now, timedelta()))
        self.now = to

    def look(self) -> None:
        """Do everything that is possible at this moment."""
        self._wakes.clear()
        for host in self.hosts.values():
            if host.changing_until is not None:
                self._wake(host.changing_until)
                self._facts.pop(host.name, None)
                if self.now >= host.changing_until:
                    host.changing_until = None
                    self._due = self.now
            if host.silent_until is not None:
                self._wake(host.silent_until)
                self._facts.pop(host.name, None)
                if self.now >= host.silent_until:
                    host.silent_until = None
                    self._due = self.now
            if host.works:
                self._visit(host)
        if self._due is not None and self.now < self._due:
            self._wakes.add(self._due)
            return
        visits_wake, self._wakes = self._wakes, set()
        self.record.waits.clear()
        for maintenance in self.maintenances:
            self._look_at(maintenance)
        self._due = min([*self._wakes, self.now + SLOWEST])
        self._wakes |= visits_wake
        away = sum(facts.unavailable(self._known_of(host)) is not None for host in self.hosts.values())
        self.record.peak = max(self.record.peak, away)

    def changed(self) -> None:
        """Look at all hosts and series anew, because they were changed."""
        self._groups.clear()
        self._facts.clear()
        self._due = self.now

    def _wake(self, when: datetime | None) -> None:
        if when is not None and when > self.now:
            self._wakes.add(when)

    def _known_of(self, host: SimHost) -> HostFacts:
        known = self._facts.get(host.name)
        if known is None:
            known = self._facts[host.name] = host.facts(self.now)
        return known

    def groups(self, maintenance: SimMaintenance) -> tuple[HostGroup, ...]:
        """Return the hosts of a maintenance in their order."""
        if maintenance.uid not in self._groups:
            nodes = [
                ManagedNode(metadata=ObjectMeta(name=one.name, labels=one.labels))
                for one in self.hosts.values()
            ]
            self._groups[maintenance.uid] = series.members(
                # A file has hosts but no Kubernetes Nodes: each host counts as a Node with the same labels.
                maintenance.series,
                nodes,
                {one.name: one.labels for one in self.hosts.values()},
            ).groups
        return self._groups[maintenance.uid]

    # Runs

    def _look_at(self, one: SimMaintenance) -> None:
        operations = tuple(one.spec.operations)
        upkeep = Upkeep(operations, one.memories, one.created, one.calendar, running=frozenset(one.due))
        found = passes.look(upkeep, self._known(one), one.uid, self.now)
        self.watch(one, found)
        one.stopped = found.decision is not None and bool(found.decision.stops)
        for when in (found.window.opens_at, found.window.closes_at):
            self._wake(when)
        for judged in found.judgements:
            self._wake(judged.next_run)
            self.record.skipped.update(skipped.reason for skipped in judged.skipped)
            memory = one.memories.get(judged.operation, OperationMemory())
            one.memories[judged.operation] = replace(memory, last_slot=judged.last_slot or memory.last_slot)
        if found.decision is not None:
            self._act(one, found.decision)
        elif found.begins and not one.spec.paused and one.approved:
            self._begin_run(one, dict(found.begins))

    def _known(self, one: SimMaintenance) -> MaintenanceFacts | None:
        if one.run is None:
            return None
        hosts = {host.name: self._known_of(host) for host in self.hosts.values()}
        return MaintenanceFacts(
            one.uid, one.spec, one.run, self.groups(one), hosts, self.now, tasks=one.ended,
            durations=one.durations(), approved=one.approved,
        )  # fmt: skip

    def _begin_run(self, one: SimMaintenance, due: dict[str, str]) -> None:
        one.begin(Run(run_id(one.uid, due), self.now), due)
        self._look_at(one)

    def _act(self, one: SimMaintenance, decision: MaintenanceDecision) -> None:
        for wait in decision.waits:
            self.record.waits[wait.reason] += 1
            self._wake(wait.next_check)
        for start in decision.starts:
            self._start(one, self.hosts[start.host], start.attempt)
        if decision.outcome and one.run is not None:
            run = one.run
            self.record.runs.append(
                SimRun(one.name, run.id, decision.outcome, run.started_at, self.now, decision.counts())
            )
            one.end()
            self._wakes.add(self.now + self.tick)

    # Visits

    def _start(self, one: SimMaintenance, host: SimHost, attempt: int) -> None:
        owner = VisitOwner(one.name, one.uid, 1, one.run.id if one.run is not None else "")
        known = self._known_of(host)
        host.claim = beginning.claim(owner, known, attempt, one.spec, one.rules(), self.now)
        self._facts.pop(host.name, None)
        self._visit(host)

    def _visit(self, host: SimHost) -> None:
        """Give the order of the state, and go on for as long as there is evidence."""
        one = next((m for m in self.maintenances if host.claim and m.uid == host.claim.uid), None)
        while one is not None and host.claim is not None and host.works:
            self._order(one, host, host.claim)
            self._facts.pop(host.name, None)
            found = visits.advance(self._evidence(one, host, host.claim))
            if isinstance(found, VisitHold):
                self._wake(found.next_check)
                return
            host.claim = found.claim
            if not found.claim.holds:
                self._ended(one, host, found.claim)

    def _order(self, one: SimMaintenance, host: SimHost, claim: Claim) -> None:
        if claim.state is State.CORDONING and claim.cordoned:
            host.cordoned_by = host.cordoned_by or "us"
        elif claim.state is State.DRAINING and host.drained_at is None:
            host.drained_at = self.dice.drained(self.now)
        elif claim.state is State.WORKING and host.task is None:
            host.task = self.dice.task(claim, host, self.now, may_reboot=one.may_reboot)
        elif claim.state is State.RETURNING and claim.cordoned and host.cordoned_by == "us":
            host.cordoned_by = ""
        if claim.state is State.DRAINING:
            self._wake(host.drained_at)

    def _evidence(self, one: SimMaintenance, host: SimHost, claim: Claim) -> Visit:
        task, alive, undo = host.task, host.alive(self.now), None
        if task is not None:
            self._wake(task.ends)
            self._wake(task.reboot[0] if task.reboot is not None else None)
        if claim.state is State.UNDOING:
            self._wake(claim.since + UNDO_TAKES)
            done = self.now >= claim.since + UNDO_TAKES and alive
            undo = TaskFacts("undo", facts.SUCCEEDED if done else "Running", taken=True)
        may_work = True
        if claim.state in (State.CORDONING, State.DRAINING):
            may_work = openings.view(one.calendar, self.now).has_time(self.now, timedelta())
        known = task.at(self.now, alive=alive) if task is not None else None
        return Visit(claim, self._known_of(host), one.rules(), self.now, known, undo, may_work)

    def _ended(self, one: SimMaintenance, host: SimHost, claim: Claim) -> None:
        if host.task is not None:
            ended = host.task.at(self.now, alive=True)
            one.ended.setdefault(host.name, []).append(ended)
        if claim.state is State.DONE:
            one.taken.append((host.name, self.now - claim.begun))
        host.drained_at = host.task = None
        self._facts.pop(host.name, None)
        self.record.spans.append(
            SimVisit(host.name, one.name, claim.begun, self.now, claim.state, claim.reason)
        )
        self._due = self.now
