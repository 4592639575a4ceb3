"""The finalizer of ConfigSets that prune.

spec.prune      ->  the set has the finalizer, unless spec.pruneTimeout is 0
it is deleted   ->  hosts see that, take back what they have, and stop reporting it
all have        ->  the finalizer goes, and with it the set
spec.pruneTimeout is over  ->  the same; missing hosts are named, and take it back when they return
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodemanager.api.common.configset import (
    CONFIG_SETS,
    FINALIZER,
    SET_METADATA,
    ConfigSet,
    is_leaving,
    keeping,
)
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.fleet import pruning
from nodemanager.kube import errors
from nodemanager.kube.objects import HasMetadata, ObjectKey, key_of
from nodemanager.kube.wording import listed
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry
from nodemanager.runtime.events import EventRecorder

SETTLE_SECONDS: Final = 0.5
"""Hosts report at about the same time."""
MAX_NAMED: Final = 20
"""How many hosts an Event names before it only counts."""


@dataclass(frozen=True, slots=True)
class Finalizing:
    """Makes deleted sets wait, and lets them go."""

    client: Client
    config_sets: Cache[ConfigSet]
    nodes: Cache[ManagedNode]
    events: EventRecorder
    now: Callable[[], datetime]

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Look at one set."""
        if key in self.config_sets.malformed:
            return await self._unreadable(key)
        config_set = self.config_sets.get(key)
        if config_set is None:
            return None
        has = FINALIZER in config_set.metadata.finalizers
        if config_set.metadata.deletion_timestamp:
            return await self._leaving(config_set) if has else None
        if has != (wanted := pruning.waits(config_set)):
            await self._write(config_set, has=wanted)
        return None

    async def _leaving(self, config_set: ConfigSet) -> ReconcileResult | None:
        namespace = config_set.metadata.namespace
        nodes = [one for one in self.nodes.values() if one.metadata.namespace == namespace]
        found = pruning.deletion(config_set, nodes, self.now())
        if not found.over:
            return ReconcileResult(found.seconds)
        if found.waiting:
            said = (
                f"not waited for any longer: {listed(list(found.waiting), MAX_NAMED)}; what they have of it"
            )
            self.events.warning(
                CONFIG_SETS, config_set, "PruneTimedOut", f"{said} is taken back when they return"
            )
        await self._write(config_set, has=False)
        return None

    async def _unreadable(self, key: ObjectKey) -> ReconcileResult | None:
        """Let an unreadable set go in its time: hosts cannot read it either, and keep everything of it."""
        try:
            found = await self.client.get(SET_METADATA, key.name, key.namespace)
        except errors.NotFound:
            return None
        if not found.metadata.deletion_timestamp or FINALIZER not in found.metadata.finalizers:
            return None
        if left := pruning.seconds_left(found, pruning.DEFAULT_SECONDS, self.now()):
            return ReconcileResult(left)
        said = "not waited for any longer: it cannot be read, so hosts take back nothing before it is gone"
        self.events.warning(CONFIG_SETS, found, "PruneTimedOut", said)
        await self._write(found, has=False)
        return None

    async def _write(self, config_set: HasMetadata, *, has: bool) -> None:
        meta, change = config_set.metadata, MergePatch({"metadata": keeping(config_set, has=has)})
        try:
            await self.client.patch(SET_METADATA, meta.name, meta.namespace, change)
        except errors.NotFound:
            pass  # it is gone
        except errors.Conflict:
            raise Retry(SETTLE_SECONDS, "somebody else wrote the set meanwhile") from None


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile."""
    caches = context.caches
    return Finalizing(
        context.client, caches.of(CONFIG_SETS), caches.of(MANAGED_NODES), context.events, context.now
    ).reconcile  # fmt: skip


def on_config_set(change: Change[ConfigSet], caches: Caches) -> Iterator[Wake]:
    """Wake a set that begins or stops pruning, is deleted, or cannot be read."""
    old, new = change.old, change.new
    is_news = new is not None and (old is None or _matters(old) != _matters(new))
    if is_news or change.key in caches.of(CONFIG_SETS).malformed:
        yield Wake(change.key)


def _matters(config_set: ConfigSet) -> tuple[object, ...]:
    meta, spec = config_set.metadata, config_set.spec
    return spec.prune, spec.prune_timeout, meta.deletion_timestamp, FINALIZER in meta.finalizers


def on_node(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake the sets that wait for their end when a host reports."""
    for one in caches.of(CONFIG_SETS).values():
        if is_leaving(one) and one.metadata.namespace == change.key.namespace:
            yield Wake(key_of(one), SETTLE_SECONDS)
