"""Writes the result of a look: status, Events, metrics, finalizer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import msgspec

from nodemanager.api.maintenance.maintenance_status import RunState, WaitReason
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_PREVIEW,
    ANNOTATION_RETRY,
    FINALIZER,
    NODE_MAINTENANCES,
    NodeMaintenance,
)
from nodemanager.client.calls import DeleteOptions
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import write_status
from nodemanager.controllers.node_maintenances.status import recording
from nodemanager.controllers.node_maintenances.status.recording import StatusInputs
from nodemanager.controllers.registration import ControllerContext
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, key_of

_STAGES: Final = ("waiting", "running", "succeeded", "failed", "skipped")


class MaintenanceWriter:
    """The only writer of NodeMaintenances."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._events = context.events
        self._behind: dict[ObjectKey, str] = {}
        """The version that our last write changed: a cache that still has it is behind."""
        self._runs = context.metrics.counter(
            "nodemanager_maintenance_runs_total", "Runs of maintenances that have ended.", ("outcome",)
        )
        self._counts = context.metrics.gauge(
            "nodemanager_maintenance_hosts", "Hosts of the run under way.", ("maintenance", "stage")
        )
        self._waits = context.metrics.gauge(
            "nodemanager_maintenance_waiting", "Hosts that wait, by reason code.", ("maintenance", "reason")
        )

    def is_ahead_of(self, maintenance: NodeMaintenance) -> bool:
        """Tell whether we have written a newer status than this one."""
        return self._behind.get(key_of(maintenance)) == maintenance.metadata.resource_version

    async def write(self, record: StatusInputs) -> None:
        """Write the status after a look, and report changes."""
        maintenance = record.maintenance
        wanted = recording.status_of(record)
        for one in recording.news(maintenance.status, wanted):
            self._tell(maintenance, one)
        if await write_status(self._client, NODE_MAINTENANCES, maintenance, maintenance.status, wanted):
            self._behind[key_of(maintenance)] = maintenance.metadata.resource_version
        if wanted.hosts is not None:
            for stage in _STAGES:
                count = float(getattr(wanted.hosts, stage))
                self._counts.labels(maintenance.metadata.name, stage).set(count)
        self._count_waits(maintenance.metadata.name, wanted.waiting, maintenance.status.waiting)
        if record.ended is not None:
            self._runs.labels(record.ended.outcome).inc()

    async def retry(self, maintenance: NodeMaintenance, run: RunState) -> None:
        """Let a run go on: first reset the failures, then remove the request."""
        wanted = msgspec.structs.replace(maintenance.status, run=run)
        await write_status(self._client, NODE_MAINTENANCES, maintenance, maintenance.status, wanted)
        meta = maintenance.metadata
        body = MergePatch({"metadata": {"annotations": {ANNOTATION_RETRY: None}}})
        await self._client.patch(NODE_MAINTENANCES, meta.name, meta.namespace, body)

    async def answered(self, maintenance: NodeMaintenance, news: recording.News) -> None:
        """Remove the request for a preview, and report the result."""
        if await self._patch_meta(maintenance, {"annotations": {ANNOTATION_PREVIEW: None}}):
            self._behind[key_of(maintenance)] = maintenance.metadata.resource_version
        self._tell(maintenance, news)

    async def keep(self, maintenance: NodeMaintenance) -> None:
        """Keep a maintenance until we let it go, also when it is deleted."""
        await self._patch_meta(maintenance, {"finalizers": [*maintenance.metadata.finalizers, FINALIZER]})

    async def let_go(self, maintenance: NodeMaintenance) -> None:
        """Let a deleted maintenance go."""
        left = [one for one in maintenance.metadata.finalizers if one != FINALIZER]
        await self._patch_meta(maintenance, {"finalizers": left})
        for stage in _STAGES:
            self._counts.remove(maintenance.metadata.name, stage)
        self._count_waits(maintenance.metadata.name, (), maintenance.status.waiting)

    async def expire(self, maintenance: NodeMaintenance) -> None:
        """Delete a maintenance whose time is over, unless it was just changed."""
        meta = maintenance.metadata
        exactly = DeleteOptions(uid=meta.uid, resource_version=meta.resource_version)
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(NODE_MAINTENANCES, meta.name, meta.namespace, options=exactly)

    def forget(self, key: ObjectKey) -> None:
        """Forget a maintenance that is gone."""
        self._behind.pop(key, None)

    def _count_waits(self, name: str, new: Sequence[WaitReason], old: Sequence[WaitReason]) -> None:
        for one in new:
            self._waits.labels(name, one.reason).set(one.hosts)
        for reason in {one.reason for one in old} - {one.reason for one in new}:
            self._waits.remove(name, reason)

    def _tell(self, maintenance: NodeMaintenance, news: recording.News) -> None:
        tell = self._events.warning if news.bad else self._events.normal
        tell(NODE_MAINTENANCES, maintenance, news.reason, news.message)

    async def _patch_meta(self, maintenance: NodeMaintenance, changes: dict[str, object]) -> bool:
        """Change metadata; return whether that changed the object."""
        meta = maintenance.metadata
        body = MergePatch({"metadata": {"resourceVersion": meta.resource_version, **changes}})
        written = await self._client.patch(NODE_MAINTENANCES, meta.name, meta.namespace, body)
        return written.metadata.resource_version != meta.resource_version
