"""Which maintenances a change wakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode, is_held, upgrading_since
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_VISIT,
    NODE_MAINTENANCES,
    NodeMaintenance,
)
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Change

SETTLE_SECONDS: Final = 1.0
"""Many hosts change at about the same time; who only waits for them looks once."""


def on_maintenance(change: Change[NodeMaintenance], _caches: Caches) -> Iterator[Wake]:
    """Wake a maintenance for what people say, not for the status that we wrote."""
    old, new = change.old, change.new
    if new is not None and (old is None or _asked(old) != _asked(new)):
        yield Wake(change.key)


def _asked(one: NodeMaintenance) -> tuple[object, ...]:
    meta = one.metadata
    return meta.generation, meta.annotations, meta.deletion_timestamp, meta.finalizers


def on_window(change: Change[Any], caches: Caches) -> Iterator[Wake]:
    """Wake those that refer to a window."""
    for one in _all(caches, change.key.namespace):
        if one.spec.window_ref is not None and one.spec.window_ref.name == change.key.name:
            yield Wake(key_of(one))


def on_series(change: Change[Any], caches: Caches) -> Iterator[Wake]:
    """Wake those that refer to a series."""
    for one in _all(caches, change.key.namespace):
        if one.spec.series_ref is not None and one.spec.series_ref.name == change.key.name:
            yield Wake(key_of(one))


def on_config_set(change: Change[ConfigSet], caches: Caches) -> Iterator[Wake]:
    """Wake the maintenance whose set somebody changed or deleted."""
    before, after = change.old, change.new
    if before is None or (after is not None and before.metadata.generation == after.metadata.generation):
        return
    owners = {one.uid for one in before.metadata.owner_references}
    for one in _all(caches, change.key.namespace) if owners else ():
        if one.metadata.uid in owners:
            yield Wake(key_of(one))


def on_template(change: Change[Any], caches: Caches) -> Iterator[Wake]:
    """Wake those that refer to a template."""
    for one in _all(caches, change.key.namespace):
        names = {use.template_ref.name for use in one.spec.operations if use.template_ref is not None}
        if change.key.name in names:
            yield Wake(key_of(one))


def on_approval(change: Change[MaintenanceApproval], _caches: Caches) -> Iterator[Wake]:
    """Wake the maintenance that somebody says yes to."""
    found = change.new or change.old
    if found is not None:
        yield Wake(ObjectKey(change.key.namespace, found.spec.maintenance))


def on_task(change: Change[NodeTask], _caches: Caches) -> Iterator[Wake]:
    """Wake the maintenance that a task is part of."""
    found = change.new or change.old
    reason = found.spec.reason if found is not None else None
    if reason is not None and reason.kind == NODE_MAINTENANCES.kind:
        yield Wake(ObjectKey(change.key.namespace, reason.name))


def on_host(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake who works on a host that changed; the others if it counts otherwise for them."""
    old, new = change.old, change.new
    if old is not None and new is not None and _counted_as(old) == _counted_as(new):
        return
    workers = {_worker(host) for host in (old, new) if host is not None}
    for one in _all(caches, change.key.namespace):
        yield Wake(key_of(one), 0.0 if one.metadata.name in workers else SETTLE_SECONDS)


def on_node(change: Change[Node], caches: Caches) -> Iterator[Wake]:
    """Wake all if a Node came, went, or takes pods otherwise than before."""
    old, new = change.old, change.new
    if old is not None and new is not None and _taken_as(old) == _taken_as(new):
        return
    for one in caches.of(NODE_MAINTENANCES).values():
        yield Wake(key_of(one), SETTLE_SECONDS)


def _all(caches: Caches, namespace: str) -> Iterator[NodeMaintenance]:
    for one in caches.of(NODE_MAINTENANCES).values():
        if one.metadata.namespace == namespace:
            yield one


def _counted_as(host: ManagedNode) -> tuple[object, ...]:
    """Return what others count of a host; a drift that was repaired is nothing to them."""
    meta, status = host.metadata, host.status
    judged = {one.type: one.status for one in status.conditions if one.type in ("Alive", "Ready", "Held")}
    return (
        meta.uid, meta.labels, meta.annotations.get(ANNOTATION_VISIT), judged, is_held(host),
        upgrading_since(status),
    )  # fmt: skip


def _worker(host: ManagedNode) -> str:
    claim = claims.decode(host.metadata.annotations.get(ANNOTATION_VISIT))
    return claim.maintenance if isinstance(claim, Claim) else ""


def _taken_as(node: Node) -> tuple[object, ...]:
    return node.metadata.uid, node.spec.unschedulable, node.is_ready, node.mark, node.status.node_info
