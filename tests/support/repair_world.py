"""Hosts that put back drifts in turn, on virtual time: agents that are away, slow or fail, and windows.

The decision and what agents make of a turn are the real ones; modelled are the clock, the API and the host.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from nodemanager.agent.drift.repair_turn import RepairTurn
from nodemanager.api.common import enforcement
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.enforcement import EnforcedSpan, Enforcement
from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.disruption import Budget
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.controllers.node_maintenances import observing
from nodemanager.fleet.maintenance import budget, claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import unavailable
from nodemanager.fleet.maintenance.reasons import REMEDIES
from nodemanager.fleet.repairs import looking, turns
from nodemanager.fleet.repairs.deciding import RepairDecision
from nodemanager.fleet.repairs.looking import Around, MaintenanceBudget
from nodemanager.fleet.repairs.turns import GrantedRepair
from nodemanager.fleet.series import HostGroup
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta, OwnerReference
from nodemanager.kube.selectors import LabelSelector

EPOCH = datetime(2026, 11, 17, tzinfo=UTC)
PLAIN, OWNED = "plain", "monday-conf"
LONGEST_PASS = timedelta(minutes=40)
"""Within what the operator waits for an agent that should have ended by itself."""


@dataclass
class Host:
    """One host and its agent."""

    name: str
    turn: RepairTurn
    drifted: dict[str, datetime] = field(default_factory=dict)
    up: bool = True
    working: tuple[GrantedRepair, datetime] | None = None
    """What its pass repairs, and when that ends."""
    visit: Claim | None = None
    left: LeftDrifts = field(default_factory=LeftDrifts)
    """As the API has it."""
    alive: bool = True

    def node(self) -> ManagedNode:
        notes = {VISIT: claims.encode(self.visit)} if self.visit is not None else {}
        said = Condition(type="Alive", status="True" if self.alive else "False")
        return ManagedNode(
            metadata=ObjectMeta(name=self.name, uid=f"uid-{self.name}", annotations=notes),
            status=ManagedNodeStatus(conditions=[said], left_drifts=self.left),
        )


class World:
    """A namespace with a set of a maintenance and one of nobody."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = EPOCH
        count = self.random.randint(2, 8)
        self.hosts = [Host(f"h{one}", RepairTurn(now=lambda: self.now)) for one in range(count)]
        series = self.random.sample([host.name for host in self.hosts], self.random.randint(1, count))
        most: list[int | str] = [1, 1, 2, 3, "30%", "50%"]
        self.budget = Budget(max_unavailable=self.random.choice(most))
        self.maintenance = MaintenanceBudget(
            "monday", "uid-monday", self.budget, [HostGroup("all", tuple(sorted(series)))],
            run="r1" if self.random.random() < 0.3 else "",
        )  # fmt: skip
        self.windows = {PLAIN: self._window(), OWNED: self._window()}
        self.repairs = 0

    def _window(self) -> Enforcement | None:
        if self.random.random() < 0.3:
            return None
        edge, spans = EPOCH, []
        for _ in range(self.random.randint(0, 12)):
            start = edge + timedelta(minutes=self.random.randint(0, 240))
            edge = start + timedelta(seconds=self.random.randint(10, 14400))
            spans.append(EnforcedSpan(start=times.rfc3339(start), end=times.rfc3339(edge)))
        return Enforcement(openings=spans)

    @property
    def series(self) -> tuple[str, ...]:
        return self.maintenance.groups[0].hosts

    def sets(self) -> dict[str, ConfigSet]:
        owner = OwnerReference("v1", "NodeMaintenance", "monday", "uid-monday")
        every = LabelSelector()
        return {
            name: ConfigSet(
                metadata=ObjectMeta(name=name, owner_references=[owner] if name == OWNED else []),
                spec=ConfigSetSpec(node_selector=every, enforcement=window),
            )
            for name, window in self.windows.items()
        }

    # What happens

    def step(self, *, calm: bool = False) -> None:
        """Let some time pass, and everybody do what is his."""
        self.now += timedelta(seconds=self.random.choice([1, 5, 20, 60, 600, 3000]))
        for host in self.hosts:
            if not calm:
                self._mischief(host)
            self._agent(host, sure=calm)
        self._operator()

    def _mischief(self, host: Host) -> None:
        chance = self.random.random
        if chance() < 0.15:
            name = self.random.choice([PLAIN, OWNED] if host.name in self.series else [PLAIN])
            host.drifted.setdefault(name, self.now)
        if chance() < 0.1:
            host.up = not host.up
            if not host.up:  # it is killed: whatever it was at ends here, and is not told
                host.working, host.turn = None, RepairTurn(now=lambda: self.now)
        if chance() < 0.1:
            host.alive = host.up
        if chance() < 0.05 and (host.visit is None or not host.visit.holds):
            host.visit = Claim(
                "tuesday", "uid-t", f"uid-{host.name}", "r", 0, State.WORKING, self.now, self.now, self.now
            )
        elif host.visit is not None and host.visit.maintenance == "tuesday" and chance() < 0.4:
            host.visit = msgspec.structs.replace(host.visit, state=State.DONE)

    def _agent(self, host: Host, *, sure: bool) -> None:
        """Do what an agent does: hear, one pass, tell; each of them only if it comes to it."""
        host.up, host.alive = host.up or sure, host.alive or sure
        if not host.up:
            return
        fails, chance = not sure and self.random.random() < 0.2, self.random.random
        if host.working is not None and self.now >= host.working[1]:
            turn, host.working = host.working[0], None
            if not fails:
                host.drifted.pop(turn.config_set, None)
            host.turn.over(turn)
        if host.working is None and (sure or chance() < 0.7):
            host.turn.heard(host.node())
            turn_now = host.turn.begin()
            if turn_now is not None and enforcement.is_open(self.windows[turn_now.config_set], self.now):
                self.repairs += 1
                lasts = LONGEST_PASS * chance() if not sure else timedelta()
                host.working = turn_now, self.now + lasts
                self.check()
            else:
                host.turn.over(turn_now)
        if host.working is None and (sure or chance() < 0.7):
            asks = [LeftDrift(configset=name, since=times.rfc3339(since), resources=1)
                    for name, since in sorted(host.drifted.items())]  # fmt: skip
            host.left = LeftDrifts(asks=asks, used=host.turn.used or host.left.used)

    def _operator(self) -> None:
        if not self.random.random() < 0.8:
            return
        for host in self.hosts:
            claim = turns.claim_of(host.node())
            if claim is not None and claim.holds:
                host.visit = turns.ended(claim, host.left, self.now) or host.visit
        decision = self.decide()
        known = {host.name: host for host in self.hosts}
        for start in decision.starts:
            host = known[start.host.name]
            host.visit = turns.begun(host.node(), start.config_set, start.until, "", self.now)

    def decide(self) -> RepairDecision:
        """Decide, and look whether everybody who asks is told something."""
        nodes = [host.node() for host in self.hosts]
        facts = {one.metadata.name: observing.host_facts(one, None, None, {}) for one in nodes}
        decision = looking.decide(Around(nodes, facts, self.sets(), [self.maintenance]), self.now)
        asked = sorted((host.name, one.configset) for host in self.hosts for one in host.left.asks)
        waits = [(wait.host, name) for name, wait in decision.waits]
        assert sorted([*waits, *((one.host.name, one.config_set) for one in decision.starts)]) == asked
        assert all(REMEDIES[wait.reason] and wait.object for _, wait in decision.waits)
        away = {name for name, one in facts.items() if unavailable(one) is not None}
        most = budget.resolve(self.budget.max_unavailable, len(self.series)) or 0
        for start in decision.starts:
            if start.config_set == PLAIN:
                assert not away, "one at a time, whatever others are away for"
            if start.config_set == OWNED or self.maintenance.running:
                counted = away & set(self.series) if start.host.name in self.series else set()
                assert len(counted) < most, "one ceiling over all causes"
            away.add(start.host.name)
            window = self.windows[start.config_set]
            assert enforcement.is_open(window, self.now)
            closes = enforcement.closes_at(window, self.now)
            assert closes is None or start.until <= closes
        return decision

    # What has to hold

    def check(self) -> None:
        """Fail if more hosts put something back at once than a budget allows."""
        busy = {host.name: host.working[0].config_set for host in self.hosts if host.working is not None}
        most = budget.resolve(self.budget.max_unavailable, len(self.series))
        assert most is not None
        assert sum(name == OWNED for name in busy.values()) <= most
        assert sum(name == PLAIN for name in busy.values()) <= 1
        if self.maintenance.running:
            assert len(busy.keys() & set(self.series)) <= most
