"""Which ConfigSets a change wakes: those whose rollout it may move on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from nodemanager.api.common import choosing, set_reports
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import RESTART, ConfigSetRevision
from nodemanager.api.common.managednode import ManagedNode, is_held, is_silent
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES, RolloutPolicy
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.fleet.rollout import host_views, visitors
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Change

SETTLE_SECONDS: Final = 0.5
"""Hosts report at about the same time, so one look handles their reports."""
TROUBLES: Final = (*host_views.TROUBLES, conditions.READY)


def on_config_set(change: Change[ConfigSet], caches: Caches) -> Iterator[Wake]:
    """Wake a set with a new spec or a rollout in another state; reports of hosts do not wake it here.

    The sets that it moved with until now are woken, too.
    """
    old, new = change.old, change.new
    if new is not None and (old is None or _concerned(old) != _concerned(new)):
        yield Wake(change.key)
    before = _group(old) if old is not None else ""
    if before and (new is None or _group(new) != before):
        for one in caches.of(CONFIG_SETS).values():
            if one.metadata.namespace == change.key.namespace and _group(one) == before:
                yield Wake(key_of(one))


def _group(one: ConfigSet) -> str:
    return "" if one.metadata.deletion_timestamp else choosing.group_of(one)


def _concerned(one: ConfigSet) -> tuple[object, ...]:
    meta = one.metadata
    return meta.generation, meta.labels, meta.annotations.get(RESTART), one.status.rollout


def on_revision(change: Change[ConfigSetRevision], _caches: Caches) -> Iterator[Wake]:
    """Wake the set of a removed revision: hosts may need it, so it is made again."""
    if change.new is None and change.old is not None:
        yield Wake(ObjectKey(change.key.namespace, change.old.spec.config_set))


def on_policy(change: Change[RolloutPolicy], caches: Caches) -> Iterator[Wake]:
    """Wake the sets of a namespace that follow its default."""
    for one in caches.of(CONFIG_SETS).values():
        if one.metadata.namespace == change.key.namespace and one.spec.rollout is None:
            yield Wake(key_of(one))


def on_window(change: Change[Any], caches: Caches) -> Iterator[Wake]:
    """Wake the sets whose rollout waits for a window, or would have to."""
    default = caches.of(ROLLOUT_POLICIES).get(ObjectKey(change.key.namespace, DEFAULT))
    for one in caches.of(CONFIG_SETS).values():
        rollout = one.spec.rollout or (default.spec if default is not None else None)
        named = rollout.window_ref.name if rollout is not None and rollout.window_ref is not None else ""
        if key_of(one).namespace == change.key.namespace and named == change.key.name:
            yield Wake(key_of(one))


def on_approval(change: Change[MaintenanceApproval], _caches: Caches) -> Iterator[Wake]:
    """Wake the set that is approved, or whose approval was withdrawn."""
    found = change.new or change.old
    if found is not None and found.spec.config_set:
        yield Wake(ObjectKey(change.key.namespace, found.spec.config_set))


def on_node(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake the sets in a rollout or undoing about which a host reports something new."""
    for one in caches.of(CONFIG_SETS).values():
        status = one.status.rollout
        if one.metadata.namespace != change.key.namespace or not choosing.in_stages(one):
            continue
        if status is None or (status.next is None and status.refused is None):
            continue
        name = one.metadata.name
        if change.old is None or change.new is None or _news(change.old, name) != _news(change.new, name):
            yield Wake(key_of(one), SETTLE_SECONDS)


def _news(node: ManagedNode, config_set: str) -> tuple[object, ...]:
    heard = bool(node.status.release or node.status.agent_version)
    report = set_reports.report_of(node, config_set)
    troubles = [(one.type, one.status, one.reason) for one in node.status.conditions if one.type in TROUBLES]
    kept = is_held(node), node.spec.hold, visitors.named(node)
    return node.metadata.labels, is_silent(node), kept, heard, report, troubles
