"""Carries out the decisions about tasks, and reports what became of them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodetask import (
    COMPLETE,
    MAINTENANCE,
    NODE_TASKS,
    PHASES,
    NodeTask,
    is_ended,
)
from nodemanager.client.calls import DeleteOptions, WriteOptions
from nodemanager.client.patches import MergePatch, difference
from nodemanager.client.verbs import Client
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.fleet.tasks import bookkeeping, lookup
from nodemanager.fleet.tasks.bookkeeping import Circumstances, EndForHost, LookAgain, Remove
from nodemanager.kube import conditions, errors, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger("nodemanager.operator")
MANAGER: Final = "nodemanager-tasks"
"""The writer that ends tasks for their hosts, in `managedFields`."""
CONFLICT_SECONDS: Final = 0.5
"""Another program wrote the task, such as its agent; after this time the watch has shown it to us."""
LONGEST: Final = 86400.0
"""The longest time between two looks at a task: a clock may be set."""
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"


@dataclass(frozen=True, slots=True)
class RunsGoingOn:
    """Runs that have not ended: one of their tasks has not ended, or a maintenance says so.

    A run may wait for its next window for weeks with all its tasks ended. They say which hosts are done.
    """

    tasks: Cache[NodeTask]
    maintenances: Cache[NodeMaintenance]

    def __contains__(self, run: object) -> bool:
        if not run:
            return False
        running = (one.status.run for one in self.maintenances.values())
        return any(one is not None and one.id == run for one in running) or bool(
            self.tasks.find(lookup.UNFINISHED, str(run))
        )


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """What was seen of a task before; the next leader begins without it."""

    phases: dict[ObjectKey, str] = field(default_factory=dict)
    """The phases, so that the end of a task is reported once."""
    ended: dict[ObjectKey, datetime] = field(default_factory=dict)
    """When the task was first seen to have ended."""
    gone: dict[ObjectKey, datetime] = field(default_factory=dict)
    """When its host was first seen to have no ManagedNode."""

    def forget(self, key: ObjectKey) -> None:
        """Forget a task that does not exist any more."""
        for known in (self.phases, self.ended, self.gone):
            known.pop(key, None)


@dataclass(frozen=True, slots=True)
class TaskKeeper:
    """Ends, removes and reports tasks."""

    client: Client
    tasks: Cache[NodeTask]
    """With all indexes of `lookup`."""
    nodes: Cache[ManagedNode]
    maintenances: Cache[NodeMaintenance]
    events: EventRecorder
    now: Callable[[], datetime]
    memory: TaskMemory = field(default_factory=TaskMemory)

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Carry out the action for a task, and say when to look again."""
        task = self.tasks.get(key)
        if task is None or task.metadata.deletion_timestamp:
            self.memory.forget(key)
            return None
        self._tell(key, task)
        now = self.now()
        match bookkeeping.judge(task, self._circumstances(key, task, now)):
            case EndForHost() as over:
                await self._end(task, over, now)
            case Remove():
                await self._remove(task)
            case LookAgain(at):
                return None if at is None else ReconcileResult(min((at - now).total_seconds(), LONGEST))
        return None

    def _circumstances(self, key: ObjectKey, task: NodeTask, now: datetime) -> Circumstances:
        memory = self.memory
        ended = memory.ended.setdefault(key, now) if is_ended(task.status) else None
        gone = None
        if self.nodes.get(ObjectKey(key.namespace, task.spec.node_name)) is None:
            gone = memory.gone.setdefault(key, now)
        else:
            memory.gone.pop(key, None)
        return Circumstances(now, gone, ended, RunsGoingOn(self.tasks, self.maintenances))

    def _tell(self, key: ObjectKey, task: NodeTask) -> None:
        """Report the beginning and the end of a task; events from before we looked are not reported."""
        phase = task.status.phase
        before = self.memory.phases.get(key)
        self.memory.phases[key] = phase
        if before is None or before == phase:
            return
        if phase == RUNNING and MAINTENANCE not in task.metadata.labels:  # a maintenance reports it itself
            self.events.normal(NODE_TASKS, task, "TaskStarted", f"{task.spec.node_name} has taken it")
        if not is_ended(task.status):
            return
        said = f"{task.spec.node_name}: {task.status.message or 'all steps are done'}"
        record = self.events.normal if phase == SUCCEEDED else self.events.warning
        record(NODE_TASKS, task, f"Task{phase}", said)

    async def _end(self, task: NodeTask, over: EndForHost, now: datetime) -> None:
        """Write what the host cannot report any more; if it reports something meanwhile, that counts."""
        meta, moment = task.metadata, times.rfc3339(now)
        complete = Condition(
            type=COMPLETE, status=conditions.FALSE, reason=over.reason, message=over.message,
            observed_generation=meta.generation,
        )  # fmt: skip
        wanted = msgspec.structs.replace(
            task.status, phase=over.phase, message=over.message, finished_at=moment,
            observed_generation=meta.generation,
            conditions=conditions.set_condition(task.status.conditions, complete, moment),
        )  # fmt: skip
        status = difference(msgspec.to_builtins(task.status), msgspec.to_builtins(wanted))
        body = MergePatch({"metadata": {"resourceVersion": meta.resource_version}, "status": status})
        options = WriteOptions(field_manager=MANAGER)
        try:
            await self.client.patch(
                NODE_TASKS, meta.name, meta.namespace, body, subresource="status", options=options
            )
        except errors.NotFound:
            return
        except errors.Conflict:
            raise Retry(CONFLICT_SECONDS, "somebody else wrote the NodeTask meanwhile") from None
        log.warning("task %s of %s: %s: %s", meta.name, task.spec.node_name, over.phase, over.message)

    async def _remove(self, task: NodeTask) -> None:
        meta = task.metadata
        options = DeleteOptions(uid=meta.uid, resource_version=meta.resource_version)
        try:
            await self.client.delete(NODE_TASKS, meta.name, meta.namespace, options=options)
        except errors.NotFound:
            return
        except errors.Conflict:
            raise Retry(CONFLICT_SECONDS, "somebody else wrote the NodeTask meanwhile") from None
        log.info("task %s of %s is removed: it ended long ago", meta.name, task.spec.node_name)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of tasks, and count them by phase."""
    tasks = context.caches.of(NODE_TASKS)
    tasks.add_index(lookup.BY_NODE, lookup.by_node)
    tasks.add_index(lookup.BY_PHASE, lookup.by_phase)
    tasks.add_index(lookup.UNFINISHED, lookup.unfinished)
    _count(context.metrics, tasks)
    nodes = context.caches.of(MANAGED_NODES)
    maintenances = context.caches.of(NODE_MAINTENANCES)
    return TaskKeeper(context.client, tasks, nodes, maintenances, context.events, context.now).reconcile


def _count(registry: Registry, tasks: Cache[NodeTask]) -> None:
    family = registry.gauge("nodemanager_tasks", "NodeTasks by their phase.", ("phase",))
    for phase in PHASES:
        family.labels(phase).set_function(functools.partial(_counted, tasks, phase))


def _counted(tasks: Cache[NodeTask], phase: str) -> float:
    return float(len(tasks.find(lookup.BY_PHASE, phase)))


def on_task(change: Change[NodeTask], _caches: Caches) -> Iterator[Wake]:
    """Wake a task that is new, gone, was taken or ended; the progress of its steps does not matter here."""
    if change.old is None or change.new is None or _stage(change.old) != _stage(change.new):
        yield Wake(change.key)


def _stage(task: NodeTask) -> tuple[str, bool, bool]:
    return task.status.phase, task.status.claim is None, task.metadata.deletion_timestamp is None


def on_node(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake the tasks of a host that came or went."""
    if change.old is not None and change.new is not None:
        return
    for task in caches.of(NODE_TASKS).find(lookup.BY_NODE, change.key.name):
        if task.metadata.namespace == change.key.namespace:
            yield Wake(key_of(task))
