"""One look at a maintenance: continue with hosts in work, decide, begin with others, and report.

All memory is in the objects: claims on hosts, tasks, and the run in the status. So it does not
matter which process looks next, nor at which write the last one was killed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_PREVIEW,
    FINALIZER,
    NODE_MAINTENANCES,
    NodeMaintenance,
)
from nodemanager.api.maintenance.nodetask import NODE_TASKS, RUN
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.gate_asking import Asker
from nodemanager.controllers.node_maintenances import (
    changing_hosts,
    deleting,
    observing,
    previewing,
    undertaking,
    upcoming,
    waking,
)
from nodemanager.controllers.node_maintenances.ahead import UPGRADING, HostsAhead, TasksAhead
from nodemanager.controllers.node_maintenances.changing_hosts import ChangingHosts
from nodemanager.controllers.node_maintenances.gates import MaintenanceGates, gates_of
from nodemanager.controllers.node_maintenances.hosts_in_work import (
    AT_ONCE,
    CONFLICT,
    LOOK_SECONDS,
    HostsInWork,
)
from nodemanager.controllers.node_maintenances.inputs import InputReader, Problem
from nodemanager.controllers.node_maintenances.observing import HostObservation, SignsOfLife
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.controllers.node_maintenances.previewing import Previewer
from nodemanager.controllers.node_maintenances.protecting import ProtectedHosts
from nodemanager.controllers.node_maintenances.realtime_sets import RealtimeSets
from nodemanager.controllers.node_maintenances.repair_turns import RepairInputs, RepairTurns
from nodemanager.controllers.node_maintenances.status import remembering
from nodemanager.controllers.node_maintenances.status.recording import News, StatusInputs
from nodemanager.controllers.node_maintenances.status.writer import MaintenanceWriter
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.controllers.node_maintenances.upgrades.group_locks import GroupLocks
from nodemanager.controllers.node_maintenances.upgrades.marks import UpgradeMarks
from nodemanager.controllers.node_maintenances.upgrades.visits import UpgradeInputs, UpgradeVisits
from nodemanager.controllers.node_maintenances.visiting import Undertaking, VisitDriver
from nodemanager.controllers.registration import ControllerContext
from nodemanager.fleet.maintenance import budget, openings, passes, questions
from nodemanager.fleet.maintenance.budget import BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, MaintenanceFacts
from nodemanager.fleet.maintenance.passes import MaintenanceLook
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.repairs import escalation
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.controller import Reconcile, ReconcileResult

BUSY_SECONDS: Final = 2.0
"""How often to look while a Node is drained or a host is proven, because no event comes then."""
CATCH_UP: Final = 0.05
DECISION_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
TTL: Final = timedelta(days=1)
_POLLED: Final = (State.CORDONING, State.DRAINING, State.PROVING, State.SOAKING, State.RETURNING)


class Maintainer:
    """Looks at maintenances, one at a time."""

    def __init__(self, context: ControllerContext) -> None:
        caches = context.caches
        self._now = context.now
        self._caches = caches
        self._maintenances = caches.of(NODE_MAINTENANCES)
        self._hosts = HostsAhead(caches.of(MANAGED_NODES))
        self._tasks = TasksAhead(caches.of(NODE_TASKS))
        self._orders = Orders(context.client, self._hosts, self._tasks)
        self._driver = VisitDriver(self._orders, context.events, context.metrics)
        self._protected = ProtectedHosts(context.client)
        self._inputs = InputReader(context.client, caches)
        self._previews = Previewer(self._orders, self._hosts, self._inputs)
        self._realtime = RealtimeSets(context.client, caches.of(CONFIG_SETS), self._inputs)
        self._asker = Asker(context.client, context.now, context.queue.add)
        caches.of(CONFIG_SETS).add_index(changing_hosts.UNDER_WAY, changing_hosts.under_way)
        changing = ChangingHosts(caches.of(CONFIG_SETS))
        self._observation = HostObservation(caches.of(NODES), SignsOfLife(context.now), changing)
        caches.of(LEASES).subscribe(self._observation.signs.saw)
        caches.of(MANAGED_NODES).subscribe(self._observation.forget)
        self._work = HostsInWork(self._hosts, self._driver, self._protected, self._observation)
        self._writer = MaintenanceWriter(context)
        self._upgrades = UpgradeVisits(
            self._orders, self._driver, self._hosts, self._tasks, GroupLocks(context.client, context.now),
            UpgradeMarks(self._orders, caches.of(NODES)), UpgradeInputs(
                self._observation.facts_heard, self._rooms, self._inputs.unrecorded
            ),
            context.events,
        )  # fmt: skip
        around = RepairInputs(
            caches.of(CONFIG_SETS), self._maintenances, self._look_around, self._observation.facts,
            self._inputs.unrecorded,
        )  # fmt: skip
        self._repairs = RepairTurns(self._orders, self._hosts, around, context.events, context.metrics)
        self._took = context.metrics.histogram(
            "nodemanager_maintenance_decision_seconds",
            "How long one decision took.",
            buckets=DECISION_BUCKETS,
        ).labels()

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Look at a maintenance, or at all upgrades or repairs of a namespace, and say when to look again."""
        if key.name in (waking.UPGRADES, waking.REPAIRS):
            return await self._see_to_hosts(key)
        maintenance = self._maintenances.get(key)
        if maintenance is None:
            self._writer.forget(key)
            self._inputs.forget(key)
            return None
        if self._writer.is_ahead_of(maintenance):
            return ReconcileResult(CATCH_UP)
        if maintenance.metadata.deletion_timestamp and FINALIZER not in maintenance.metadata.finalizers:
            return None
        if FINALIZER not in maintenance.metadata.finalizers:
            await self._writer.keep(maintenance)
            return None
        seen = await self._look_around(maintenance)
        about, problem = self._undertaking(seen)
        soon = await self._work.go_on(seen, about, self._facts(seen))
        self._asker.want(key, self._gates(seen).questions_after(seen.nodes, maintenance.metadata.uid))
        seen = replace(seen, tasks=self._tasks.of(maintenance.metadata.uid))
        if maintenance.metadata.deletion_timestamp:
            return await self._delete(seen, soon)
        if deleting.is_over(seen):
            await self._writer.expire(maintenance)
            return None
        if (run := remembering.retried(maintenance, seen.now)) is not None:
            await self._writer.retry(maintenance, run)
            return ReconcileResult(AT_ONCE)
        if ANNOTATION_PREVIEW in maintenance.metadata.annotations:
            return await self._preview(seen, problem)
        return await self._decide(seen, about, problem, soon)

    async def _see_to_hosts(self, key: ObjectKey) -> ReconcileResult | None:
        """Look at the requests of hosts: for upgrades, or for turns to repair drift."""
        if key.name == waking.REPAIRS:
            again = await self._repairs.look(key.namespace, self._now())
            return ReconcileResult(again) if again is not None else None
        if await self._upgrades.look(key.namespace, self._now()):
            return ReconcileResult(BUSY_SECONDS)
        return ReconcileResult(LOOK_SECONDS) if self._hosts.visited_by(UPGRADING) else None

    # Seeing

    async def _look_around(self, maintenance: NodeMaintenance) -> MaintenanceSnapshot:
        now, namespace = self._now(), maintenance.metadata.namespace
        everyone = self._hosts.everyone(namespace)
        inputs = await self._inputs.read(maintenance, everyone, now, self._hosts.labelled)
        tasks = self._tasks.of(maintenance.metadata.uid)
        visited = [host.metadata.name for host in self._hosts.visited_by(maintenance.metadata.uid)]
        names = [
            *(name for group in inputs.groups for name in group.hosts),
            *visited,
            *(task.spec.node_name for task in tasks),
        ]
        nodes = self._hosts.chosen(namespace, dict.fromkeys(names))
        return MaintenanceSnapshot(maintenance, now, nodes, inputs, tasks, remembering.run_of(maintenance))

    def _gates(self, seen: MaintenanceSnapshot) -> MaintenanceGates:
        return gates_of(seen.maintenance, self._asker.answers, seen.now)

    def _facts(self, seen: MaintenanceSnapshot) -> dict[str, HostFacts]:
        """Return the facts about the hosts that matter to a maintenance, with our own writes."""
        gates = self._gates(seen)
        owners = {one.metadata.uid for one in self._maintenances.values()}
        found: dict[str, HostFacts] = {}
        names = [host.metadata.name for host in seen.nodes]
        hosts = list(self._hosts.chosen(seen.maintenance.metadata.namespace, names))
        known = self._observation.facts(hosts)
        for host in hosts:
            name = host.metadata.name
            failing = gates.failing(host, self._observation.node_of(host))
            facts = observing.with_gates(known[name], failing)
            facts = observing.with_owner(facts, owners, seen.now)
            found[name] = self._protected.on(seen.maintenance.metadata.uid, facts)
        return found

    async def _rooms(self, namespace: str) -> list[tuple[str, BudgetRoom]]:
        """Return what is left of the budgets of all maintenances that have a run."""
        found: list[tuple[str, BudgetRoom]] = []
        for one in self._maintenances.values():
            if one.metadata.namespace != namespace or one.status.run is None:
                continue
            seen = await self._look_around(one)
            if (known := self._known(seen, None)) is not None:
                found.append((one.metadata.name, budget.room(known)))
        return found

    def _undertaking(self, seen: MaintenanceSnapshot) -> tuple[Undertaking, Problem | None]:
        """Return the rules for all visits now, and what prevents hosts from beginning."""
        about, problem = undertaking.of_run(seen, self._inputs)
        problem = problem or gates_of(seen.maintenance).problem
        if problem is None and about.rules.cordons and (why := self._caches.of(NODES).refused):
            problem = Problem(Reason.NODES_UNKNOWN, "clusterrole/nodemanager-operator-disruption", why)
        return about, problem

    # Deciding

    async def _decide(
        self, seen: MaintenanceSnapshot, about: Undertaking, problem: Problem | None, soon: float
    ) -> ReconcileResult:
        await self._protected.refresh(about)
        began = time.perf_counter()
        known = self._known(seen, problem)
        look = passes.look(upcoming.upkeep(seen), known, seen.maintenance.metadata.uid, seen.now)
        self._took.observe(time.perf_counter() - began)
        run, ended = seen.maintenance.status.run, None
        if known is None and look.begins and problem is None:
            run = remembering.began(seen.maintenance.metadata.uid, look.begins, seen.now)
            work, _ = undertaking.work_of(seen, run, self._inputs)
            run = msgspec.structs.replace(run, digest=work.digest)
            soon = AT_ONCE
        elif run is not None and look.decision is not None:
            if look.decision.outcome:
                ended, run = remembering.ended(run, look.decision, seen.now), None
                soon = AT_ONCE
            else:
                run = remembering.kept(run, look, seen.now)
        plan = undertaking.plan_of(seen, run, self._inputs)
        kept = await self._realtime.keep(seen)
        called = escalation.hosts(seen.nodes, seen.maintenance)
        refused = undertaking.refused(seen.maintenance, plan, kept.plan if kept else None, self._caches)
        await self._writer.write(
            StatusInputs(seen.maintenance, look, run, ended, problem, plan, seen.now, kept, called, refused)
        )
        if run is not None and known is not None and look.decision is not None:
            soon = min(soon, await self._work.begin(seen, about, known, look.decision.starts))
            asks = self._asker.want(
                key_of(seen.maintenance), self._gates(seen).questions_before(look.decision.waits)
            )
            soon = min(soon, questions.FRESH.total_seconds()) if asks else soon
        await self._clean(seen)
        return ReconcileResult(min(soon, self._next(seen, look)))

    def _known(self, seen: MaintenanceSnapshot, problem: Problem | None) -> MaintenanceFacts | None:
        run = seen.run
        if run is None:
            return None
        return MaintenanceFacts(
            uid=seen.maintenance.metadata.uid,
            spec=seen.maintenance.spec,
            run=run,
            groups=seen.inputs.groups,
            hosts=self._facts(seen),
            now=seen.now,
            window=seen.inputs.view,
            tasks=observing.run_tasks(seen.tasks, run.id, seen.now),
            durations=openings.measured(observing.durations(seen.tasks, seen.now)),
            problem=(problem.reason, problem.object) if problem is not None else None,
            series_known=seen.inputs.series_known,
            approved=undertaking.is_approved(seen, self._caches, self._inputs),
        )

    async def _preview(self, seen: MaintenanceSnapshot, problem: Problem | None) -> ReconcileResult:
        """Let hosts be asked what a run would do, then remove the request."""
        maintenance = seen.maintenance
        found = passes.look(upcoming.upkeep(seen), None, maintenance.metadata.uid, seen.now)
        run = upcoming.run_of(maintenance, found, seen.now, begins=problem is None)
        try:
            news = await self._previews.answer(seen, run, self._facts(seen))
        except (errors.Conflict, errors.NotFound):  # a host has changed, or is gone: ask again
            return ReconcileResult(CONFLICT)
        except errors.KubeError as error:  # the run does not wait until hosts can be asked
            said = f"cannot ask hosts what an upgrade would do: {error}; ask again once that is mended"
            news = News(previewing.REFUSED, said, bad=True)
        try:
            await self._writer.answered(maintenance, news)
        except (errors.Conflict, errors.NotFound):  # a new request was written, or it was removed
            return ReconcileResult(CONFLICT)
        return ReconcileResult(CATCH_UP)

    # Ending

    async def _delete(self, seen: MaintenanceSnapshot, soon: float) -> ReconcileResult | None:
        """Give back what is still held, then let the maintenance go."""
        busy = await deleting.restore(self._orders, seen.maintenance, self._hosts)
        if busy or soon < LOOK_SECONDS:
            return ReconcileResult(min(soon, BUSY_SECONDS))
        await self._writer.let_go(seen.maintenance)
        return None

    async def _clean(self, seen: MaintenanceSnapshot) -> None:
        """Delete tasks of runs that have ended long enough ago."""
        ttl = seen.maintenance.spec.ttl_seconds_after_finished
        limit = TTL if ttl is None else timedelta(seconds=ttl)
        current = seen.maintenance.status.run
        for task in seen.tasks:
            ended = observing.ended_at(task, seen.now)
            if ended is None or (current is not None and task.metadata.labels.get(RUN) == current.id):
                continue
            if seen.now - ended >= limit:
                await self._orders.delete_task(task)

    def _next(self, seen: MaintenanceSnapshot, look: MaintenanceLook) -> float:
        """Return in how many seconds to look again."""
        visited = self._hosts.visited_by(seen.maintenance.metadata.uid)
        if any(_is_polled(host, seen.maintenance) for host in visited):
            return BUSY_SECONDS
        edges = [look.window.opens_at, look.window.closes_at, *(one.next_run for one in look.judgements)]
        ahead = [(edge - seen.now).total_seconds() for edge in edges if edge is not None]
        ahead += [wait] if (wait := self._protected.next(seen.maintenance.metadata.uid, seen.now)) else []
        return max(CATCH_UP, min([LOOK_SECONDS, *(one for one in ahead if one > 0)]))


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of maintenances."""
    return Maintainer(context).reconcile


def _is_polled(host: ManagedNode, maintenance: NodeMaintenance) -> bool:
    claim = observing.claim_of(host)
    return isinstance(claim, Claim) and claim.uid == maintenance.metadata.uid and claim.state in _POLLED
