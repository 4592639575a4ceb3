"""Which ConfigSets have to be looked at after a change: those whose rollout it may move on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodemanager.api.common import set_reports
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import RESTART, ConfigSetRevision
from nodemanager.api.common.managednode import ManagedNode, is_held, is_silent
from nodemanager.api.common.rollout import is_staged
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.fleet.rollout import facts
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Change

SETTLE_SECONDS: Final = 0.5
"""Hosts report at about the same time; their reports are looked at together."""
TROUBLES: Final = (*facts.TROUBLES, conditions.READY)


def on_config_set(change: Change[ConfigSet], _caches: Caches) -> Iterator[Wake]:
    """Wake a set that says something else, or whose rollout is elsewhere; not for what hosts report."""
    if change.new is None:
        return
    if change.old is None or _concerned(change.old) != _concerned(change.new):
        yield Wake(change.key)


def _concerned(one: ConfigSet) -> tuple[object, ...]:
    meta = one.metadata
    return meta.generation, meta.labels, meta.annotations.get(RESTART), one.status.rollout


def on_revision(change: Change[ConfigSetRevision], _caches: Caches) -> Iterator[Wake]:
    """Wake the set of a revision that somebody removed: what hosts need is there, or is made again."""
    if change.new is None and change.old is not None:
        yield Wake(ObjectKey(change.key.namespace, change.old.spec.config_set))


def on_node(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake the sets that are being rolled out or undone, and of which a host has news."""
    for one in caches.of(CONFIG_SETS).values():
        status = one.status.rollout
        if one.metadata.namespace != change.key.namespace or not is_staged(one.spec.rollout):
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
    kept = is_held(node), node.spec.hold, node.metadata.annotations.get(ANNOTATION_VISIT)
    return node.metadata.labels, is_silent(node), kept, heard, report, troubles
