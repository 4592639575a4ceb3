"""Which maintenances a change wakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from nodemanager.api.audit.auditcheckpoint import AuditCheckpoint
from nodemanager.api.common import set_reports
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import (
    ANNOTATION_HOLD,
    MANAGED_NODES,
    ManagedNode,
    is_held,
    upgrading_since,
)
from nodemanager.api.maintenance import nodetask
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_VISIT,
    NODE_MAINTENANCES,
    NodeMaintenance,
)
from nodemanager.api.maintenance.nodeseries import NODE_SERIES, NodeSeries
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.controllers import audit_gate
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.node_maintenances import changing_hosts, observing
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.fleet import series
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.maintenance.plan import series_of
from nodemanager.fleet.repairs import turns
from nodemanager.fleet.rollout import on_the_way
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Change

UPGRADES: Final = "upgrades/"
"""The entry in the queue for all upgrades of a namespace; no object has this name."""
REPAIRS: Final = "repairs/"
"""The entry for all drifts that are repaired in turn."""
_COUNTED: Final = ("Alive", "Ready", "Held", "Escalated")
SETTLE_SECONDS: Final = 1.0
"""Many hosts change at about the same time; a maintenance that only waits for them looks once."""


def on_maintenance(change: Change[NodeMaintenance], _caches: Caches) -> Iterator[Wake]:
    """Wake a maintenance for changes by people, not for the status that we wrote."""
    old, new = change.old, change.new
    if new is not None and (old is None or _asked(old) != _asked(new)):
        yield Wake(change.key)


def _asked(one: NodeMaintenance) -> tuple[object, ...]:
    meta = one.metadata
    return meta.generation, meta.annotations, meta.deletion_timestamp, meta.finalizers


def on_checkpoint(change: Change[AuditCheckpoint], caches: Caches) -> Iterator[Wake]:
    """Wake all that may begin work, when the audit log becomes reliable, or stops being so."""
    if audit_gate.is_news(change):
        for one in _all(caches, change.key.namespace):
            yield Wake(key_of(one))
        for name in (UPGRADES, REPAIRS):
            yield Wake(ObjectKey(change.key.namespace, name))


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
    """Wake the maintenance whose set was changed or deleted; wake all when a change has ended."""
    before, after = change.old, change.new
    if before is not None and _is_done(before, after):
        for one in _all(caches, change.key.namespace):
            yield Wake(key_of(one), SETTLE_SECONDS)
    if before is None or (after is not None and before.metadata.generation == after.metadata.generation):
        return
    if after is not None and before.spec.enforcement != after.spec.enforcement:
        yield Wake(ObjectKey(change.key.namespace, REPAIRS))
    owners = {one.uid for one in before.metadata.owner_references}
    for one in _all(caches, change.key.namespace) if owners else ():
        if one.metadata.uid in owners:
            yield Wake(key_of(one))


def _is_done(before: ConfigSet, after: ConfigSet | None) -> bool:
    """Tell whether no host is on its way any more to a change that was under way."""
    was, now = on_the_way.of_set(before), on_the_way.of_set(after) if after is not None else None
    if was is None:
        return False
    return now is None or (was.status.next, was.status.refused) != (now.status.next, now.status.refused)


def on_template(change: Change[Any], caches: Caches) -> Iterator[Wake]:
    """Wake those that refer to a template."""
    for one in _all(caches, change.key.namespace):
        names = {use.template_ref.name for use in one.spec.operations if use.template_ref is not None}
        if change.key.name in names:
            yield Wake(key_of(one))


def on_approval(change: Change[MaintenanceApproval], _caches: Caches) -> Iterator[Wake]:
    """Wake the maintenance that is approved."""
    found = change.new or change.old
    if found is not None and found.spec.maintenance:
        yield Wake(ObjectKey(change.key.namespace, found.spec.maintenance))


def on_task(change: Change[NodeTask], _caches: Caches) -> Iterator[Wake]:
    """Wake the maintenance of a task, if the task made progress that matters."""
    old, new = change.old, change.new
    if old is not None and new is not None and _got_to(old) == _got_to(new):
        return
    found = new or old
    reason = found.spec.reason if found is not None else None
    if reason is not None and reason.kind == NODE_MAINTENANCES.kind:
        yield Wake(ObjectKey(change.key.namespace, reason.name))
    if reason is not None and reason.kind == MANAGED_NODES.kind:
        yield Wake(ObjectKey(change.key.namespace, UPGRADES))


def _got_to(task: NodeTask) -> tuple[object, ...]:
    status = task.status
    return status.phase, status.claim is None, status.step, task.metadata.deletion_timestamp


def on_host(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake the maintenance that works on a changed host, and those that could begin work because of it."""
    old, new = change.old, change.new
    namespace = change.key.namespace
    if new is not None and (old is None or _upgraded_as(old) != _upgraded_as(new)) and _is_upgraded(new):
        yield Wake(ObjectKey(namespace, UPGRADES))
    if new is not None and (old is None or _repaired_as(old) != _repaired_as(new)) and any(_repaired_as(new)):
        yield Wake(ObjectKey(namespace, REPAIRS), 0.0 if _turn_is_over(new) else SETTLE_SECONDS)
    arrives = old is not None and new is not None and _got_on(old, new, caches)
    if old is not None and new is not None and _counted_as(old) == _counted_as(new) and not arrives:
        return
    workers = {name for host in (old, new) if host is not None and (name := _worker(host))}
    for name in sorted(workers):
        yield Wake(ObjectKey(namespace, name), SETTLE_SECONDS if name == REPAIRS else 0.0)
    if old is not None and new is not None and not (arrives or _concerns_others(old, new)):
        return
    for one in _choosing(caches, namespace, [host for host in (old, new) if host is not None]):
        if one.metadata.name not in workers:
            yield Wake(key_of(one), SETTLE_SECONDS)


def _got_on(old: ManagedNode, new: ManagedNode, caches: Caches) -> bool:
    """Tell whether a host reports something else about a change that is under way."""
    if old.status.configsets == new.status.configsets:
        return False
    sets = changing_hosts.names(caches.of(CONFIG_SETS), new.metadata.namespace)
    return any(set_reports.report_of(old, one.name) != set_reports.report_of(new, one.name) for one in sets)


def _concerns_others(old: ManagedNode, new: ManagedNode) -> bool:
    """Tell whether maintenances that do not work there could decide otherwise now.

    Beginning work only takes from the budget, and continuing does not change it, so neither lets others
    begin. The end of work gives the budget back, and wakes those that wait for it.
    """
    if _judged(old) != _judged(new):
        return True
    before, after = observing.claim_of(old), observing.claim_of(new)
    return before is not None and before.holds and not (after is not None and after.holds)


def on_node(change: Change[Node], caches: Caches) -> Iterator[Wake]:
    """Wake those whose host is a Node, if it came, went, got labels, or changed whether it takes pods."""
    old, new = change.old, change.new
    if old is not None and new is not None and _taken_as(old) == _taken_as(new):
        return
    namespaces = {one.metadata.namespace for one in caches.of(NODE_MAINTENANCES).values()}
    for namespace in sorted(namespaces):
        host = caches.of(MANAGED_NODES).get(ObjectKey(namespace, change.key.name))
        worker = _worker(host) if host is not None else ""
        if worker:
            yield Wake(ObjectKey(namespace, worker))
        for one in _choosing(caches, namespace, [host] if host is not None else []):
            if one.metadata.name != worker:
                yield Wake(key_of(one), SETTLE_SECONDS)


def _all(caches: Caches, namespace: str) -> Iterator[NodeMaintenance]:
    for one in caches.of(NODE_MAINTENANCES).values():
        if one.metadata.namespace == namespace:
            yield one


def _choosing(caches: Caches, namespace: str, hosts: Sequence[ManagedNode]) -> Iterator[NodeMaintenance]:
    """Yield the maintenances that select one of the hosts, because budgets count only those.

    Those that select by labels of Nodes are included: only a look finds out which hosts they mean.
    """
    for one in _all(caches, namespace):
        reference, referred = one.spec.series_ref, None
        if reference is not None:
            known: NodeSeries | None = caches.of(NODE_SERIES).get(ObjectKey(namespace, reference.name))
            if known is None:  # no work begins until it is there, and its arrival wakes the maintenance
                continue
            referred = known.spec
        spec = series_of(one.spec, referred)
        if spec.node_selector is not None or any(series.members(spec, [host]).groups for host in hosts):
            yield one


def _judged(host: ManagedNode) -> tuple[object, ...]:
    """Return the facts that others count about a host; a repaired drift does not matter to them."""
    meta, status = host.metadata, host.status
    judged = {one.type: one.status for one in status.conditions if one.type in _COUNTED}
    return meta.uid, meta.labels, judged, is_held(host), upgrading_since(status)


def _counted_as(host: ManagedNode) -> tuple[object, ...]:
    return host.metadata.annotations.get(ANNOTATION_VISIT), *_judged(host)


def _upgraded_as(host: ManagedNode) -> tuple[object, ...]:
    """Return the facts that decide about the upgrade of a host."""
    notes, visit = host.metadata.annotations, upgrade_tasks.visit_of(host)
    due = host.status.upgrade.due if host.status.upgrade is not None else None
    return host.spec.upgrade, visit, due, notes.get(ANNOTATION_HOLD)


def _repaired_as(host: ManagedNode) -> tuple[object, ...]:
    """Return the facts that decide about turns of a host to repair drift."""
    left = host.status.left_drifts
    return (left.asks, left.used) if left is not None else (), turns.claim_of(host)


def _turn_is_over(host: ManagedNode) -> bool:
    """Tell whether a host gives back its turn, so that another one can begin; its other reports can wait."""
    claim, left = turns.claim_of(host), host.status.left_drifts
    return claim is not None and claim.holds and left is not None and left.used == claim.run


def _is_upgraded(host: ManagedNode) -> bool:
    """Tell whether the upgrade of a host may need action; marks are checked by time."""
    return any(_upgraded_as(host)) or nodetask.UPGRADES in host.metadata.annotations


def _worker(host: ManagedNode) -> str:
    claim = observing.claim_of(host)
    if not isinstance(claim, Claim):
        return ""
    if claim.repairs:
        return REPAIRS
    return UPGRADES if claim.is_upgrade else claim.maintenance


def _taken_as(node: Node) -> tuple[object, ...]:
    meta, spec = node.metadata, node.spec
    return meta.uid, meta.labels, spec.unschedulable, node.is_ready, node.mark, node.status.node_info
