"""Simulated hosts: how long they take, which of them fail, and how, follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.api.maintenance.nodeoperationtemplate import NodeOperationTemplateSpec
from nodemanager.api.maintenance.operations import CRON, ONE_SHOT
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.fleet.maintenance import beginning, facts, openings, steps
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth, NodeFacts, Run, TaskFacts
from nodemanager.fleet.maintenance.openings import Durations
from nodemanager.fleet.maintenance.runs import OperationMemory
from nodemanager.fleet.maintenance.states import VisitRules
from nodemanager.fleet.maintenance.steps import RunWork
from nodemanager.fleet.simulation.remembering import RememberingCalendar


@dataclass(slots=True)
class Behaviour:
    """How hosts behave."""

    failures: float = 0.0
    """Which part of all tries fails."""
    shortest: timedelta = timedelta(minutes=2)
    usual: timedelta = timedelta(minutes=6)
    longest: timedelta = timedelta(minutes=20)
    silence: timedelta = timedelta(minutes=45)
    """How long a host that falls silent stays silent."""
    drain: timedelta = timedelta(minutes=2)


@dataclass(slots=True)
class SimTask:
    """A task that takes its time."""

    name: str
    attempt: int
    begun: datetime
    ends: datetime | None
    """None: never, because its host is lost."""
    phase: str
    """How it ends."""
    reboot: tuple[datetime, datetime] | None = None

    def at(self, now: datetime, *, alive: bool) -> TaskFacts:
        """Return what the operator knows about the task at a moment; a silent host reports nothing."""
        if alive and self.ends is not None and now >= self.ends:
            rebooted = self.reboot is not None
            return TaskFacts(self.name, self.phase, self.attempt, True, rebooted=rebooted, ended=self.ends)
        during = self.reboot is not None and self.reboot[0] <= now < self.reboot[1]
        return TaskFacts(self.name, "Running", self.attempt, taken=True, rebooting=during)


@dataclass(slots=True)
class SimHost:
    """A host."""

    name: str
    uid: str
    created: datetime
    labels: dict[str, str] = field(default_factory=dict)
    is_node: bool = True
    claim: Claim | None = None
    silent_until: datetime | None = None
    cordoned_by: str = ""
    """us, others, or nobody."""
    held: bool = False
    changing_until: datetime | None = None
    """The end of its way to a change of a ConfigSet."""
    boots: int = 0
    drained_at: datetime | None = None
    """When the last pod of a drain has left; None = the host is not being drained."""
    task: SimTask | None = None
    """What it works on."""

    @property
    def works(self) -> bool:
        """Whether work goes on there."""
        return self.claim is not None and self.claim.holds

    def alive(self, now: datetime) -> bool:
        """Tell whether its agent is heard."""
        return self.silent_until is None or now >= self.silent_until

    def facts(self, now: datetime) -> HostFacts:
        """Return what is known of it."""
        alive = self.alive(now)
        health = HostHealth(alive, held=self.held, boot_id=f"boot-{self.boots}")
        node = None
        if self.is_node:
            pods = 0 if self.drained_at is not None and now >= self.drained_at else 1
            node = NodeFacts(alive, bool(self.cordoned_by), self.cordoned_by == "us", pods)
        changing = "web" if self.changing_until is not None and now < self.changing_until else ""
        return HostFacts(self.name, self.uid, self.created, self.labels, health, node, self.claim, changing)


@dataclass(slots=True)
class Dice:
    """Draws what happens, from the seed."""

    behaviour: Behaviour
    random: random.Random

    def drained(self, now: datetime) -> datetime:
        """Return when a drain that begins now will be done; some never are."""
        if self.random.random() < self.behaviour.failures / 4:
            return now + timedelta(days=365)
        return now + self.behaviour.drain * self.random.uniform(0.2, 2)

    def task(self, claim: Claim, host: SimHost, now: datetime, *, may_reboot: bool) -> SimTask:
        """Return how a task will go; a host may fall silent during it."""
        how = self.behaviour
        low, usual, high = (one.total_seconds() for one in (how.shortest, how.usual, how.longest))
        lasts = timedelta(seconds=round(self.random.triangular(low, high, usual)))
        made = SimTask(claim.task, claim.attempt, now, now + lasts, facts.SUCCEEDED)
        if may_reboot:
            made.reboot = (now + lasts * 0.5, now + lasts * 0.8)
            host.boots += 1
        if self.random.random() < how.failures:
            made.phase = self.random.choice((facts.FAILED, facts.UNDONE, facts.UNDONE, facts.HALTED))
            if self.random.random() < 0.25:
                host.silent_until = now + lasts + how.silence * self.random.uniform(0.5, 4)
        return made


@dataclass(slots=True)
class SimMaintenance:
    """A maintenance, and the memory in its status."""

    name: str
    uid: str
    created: datetime
    spec: NodeMaintenanceSpec
    series: SeriesSpec
    calendar: RememberingCalendar
    templates: Mapping[str, NodeOperationTemplateSpec] = field(default_factory=dict)
    approved: bool = True
    stopped: bool = False
    """Whether its run was stopped and waits for a person."""
    memories: dict[str, OperationMemory] = field(default_factory=dict)
    run: Run | None = None
    due: dict[str, str] = field(default_factory=dict)
    ended: dict[str, list[TaskFacts]] = field(default_factory=dict)
    """Tasks of the run that have ended, by host."""
    taken: list[tuple[str, timedelta]] = field(default_factory=list)
    """How long visits took."""
    _work: RunWork | None = None
    _rules: VisitRules | None = None
    _durations: tuple[int, Durations] = (0, Durations())

    def begin(self, run: Run, due: dict[str, str]) -> None:
        """Begin a run; its steps are fixed from now on."""
        self.run, self.due = run, due
        chosen = [one for one in self.spec.operations if one.name in due]
        self._work = steps.work(chosen, self.templates)
        self._rules = beginning.rules_of(self.spec, self.calendar.spec, self._work)
        for one in chosen:
            if one.type == CRON:
                slot = datetime.fromisoformat(due[one.name])
                self.memories[one.name] = OperationMemory(slot, self.memories[one.name].done)

    def end(self) -> None:
        """End the run; a one-shot is not done again."""
        for one in self.spec.operations:
            if one.name in self.due and one.type == ONE_SHOT:
                self.memories[one.name] = OperationMemory(done=self.due[one.name])
        self.run, self.due, self.ended = None, {}, {}

    def rules(self) -> VisitRules:
        """Return what holds for visits of the run."""
        return self._rules or VisitRules()

    @property
    def may_reboot(self) -> bool:
        """Whether the run may reboot hosts."""
        return self._work is not None and self._work.may_reboot

    def durations(self) -> Durations:
        """Return how long hosts took so far."""
        if self._durations[0] != len(self.taken):
            self._durations = (len(self.taken), openings.measured(self.taken))
        return self._durations[1]
