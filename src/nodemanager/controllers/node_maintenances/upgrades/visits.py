"""Upgrades of spec.upgrade: hosts ask when a slot has come, and are visited as for a maintenance.

    marked -> asks in its status -> its turn: Lease, claim -> cordoned, drained -> NodeTask -> given back

The agent knows the slots: it has schedule, time zone, delay and holds. Here we decide whose turn it
is. It is an entry in the queue of maintenances, because two parallel decisions could spend one budget.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.common.managednode import ANNOTATION_HOLD, MANAGED_NODES, ManagedNode, is_held
from nodemanager.api.common.node_upgrades import DueUpgrade, UpcomingUpgrades
from nodemanager.api.maintenance.nodemaintenance import DEFAULT_DEADLINE
from nodemanager.api.maintenance.nodetask import RUN
from nodemanager.controllers.disruption.holding import DrainRules
from nodemanager.controllers.node_maintenances.ahead import UPGRADING, HostsAhead, TasksAhead
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.orders import Orders, TaskWork
from nodemanager.controllers.node_maintenances.upgrades.group_locks import GroupLocks
from nodemanager.controllers.node_maintenances.upgrades.marks import UpgradeMarks
from nodemanager.controllers.node_maintenances.visiting import Undertaking, VisitDriver, Visited
from nodemanager.fleet.maintenance import claims, reasons, visits
from nodemanager.fleet.maintenance.budget import BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import Move, VisitRules
from nodemanager.fleet.upgrades import deciding, upgrade_tasks
from nodemanager.fleet.upgrades.deciding import AskingHost
from nodemanager.kube import errors, times
from nodemanager.kube.go import durations
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime import tasks
from nodemanager.runtime.events import EventRecorder

log = logging.getLogger("nodemanager.operator")
LONGEST: Final = timedelta(seconds=DEFAULT_DEADLINE)
"""How long the visit of a host may take."""
TO_BEGIN: Final = timedelta(minutes=10)
"""How long an agent has to take its task: an agent that comes back later waits for its next slot."""
DRAIN: Final = timedelta(minutes=5)
MAX_DRAIN: Final = timedelta(hours=1)
PROOF: Final = timedelta(minutes=15)
AT_ONCE: Final = 16
"""How many visits take a step in parallel: most of their time is waiting for the API."""
_BEFORE_TASK: Final = (State.CORDONING, State.DRAINING, State.WORKING)
_TOLD_OF: Final = (State.WORKING, State.REBOOTING)
"""States whose end a NodeTask shows, so that it need not be looked for."""
_UNHEARD: Final = (Reason.HOST_SILENT, Reason.HOST_WITHOUT_AGENT, Reason.CLOCK_DIFFERS)
"""Waits that may be long: other hosts are not looked at more often because of them."""


@dataclass(frozen=True, slots=True)
class UpgradeInputs:
    """Facts about hosts besides their own objects."""

    facts: Callable[[ManagedNode], HostFacts]
    rooms: Callable[[str], Awaitable[list[tuple[str, BudgetRoom]]]]
    """Returns what is left of the budgets of maintenances with a run in a namespace, with their names."""
    unrecorded: Callable[[str], Problem | None]
    """Returns why no new work may begin in a namespace."""


@dataclass(frozen=True, slots=True)
class UpgradeVisits:
    """Manages all upgrades of a namespace."""

    orders: Orders
    driver: VisitDriver
    hosts: HostsAhead
    tasks: TasksAhead
    locks: GroupLocks
    marks: UpgradeMarks
    inputs: UpgradeInputs
    events: EventRecorder
    _told: dict[str, tuple[str, Reason]] = field(default_factory=dict)
    """Why hosts were reported to wait for which slot, by uid."""
    _had_turn: set[str] = field(default_factory=set)
    """Hosts that an interrupted look had come to, by uid: the next look begins with the others."""

    async def look(self, namespace: str, now: datetime) -> bool:
        """Let upgrades take one step each, and begin others; tell whether to look again soon."""
        known = self._known(namespace)
        # First: a slot has to begin within its window, which may last a minute.
        asking = [one for host in known if (one := self._asking(host, now)) is not None]
        busy = bool(asking) and await self._begin(namespace, asking, now)
        await self._go_on_with(map(self._newest, known), now)
        more = await self.marks.renew(map(self._newest, known), now)
        found = [claim for host in known if (claim := upgrade_tasks.visit_of(self._newest(host)))]
        return busy or more or any(claim.holds and claim.state not in _TOLD_OF for claim in found)

    def _known(self, namespace: str) -> list[ManagedNode]:
        return [one for one in self.hosts.visited_by(UPGRADING) if one.metadata.namespace == namespace]

    def _newest(self, host: ManagedNode) -> ManagedNode:
        return self.hosts.get(key_of(host)) or host

    # Hosts in work

    async def _go_on_with(self, hosts: Iterable[ManagedNode], now: datetime) -> None:
        """Let all visits take a step, several in parallel."""
        visited = {host.metadata.uid: host for host in hosts if upgrade_tasks.visit_of(host) is not None}
        if visited.keys() <= self._had_turn:
            self._had_turn.difference_update(visited)

        async def one(uid: str) -> None:
            self._had_turn.add(uid)
            with self._alone(visited[uid]):
                await self._go_on(visited[uid], now)

        await tasks.each(one, sorted(visited, key=self._had_turn.__contains__), AT_ONCE)
        self._had_turn.difference_update(visited)

    @contextlib.contextmanager
    def _alone(self, host: ManagedNode) -> Iterator[None]:
        """Keep any error with one host away from all others: the next look tries again."""
        try:
            yield
        except (errors.Conflict, errors.NotFound):  # another writer was faster
            return
        except errors.KubeError as error:
            log.warning("cannot see to the upgrade of host %s: %s", host.metadata.name, error)
        except Exception:
            log.exception("cannot see to the upgrade of host %s", host.metadata.name)

    async def _go_on(self, host: ManagedNode, now: datetime) -> None:
        claim = upgrade_tasks.visit_of(host)
        if claim is None:
            return
        if claim.host_uid != host.metadata.uid:  # its claim came from a backup: that host is gone
            if claim.group:
                await self.locks.give_back(host, claim.group)
            await self.orders.forget(host)
            return
        if claim.state.is_end and claim.group:
            await self.locks.give_back(host, claim.group)
            await self.orders.write_claim(host, msgspec.structs.replace(claim, group=""), now)
            return
        if not (claim.holds or (claim.state is State.HALTED and claim.reason is Reason.HOST_LOST)):
            return
        tasks = self.tasks.of(host.metadata.uid)
        about = await self._undertaking(host, claim, now)
        found = await self.driver.drive(about, Visited(host, self.inputs.facts(host), claim, tasks))
        if isinstance(found, Move) and found.claim.state.is_end and found.claim.group:
            await self._go_on(self._newest(host), now)

    async def _undertaking(self, host: ManagedNode, claim: Claim, now: datetime) -> Undertaking:
        """Return the rules for the visit of a host now."""
        early = claim.state in _BEFORE_TASK
        ending = Reason.HOST_HELD if early and _is_held(host) else None
        if early and claim.group and not await self.locks.keep(host, claim, now):
            ending = Reason.GROUP_BUSY
        reboots = upgrade_tasks.reboots_always(host.metadata.annotations)
        steps = tuple(upgrade_tasks.steps(reboots=reboots))

        def work(made: Claim) -> TaskWork:
            slot = upgrade_tasks.slot_of_run(made.run)
            return TaskWork(steps, made.expires, not_after=made.since + TO_BEGIN, not_before=slot)

        return Undertaking(host, _rules(host), work, DrainRules(), now, ending=ending)

    # Beginning

    def _asking(self, host: ManagedNode, now: datetime) -> AskingHost | None:
        due, upgrade = _due(host), host.spec.upgrade
        slot, until = (times.parse(due.slot), times.parse(due.until)) if due is not None else (None, None)
        if due is None or slot is None or until is None or upgrade is None or not self.marks.may_drain():
            return None
        if not deciding.is_plausible(slot, until, now):  # before any calculation with it
            name = host.metadata.name
            self._tell(host, due.slot, HostWait(name, Reason.CLOCK_DIFFERS, f"managednode/{name}"))
            return None
        runs = {task.metadata.labels.get(RUN) for task in self.tasks.of(host.metadata.uid)}
        used = upgrade_tasks.run_of(slot) in runs
        return AskingHost(self.inputs.facts(host), slot, until, upgrade.group, _is_held(host), used)

    async def _begin(self, namespace: str, asking: Iterable[AskingHost], now: datetime) -> bool:
        """Take the Lease of each host whose turn it is, and write its claim; tell whether some wait."""
        problem = self.inputs.unrecorded(namespace)
        stopped = (problem.reason, problem.object) if problem is not None else None
        turns = deciding.decide(asking, await self.inputs.rooms(namespace), now, stopped)
        for wait in turns.waits:
            waiting = self.hosts.get(ObjectKey(namespace, wait.host))
            if waiting is not None and wait.since is not None:
                self._tell(waiting, times.rfc3339(wait.since), wait)
        for one in turns.starts:
            host = self.hosts.get(ObjectKey(namespace, one.facts.name))
            if host is None or host.metadata.uid != one.facts.uid:
                continue
            with self._alone(host):
                other = await self.locks.take(host, one.group) if one.group else ""
                if other:
                    said = f"lease/{one.group}, held by {other}"
                    wait = HostWait(one.facts.name, Reason.GROUP_BUSY, said)
                    self._tell(host, times.rfc3339(one.slot), wait)
                    continue
                await self._visit(host, one, now)
        return bool(turns.starts) or any(wait.reason not in _UNHEARD for wait in turns.waits)

    async def _visit(self, host: ManagedNode, one: AskingHost, now: datetime) -> None:
        facts, run = one.facts, upgrade_tasks.run_of(one.slot)
        rules = _rules(host)
        state = visits.first_state(facts, rules)
        claim = Claim(
            maintenance=claims.for_upgrade(facts.name),
            uid=facts.uid,
            host_uid=facts.uid,
            run=run,
            attempt=0,
            state=state,
            since=now,
            begun=now,
            expires=now + LONGEST,
            generation=host.metadata.generation,
            task=claims.task_name(facts.name, facts.uid, run, facts.uid, 0),
            # Also if others cordoned it: then it is drained as well, and their cordon stays.
            cordoned=state is State.CORDONING,
            boot_id=facts.health.boot_id,
            group=one.group,
        )
        await self.driver.write(Undertaking(host, rules, _nothing, DrainRules(), now), host, claim)
        if facts.node is None:
            said = "nothing is cordoned and drained: no Kubernetes Node has the name of this host"
            self.events.normal(MANAGED_NODES, host, "UpgradeNotDrained", said)

    def _tell(self, host: ManagedNode, slot: str, wait: HostWait) -> None:
        """Report why a host waits, if that has changed."""
        if self._told.get(host.metadata.uid) == (slot, wait.reason):
            return
        self._told[host.metadata.uid] = slot, wait.reason
        remedy = reasons.remedy(wait.reason, host=wait.host)
        said = f"the slot {slot} waits: {wait.reason}: {wait.object}. {remedy}"
        self.events.normal(MANAGED_NODES, host, "UpgradeWaiting", said)


def _due(host: ManagedNode) -> DueUpgrade | None:
    return (host.status.upgrade or UpcomingUpgrades()).due


def _is_held(host: ManagedNode) -> bool:
    return host.spec.upgrade is None or ANNOTATION_HOLD in host.metadata.annotations or is_held(host)


def _rules(host: ManagedNode) -> VisitRules:
    due, timeout = _due(host), DRAIN
    if due is not None and due.drain_timeout:
        with contextlib.suppress(ValueError, OverflowError):  # it does not keep its visit from ending
            timeout = min(timedelta(seconds=durations.parse(due.drain_timeout)), MAX_DRAIN)
    return VisitRules(cordons=True, drains=True, drain_timeout=timeout, proof_timeout=PROOF)


def _nothing(claim: Claim) -> TaskWork:
    """Return no work: writing the claim of a host that begins needs no task."""
    return TaskWork((), claim.expires)
