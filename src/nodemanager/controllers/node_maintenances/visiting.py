"""One step of the visit of one host: carry out the order of its state, look at the result, write the next.

The decision itself is `fleet.maintenance.visits`. This module carries out its orders, and says where evidence
comes from: for a Node that we have just changed, from the API itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodetask import NodeTask, NodeTaskStatus
from nodemanager.controllers.disruption.holding import DrainRules
from nodemanager.controllers.disruption.nodes import (
    DRAIN_IN_PROGRESS,
    DRAINED,
    MAINTENANCE_IN_PROGRESS,
    Node,
)
from nodemanager.controllers.node_maintenances import observing
from nodemanager.controllers.node_maintenances.orders import Orders, Owner, TaskWork, task_of
from nodemanager.fleet.maintenance import undoing, visits
from nodemanager.fleet.maintenance.claims import Claim, State, undo_name
from nodemanager.fleet.maintenance.facts import HALTED, REFUSED, SUCCEEDED, GateFinding, HostFacts, NodeFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import STATES, Move, Visit, VisitHold, VisitOrder, VisitRules
from nodemanager.kube import errors, wording
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger("nodemanager.operator")
UNDO_TIME: Final = timedelta(minutes=50)
"""How long after an undoing began its steps may still begin, so that it ends before the visit is given up."""
_BEFORE_WORK: Final = (State.CORDONING, State.DRAINING)
_FAILED: Final = (State.UNDONE, State.HALTED)
_HELD: Final = (State.CORDONING, State.DRAINING, State.RETURNING)
"""States in which the Node is read from the API, not from the cache."""


@dataclass(frozen=True, slots=True)
class Undertaking:
    """What a maintenance, or an upgraded host, says about its visits now."""

    owner: Owner
    rules: VisitRules
    work: Callable[[Claim], TaskWork]
    """What the task of a visit is made of."""
    drain: DrainRules
    now: datetime
    may_work: bool = True
    ending: Reason | None = None
    """Why hosts without work so far are given back: DELETED, ABORTED."""


@dataclass(frozen=True, slots=True)
class Visited:
    """A host in work, as it was seen."""

    host: ManagedNode
    facts: HostFacts
    claim: Claim
    tasks: Sequence[NodeTask] = ()
    """The tasks of this host in the whole run."""


class VisitDriver:
    """Carries out visits, one transition per call."""

    def __init__(self, orders: Orders, events: EventRecorder, metrics: Registry) -> None:
        self._orders = orders
        self._events = events
        self._left: dict[str, str] = {}
        """What was last reported about drained hosts, by uid."""
        self._moves = metrics.counter(
            "nodemanager_maintenance_transitions_total", "States that visits of hosts came into.", ("state",)
        )

    async def drive(self, about: Undertaking, seen: Visited) -> VisitHold | Move:
        """Carry out the order of the state, and write the next state if there is evidence for it."""
        try:
            visit = await self._ordered(about, seen)
        except errors.Forbidden as error:
            log.warning("cannot go on with host %s: %s", seen.host.metadata.name, error)
            if about.now >= seen.claim.expires:
                late = msgspec.structs.replace(
                    seen.claim, state=State.HALTED, since=about.now, reason=Reason.DEADLINE_EXCEEDED
                )
                await self.write(about, seen.host, late, seen.claim)
                return Move(late)
            return VisitHold(STATES[seen.claim.state].reason, f"node/{seen.host.metadata.name}")
        found = _cut_short(about, visit) or visits.advance(visit)
        if isinstance(found, Move):
            await self._remember(visit, seen, found.claim)
            await self.write(about, seen.host, found.claim, seen.claim)
        return found

    async def _remember(self, visit: Visit, seen: Visited, ended: Claim) -> None:
        """Record on a succeeded task that its host does not count as done, before the claim says so.

        The claim is the record of it only until another maintenance visits the host.
        """
        done, reason = visit.task, ended.reason
        if done is None or done.phase != SUCCEEDED or reason is None or ended.state not in _FAILED:
            return
        for task in seen.tasks:
            if task.metadata.name == done.name:
                await self._orders.note_not_done(task, reason)

    async def write(
        self, about: Undertaking, host: ManagedNode, claim: Claim, before: Claim | None = None
    ) -> None:
        """Write a state, and report it."""
        await self._orders.write_claim(host, claim, about.now)
        if before is not None and before.state is claim.state:
            return
        self._moves.labels(claim.state.value).inc()
        log.info("host %s: %s for %s", host.metadata.name, claim.state, claim.object)
        self._tell(host, claim)

    def _tell(self, host: ManagedNode, claim: Claim) -> None:
        why = f": {claim.reason}" if claim.reason is not None else ""
        why += f": {claim.missing}" if claim.missing else ""
        if claim.state is State.HALTED and claim.is_upgrade and claim.cordoned:
            why += f"; its Node stays cordoned: see how it is, then `kubectl uncordon {host.metadata.name}`"
        owner = "its spec.upgrade" if claim.is_upgrade else f"maintenance {claim.maintenance}"
        said = f"{claim.state} for {owner}, run {claim.run}{why}"
        bad = claim.state in (State.UNDONE, State.HALTED, State.UNDOING)
        tell = self._events.warning if bad else self._events.normal
        if claim.state in (State.CORDONING, State.WORKING) or claim.state.is_end or bad:
            tell(MANAGED_NODES, host, f"Maintenance{claim.state}", said)

    def _tell_left(self, host: ManagedNode, said: str) -> None:
        """Report remaining pods if they have changed: a drain is looked at every few seconds."""
        if said and self._left.get(host.metadata.uid) != said:
            self._events.normal(MANAGED_NODES, host, "MaintenanceDraining", said)
        if said:
            self._left[host.metadata.uid] = said
        else:
            self._left.pop(host.metadata.uid, None)

    # Orders

    async def _ordered(self, about: Undertaking, seen: Visited) -> Visit:
        """Carry out the order of the state; return all facts after that."""
        claim = seen.claim
        order = STATES[claim.state].order if claim.state in STATES else VisitOrder.NOTHING
        if claim.cordoned and order is VisitOrder.CREATE_TASK and not claim.seen:
            hold = self._orders.hold(about.owner, seen.host.metadata.name, claim)
            await hold.say({DRAINED: "", MAINTENANCE_IN_PROGRESS: f"task {claim.task}"})
        task, undo = await self._tasks(about, seen, order)
        facts = seen.facts
        if claim.cordoned and claim.state in _HELD:
            facts = replace(facts, node=await self._held(about, seen, order))
        if claim.state in (State.PROVING, State.SOAKING) and task is not None:
            unproven = observing.unproven_reboot(task)
            missing = GateFinding(unproven) if unproven else facts.health.failing_after
            facts = replace(facts, health=replace(facts.health, failing_after=missing))
        return Visit(
            claim, facts, about.rules, about.now,
            task=observing.task_facts(task, about.now) if task is not None else None,
            undo=observing.task_facts(undo, about.now) if undo is not None else None,
            may_work=about.may_work,
        )  # fmt: skip

    async def _tasks(
        self, about: Undertaking, seen: Visited, order: VisitOrder
    ) -> tuple[NodeTask | None, NodeTask | None]:
        """Create or take back the tasks of a visit; return the task of the work, and that of its undoing."""
        claim = seen.claim
        task = await self._task(about, seen, claim.task)
        undo: NodeTask | None = None
        begins = (
            order is VisitOrder.CREATE_TASK and not claim.seen and about.ending is None and about.may_work
        )
        if begins and task is None:
            task = await self._created(about, seen, about.work(claim))
        if order is VisitOrder.CREATE_UNDO:
            undo = await self._task(about, seen, undo_name(claim.task))
            back = undoing.inverse(task) if task is not None else []
            if undo is None and back:
                work = TaskWork(tuple(back), claim.since + UNDO_TIME)
                undo = await self._created(about, seen, work) or _as_if(task, HALTED)
            elif undo is None:  # it changed nothing that could be taken back
                undo = _as_if(task, SUCCEEDED)
        ends = order is VisitOrder.GIVE_BACK or (order is VisitOrder.CREATE_TASK and about.ending is not None)
        if ends and task is not None and _is_untaken(task):
            await self._orders.delete_task(task)
            task = None
        return task, undo

    async def _created(self, about: Undertaking, seen: Visited, work: TaskWork) -> NodeTask | None:
        """Create a task. A task that the API refuses counts as refused by the host."""
        try:
            return await self._orders.create_task(
                about.owner, seen.host, seen.claim, work, about.now
            )  # fmt: skip
        except errors.Invalid as error:
            log.warning("cannot make a task for host %s: %s", seen.host.metadata.name, error)
            named = ObjectMeta(name=task_of(seen.claim), namespace=about.owner.metadata.namespace)
            return NodeTask(named, status=NodeTaskStatus(phase=REFUSED))

    async def _held(self, about: Undertaking, seen: Visited, order: VisitOrder) -> NodeFacts | None:
        """Cordon, drain or give back the Node of a host; return its state after that."""
        hold = self._orders.hold(about.owner, seen.host.metadata.name, seen.claim)
        left, blocked = 0, ""
        if order is VisitOrder.GIVE_BACK:
            await hold.release()
        else:
            await hold.cordon()
        if order is VisitOrder.DRAIN:
            await hold.say({DRAIN_IN_PROGRESS: "pods are leaving"})
            drained = await hold.drain(about.drain)
            left, blocked = len(drained.blocked), drained.said
            pods = wording.plural(left, "pod is", "pods are")
            self._tell_left(seen.host, f"{pods} left: {blocked}" if left else "")
        node = await hold.node()
        return None if node is None else _node_facts(node, left, blocked)

    async def _task(self, about: Undertaking, seen: Visited, name: str) -> NodeTask | None:
        """Return a task of the visit: one that the cache does not have yet is read from the API."""
        if not name or seen.claim.state in _BEFORE_WORK:
            return None
        known = next((one for one in seen.tasks if one.metadata.name == name), None)
        return known or await self._orders.task(ObjectKey(about.owner.metadata.namespace, name))


def _cut_short(about: Undertaking, visit: Visit) -> Move | None:
    """Return that a host is given back at once, because no work is left and none was done."""
    claim = visit.claim
    untouched = claim.state in _BEFORE_WORK or (claim.state is State.WORKING and visit.task is None)
    if about.ending is None or not untouched:
        return None
    return Move(
        msgspec.structs.replace(
            claim, state=State.RETURNING, since=about.now, end=State.UNDONE, reason=about.ending
        )
    )


def _as_if(task: NodeTask | None, phase: str) -> NodeTask | None:
    """Return a task as if it had ended like this."""
    if task is None:
        return None
    return msgspec.structs.replace(task, status=msgspec.structs.replace(task.status, phase=phase))


def _is_untaken(task: NodeTask) -> bool:
    return task.status.claim is None and task.status.phase in ("", "Pending")


def _node_facts(node: Node, left: int, blocked: str) -> NodeFacts:
    return NodeFacts(node.is_ready, node.spec.unschedulable, node.mark is not None, left, blocked)
