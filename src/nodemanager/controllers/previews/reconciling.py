"""One look at one ConfigSetPreview: which hosts are asked next, by tasks that change nothing.

All of it may be done again: the names of tasks follow from the proposal. That it was seen is written first,
so the person who asked knows within a moment that an operator works on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from nodemanager.api.common import configsetpreview
from nodemanager.api.common.configsetpreview import (
    ASKED,
    ASKING,
    CONFIG_SET_PREVIEWS,
    REFUSED,
    ConfigSetPreview,
    ConfigSetPreviewStatus,
    UnaskedHost,
)
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_PREVIEW, ANNOTATION_TOKEN
from nodemanager.api.maintenance.nodetask import NODE, NODE_TASKS, NodeTask, is_ended, node_label
from nodemanager.client.calls import DeleteOptions
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.previews import asking
from nodemanager.fleet.tasks import fencing
from nodemanager.kube import conditions, errors, times, wording
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry

BY_PREVIEW: Final = "preview"
"""Index: tasks by the name of the proposal that they are about."""
SETTLE_SECONDS: Final = 0.1
"""Hosts answer at about the same time, so the next ones are asked together."""
AGAIN_SECONDS: Final = 0.2
TRIES: Final = 3
MAX_MESSAGE: Final = 1024
_REFUSALS: Final = (errors.Forbidden, errors.Invalid, errors.BadRequest)
"""Reasons why a task is refused: a quota, an older definition of the kind, or a proposal name too long for a
label."""
_BROKEN: Final = "its digest is not that of its sets; ask again"


@dataclass(frozen=True, slots=True)
class Previews:
    """Looks at proposals."""

    client: Client
    previews: Cache[ConfigSetPreview]
    tasks: Cache[NodeTask]
    """With the index `BY_PREVIEW`."""
    nodes: Cache[ManagedNode]
    now: Callable[[], datetime]
    made: dict[ObjectKey, dict[str, str]] = field(default_factory=dict)
    """Hosts that we asked, each with the uid of the proposal, because the cache of tasks may be behind."""

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Ask as many hosts as may be asked now."""
        preview = self.previews.get(key)
        if preview is None:
            self.made.pop(key, None)
            await self._forget(key)
            return None
        if preview.metadata.deletion_timestamp:
            return None
        left = self._left(preview)
        if left <= 0:
            await self._remove(preview)
            return None
        status = preview.status
        if status.phase in (ASKED, REFUSED):
            return ReconcileResult(left)
        if not configsetpreview.is_whole(preview):
            await self._write(preview, ConfigSetPreviewStatus(phase=REFUSED), _BROKEN)
        elif not status.phase:
            await self._write(preview, ConfigSetPreviewStatus(phase=ASKING))
        else:
            try:
                await self._ask(preview)
            except _REFUSALS as error:  # the person who asked sees the error
                said = wording.flat(f"cannot make tasks: {error}", MAX_MESSAGE)
                await self._write(preview, ConfigSetPreviewStatus(phase=REFUSED), said)
        return ReconcileResult(left)

    async def _ask(self, preview: ConfigSetPreview) -> None:
        key, status = key_of(preview), preview.status
        made = self.made.setdefault(key, {})
        ended = {host: False for host, uid in made.items() if uid == preview.metadata.uid}
        for task in self.tasks.find(BY_PREVIEW, key.name):
            if task.metadata.namespace == key.namespace:
                ended[task.spec.node_name] = is_ended(task.status)
        known = {
            host: node
            for host in preview.spec.hosts
            if (node := self.nodes.get(ObjectKey(key.namespace, host))) is not None
        }
        turn = asking.turn(preview.spec.hosts, ended, {one.name for one in status.unasked}, known)
        unasked = dict(turn.unasked)
        for host in turn.ask:
            if (why := await self._ask_one(preview, known[host])) is not None:
                unasked[host] = why
            else:
                made[host] = preview.metadata.uid
                ended[host] = False
        await self._write(
            preview,
            msgspec.structs.replace(
                status,
                phase=ASKED if turn.complete else ASKING,
                asked=len(ended),
                unasked=[*status.unasked, *(_unasked(host, why) for host, why in unasked.items())],
            ),
        )

    async def _ask_one(self, preview: ConfigSetPreview, host: ManagedNode) -> Reason | None:
        """Make the task of a host, once; return why that is not possible."""
        meta = preview.metadata
        task = claims.task_name(host.metadata.name, meta.uid, "preview", host.metadata.uid, 0)
        for _ in range(TRIES):
            if (why := asking.unfit(host)) is not None:
                return why
            try:
                if not fencing.token_of(host, task):
                    host = await self._take_token(host, task)
                with contextlib.suppress(errors.AlreadyExists):
                    body = _task(preview, host, task, self.now() + asking.LASTS)
                    await self.client.create(NODE_TASKS, body, meta.namespace)
            except errors.Conflict:  # its agent has just written
                host = await self.client.get(MANAGED_NODES, host.metadata.name, meta.namespace)
            except errors.NotFound:
                return Reason.HOST_GONE
            else:
                return None
        return Reason.HOST_BUSY

    async def _take_token(self, host: ManagedNode, task: str) -> ManagedNode:
        meta = host.metadata
        note = {ANNOTATION_TOKEN: fencing.newer_token(host, task, self.now())}
        about = {"resourceVersion": meta.resource_version, "uid": meta.uid, "annotations": note}
        return await self.client.patch(
            MANAGED_NODES, meta.name, meta.namespace, MergePatch({"metadata": about})
        )

    async def _write(
        self, preview: ConfigSetPreview, status: ConfigSetPreviewStatus, message: str = ""
    ) -> None:
        done = conditions.TRUE if status.phase == ASKED else conditions.FALSE
        asked = Condition(
            type=ASKED, status=done, reason=status.phase, message=message,
            observed_generation=preview.metadata.generation,
        )  # fmt: skip
        found = conditions.set_condition(preview.status.conditions, asked, times.rfc3339(self.now()))
        status = msgspec.structs.replace(status, conditions=found)
        try:
            await write_status(self.client, CONFIG_SET_PREVIEWS, preview, preview.status, status)
        except errors.Conflict:
            raise Retry(AGAIN_SECONDS, "the cache is behind") from None

    def _left(self, preview: ConfigSetPreview) -> float:
        """Return for how many seconds a proposal is kept."""
        now = self.now()
        made = times.parse(preview.metadata.creation_timestamp) or now
        return (made + asking.KEPT - now).total_seconds()

    async def _forget(self, key: ObjectKey) -> None:
        """Remove the answers of a removed proposal; not all servers collect objects without an owner."""
        for task in self.tasks.find(BY_PREVIEW, key.name):
            if task.metadata.namespace == key.namespace:
                with contextlib.suppress(errors.NotFound):
                    await self.client.delete(NODE_TASKS, task.metadata.name, key.namespace)

    async def _remove(self, preview: ConfigSetPreview) -> None:
        """Delete a proposal, and its answers with it."""
        meta = preview.metadata
        with contextlib.suppress(errors.NotFound):
            options = DeleteOptions(uid=meta.uid)
            await self.client.delete(CONFIG_SET_PREVIEWS, meta.name, meta.namespace, options=options)


def _unasked(host: str, why: Reason) -> UnaskedHost:
    return UnaskedHost(name=host, reason=why, message=asking.WORDS[why])


def _task(preview: ConfigSetPreview, host: ManagedNode, name: str, deadline: datetime) -> dict[str, Any]:
    """Return a preview task. It belongs to no run: its reason has no uid, by which runs count tasks."""
    meta = preview.metadata
    proposal = {"name": meta.name, "digest": preview.spec.digest}
    owner = {
        "apiVersion": CONFIG_SET_PREVIEWS.api_version, "kind": CONFIG_SET_PREVIEWS.kind, "name": meta.name,
        "uid": meta.uid, "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip
    return {
        "metadata": {
            "name": name,
            "labels": {NODE: node_label(host.metadata.name), ANNOTATION_PREVIEW: meta.name},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": host.metadata.name,
            "steps": [{"name": asking.STEP, "preview": {"proposal": proposal}, "timeout": "2m"}],
            "deadline": times.rfc3339(deadline),
            "fencingToken": fencing.token_of(host, name),
            "reason": {"kind": CONFIG_SET_PREVIEWS.kind, "name": meta.name},
            "ttlSecondsAfterFinished": int(asking.KEPT.total_seconds()),
        },
    }


def by_preview(task: NodeTask) -> Iterable[str]:
    """Index tasks by the proposal that they are about."""
    return [one.name for one in task.metadata.owner_references if one.kind == CONFIG_SET_PREVIEWS.kind]


def on_task(change: Change[NodeTask], _caches: Caches) -> Iterator[Wake]:
    """Wake a proposal when a host has answered, or its task is gone."""
    if change.old is None or (change.new is not None and not is_ended(change.new.status)):
        return
    for name in by_preview(change.old):
        yield Wake(ObjectKey(change.key.namespace, name), SETTLE_SECONDS)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of proposals."""
    of = context.caches.of
    tasks = of(NODE_TASKS)
    tasks.add_index(BY_PREVIEW, by_preview)
    return Previews(context.client, of(CONFIG_SET_PREVIEWS), tasks, of(MANAGED_NODES), context.now).reconcile
