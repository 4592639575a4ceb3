"""Carries out the orders of a visit. All of them may be repeated, by this process or the next one.

The claim on the host is written before (`write_claim`), and only later evidence ends a state.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_PREVIEW,
    ANNOTATION_TOKEN,
    ANNOTATION_VISIT,
    NODE_MAINTENANCES,
    NodeMaintenance,
)
from nodemanager.api.maintenance.nodetask import (
    MAINTENANCE,
    MAX_TTL,
    NODE,
    NODE_TASKS,
    NOT_DONE,
    RUN,
    UPGRADES,
    NodeTask,
)
from nodemanager.api.maintenance.task_steps import TaskStep
from nodemanager.client.calls import DeleteOptions
from nodemanager.client.node_draining import Unanswered
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.holding import CordonHolder, NodeHold
from nodemanager.controllers.node_maintenances.ahead import HostsAhead, TasksAhead
from nodemanager.controllers.node_maintenances.observing import LABEL_ATTEMPT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.previews import KEPT, PreviewRequest
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.tasks import fencing
from nodemanager.kube import errors, times
from nodemanager.kube.objects import ObjectKey, Resource, key_of

Owner = NodeMaintenance | ManagedNode
"""The reason for the visit of a host: a maintenance, or its own spec.upgrade."""
_LABEL_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class TaskWork:
    """What a task is made of."""

    steps: tuple[TaskStep, ...]
    deadline: datetime
    plan_hash: str = ""
    not_after: datetime | None = None
    """When the window in which it has to begin closes."""
    not_before: datetime | None = None
    """Its slot; None = it has no slot, and may begin at once."""


@dataclass(frozen=True, slots=True)
class PreviewOrder:
    """The question for a host."""

    request: PreviewRequest
    steps: list[dict[str, Any]]
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Orders:
    """Carries out decisions about one host."""

    client: Client
    hosts: HostsAhead
    tasks: TasksAhead
    unanswered: Unanswered = field(default_factory=Unanswered)

    async def write_claim(self, host: ManagedNode, claim: Claim, now: datetime) -> ManagedNode:
        """Write down what will be done, unless the host has changed since we looked.

        The next fencing token is taken with it.
        """
        before = host.metadata
        notes = {ANNOTATION_VISIT: claims.encode(claim)}
        task = task_of(claim)
        if task and not fencing.token_of(host, task):
            notes[ANNOTATION_TOKEN] = fencing.newer_token(host, task, now)
        return await self._note(host, notes, before.resource_version)

    async def forget(self, host: ManagedNode) -> ManagedNode:
        """Remove the record of a visit from a host; its last fencing token stays."""
        return await self._note(host, {ANNOTATION_VISIT: None}, host.metadata.resource_version)

    async def mark(self, host: ManagedNode, mark: str) -> ManagedNode:
        """Write on a host until when we begin its upgrades; empty = we do not begin them."""
        notes = {UPGRADES: mark or None}
        return await self._note(host, notes, host.metadata.resource_version)

    async def _note(self, host: ManagedNode, notes: dict[str, Any], version: str) -> ManagedNode:
        meta = host.metadata
        body = MergePatch({"metadata": {"resourceVersion": version, "uid": meta.uid, "annotations": notes}})
        after = await self.client.patch(MANAGED_NODES, meta.name, meta.namespace, body)
        self.hosts.wrote(host, after)
        return after

    async def create_task(
        self, owner: Owner, host: ManagedNode, claim: Claim, work: TaskWork, now: datetime
    ) -> NodeTask | None:
        """Create the task of a visit, once: an existing one of this name is the one that we made before."""
        name = task_of(claim)
        if not fencing.token_of(host, name):  # the claim was removed: a task without one would be refused
            host = await self.write_claim(host, claim, now)
        token = fencing.token_of(host, name)
        body = _task(owner, host, claim, work, token)
        try:
            made = await self.client.create(NODE_TASKS, body, owner.metadata.namespace)
        except errors.AlreadyExists:
            return await self.task(ObjectKey(owner.metadata.namespace, name))
        self.tasks.made(made)
        return made

    async def create_preview(
        self, owner: NodeMaintenance, host: ManagedNode, name: str, asking: PreviewOrder, now: datetime
    ) -> None:
        """Ask a host that is not being worked on what would be done, once."""
        if not fencing.token_of(host, name):
            note = {ANNOTATION_TOKEN: fencing.newer_token(host, name, now)}
            host = await self._note(host, note, host.metadata.resource_version)
        with contextlib.suppress(errors.AlreadyExists):
            body = _preview(owner, host, name, asking)
            await self.client.create(NODE_TASKS, body, owner.metadata.namespace)

    async def task(self, key: ObjectKey) -> NodeTask | None:
        """Return a task as the server has it."""
        try:
            return await self.client.get(NODE_TASKS, key.name, key.namespace)
        except errors.NotFound:
            self.tasks.gone(key)
            return None

    async def note_not_done(self, task: NodeTask, reason: Reason) -> None:
        """Record on a succeeded task why its visit failed: the claim lasts only until the next visit."""
        if task.metadata.annotations.get(NOT_DONE) == reason:
            return
        meta = task.metadata
        body = MergePatch({"metadata": {"uid": meta.uid, "annotations": {NOT_DONE: reason.value}}})
        with contextlib.suppress(errors.NotFound):
            await self.client.patch(NODE_TASKS, meta.name, meta.namespace, body)

    async def delete_task(self, task: NodeTask) -> None:
        """Delete a task, unless it was changed since."""
        meta = task.metadata
        options = DeleteOptions(uid=meta.uid, resource_version=meta.resource_version)
        with contextlib.suppress(errors.NotFound):
            await self.client.delete(NODE_TASKS, meta.name, meta.namespace, options=options)
        self.tasks.gone(key_of(task))

    def hold(self, owner: Owner, host: str, claim: Claim) -> NodeHold:
        """Return the Node of a host as it is held for this visit."""
        meta = owner.metadata
        since = times.rfc3339(claim.begun)
        holder = CordonHolder(meta.namespace, claim.maintenance, meta.uid, claim.generation, since)
        return NodeHold(self.client, host, holder, self.unanswered)


def task_of(claim: Claim) -> str:
    """Return the name of the task that the visit's state orders."""
    return claims.undo_name(claim.task) if claim.task and claim.state is State.UNDOING else claim.task


def label(name: str) -> str:
    """Return a name in a form that a label may have."""
    return name[:_LABEL_MAX].rstrip("-._")


def _task(owner: Owner, host: ManagedNode, claim: Claim, work: TaskWork, token: int) -> dict[str, Any]:
    meta = owner.metadata
    about = {
        "kind": _resource(owner).kind, "name": meta.name, "uid": meta.uid, "generation": claim.generation,
        "planHash": work.plan_hash,
    }  # fmt: skip
    return {
        "metadata": {
            "name": task_of(claim),
            "labels": {
                NODE: label(host.metadata.name), RUN: claim.run, LABEL_ATTEMPT: str(claim.attempt),
                **({} if claim.is_upgrade else {MAINTENANCE: label(meta.name)}),
            },
            "ownerReferences": [_owned_by(owner)],
        },
        "spec": {
            "nodeName": host.metadata.name,
            "steps": msgspec.to_builtins(list(work.steps)),
            "deadline": times.rfc3339(work.deadline),
            "notBefore": times.rfc3339(work.not_before or claim.begun),
            **({"notAfter": times.rfc3339(work.not_after)} if work.not_after is not None else {}),
            "fencingToken": token,
            "reason": about,
            # The task is kept until its run has ended, which only we know.
            **({} if claim.is_upgrade else {"ttlSecondsAfterFinished": MAX_TTL}),
        },
    }  # fmt: skip


def _preview(owner: NodeMaintenance, host: ManagedNode, name: str, asking: PreviewOrder) -> dict[str, Any]:
    """Return a preview task. It belongs to no run: its reason has no uid, by which runs count tasks."""
    meta, request = owner.metadata, asking.request
    return {
        "metadata": {
            "name": name,
            "labels": {NODE: label(host.metadata.name), ANNOTATION_PREVIEW: request.id},
            "ownerReferences": [_owned_by(owner)],
        },
        "spec": {
            "nodeName": host.metadata.name,
            "steps": asking.steps,
            "deadline": times.rfc3339(asking.deadline),
            "fencingToken": fencing.token_of(host, name),
            "reason": {
                "kind": NODE_MAINTENANCES.kind, "name": meta.name, "generation": meta.generation,
                "planHash": request.plan_hash,
            },
            "ttlSecondsAfterFinished": int(KEPT.total_seconds()),
        },
    }  # fmt: skip


def _owned_by(owner: Owner) -> dict[str, Any]:
    meta, resource = owner.metadata, _resource(owner)
    return {
        "apiVersion": resource.api_version, "kind": resource.kind, "name": meta.name,
        "uid": meta.uid, "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip


def _resource(owner: Owner) -> Resource[Any]:
    return NODE_MAINTENANCES if isinstance(owner, NodeMaintenance) else MANAGED_NODES
