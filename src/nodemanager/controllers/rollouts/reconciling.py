"""One look at one ConfigSet: its newest revision, how far that may be, and which old ones are not needed.

Nothing is remembered between two looks but since when nothing went unseen. A revision is made before it is
published, under a name that follows from its number, so whoever looks next finds it; what is published is
written over what was read only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, RESTART, ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.common.rollout import RevisionRef, RolloutStatus, is_staged
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.registration import ControllerContext
from nodemanager.controllers.rollouts import revisions
from nodemanager.controllers.rollouts.steady_clock import SteadyClock
from nodemanager.fleet.rollout import beginning, deciding, facts
from nodemanager.fleet.rollout.deciding import Decision
from nodemanager.fleet.rollout.looking import Look
from nodemanager.kube import errors, times
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry

AGAIN_SECONDS: Final = 0.2
MAX_RESTART: Final = 64
"""Characters of the annotation that has it begin again, as in the schema of the status."""


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Looks at ConfigSets."""

    client: Client
    config_sets: Cache[ConfigSet]
    nodes: Cache[ManagedNode]
    revisions: Cache[ConfigSetRevision]
    """With the index `revisions.BY_SET`."""
    now: Callable[[], datetime]
    clock: SteadyClock = field(default_factory=SteadyClock)

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Look at one set."""
        config_set = self.config_sets.get(key)
        if config_set is None or config_set.metadata.deletion_timestamp:
            return None  # its revisions go with it
        known = self.revisions.find(revisions.BY_SET, config_set.metadata.uid)
        current = revisions.current(config_set, known)
        try:
            if current is None:
                current = await revisions.create(self.client, config_set, known)
            nodes = [one for one in self.nodes.values() if one.metadata.namespace == key.namespace]
            decision = decide(config_set, configsetrevision.reference(current), nodes, self._look(config_set))
            status = msgspec.structs.replace(config_set.status, rollout=decision.status)
            await write_status(self.client, CONFIG_SETS, config_set, config_set.status, status)
        except (errors.Conflict, errors.AlreadyExists):
            raise Retry(AGAIN_SECONDS, "the cache is behind, or somebody else was faster") from None
        await self._collect(config_set, decision.status, known, nodes)
        return None if decision.again is None else ReconcileResult(max(0.0, decision.again))

    def _look(self, config_set: ConfigSet) -> Look:
        now, published = self.now(), config_set.status.rollout
        monotonic = asyncio.get_running_loop().time()
        interrupted = self.nodes.interrupted or self.config_sets.interrupted
        steady = max(self.nodes.steady_since, self.config_sets.steady_since)
        watched = self.clock.watched(now, monotonic, monotonic if interrupted else steady)
        edited = published is not None and published.observed_generation != config_set.metadata.generation
        return Look(now, watched, edited)

    async def _collect(
        self,
        config_set: ConfigSet,
        status: RolloutStatus,
        known: Sequence[ConfigSetRevision],
        nodes: Sequence[ManagedNode],
    ) -> None:
        """Delete old revisions that nobody needs."""
        for name in revisions.needless(config_set, status, known, nodes):
            try:
                await self.client.delete(CONFIG_SET_REVISIONS, name, config_set.metadata.namespace)
            except errors.NotFound:
                continue


def decide(config_set: ConfigSet, current: RevisionRef, nodes: Sequence[ManagedNode], look: Look) -> Decision:
    """Return what is to be published of a set; pure."""
    meta, rollout, published = config_set.metadata, config_set.spec.rollout, config_set.status.rollout
    restart = meta.annotations.get(RESTART, "")[:MAX_RESTART]
    old = beginning.seen(published, meta.generation, restart, look.now)
    if published is None:
        meant = [one for one in nodes if choosing.is_meant(current, one.metadata.labels)]
        if facts.had_by_all(meta, current.digest, meant):
            old = msgspec.structs.replace(old, stable=current)  # hosts had it before there were revisions
    made = (times.parse(one.metadata.creation_timestamp) for one in nodes)
    newest = max((one for one in made if one is not None), default=look.now)
    base = beginning.begin(rollout, old, current, look.now, newest)
    if rollout is None or not is_staged(rollout):
        return Decision(base)
    hosts = facts.of_hosts(meta.name, base, nodes)
    if base.next is not None and not hosts and any(facts.is_concerned(base, one) for one in nodes):
        base = beginning.started(base, base.next, look.now, newest)  # all hosts were made again since
        hosts = facts.of_hosts(meta.name, base, nodes)
    return deciding.decide(rollout, base, hosts, look)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of rollouts."""
    of = context.caches.of
    found = of(CONFIG_SET_REVISIONS)
    found.add_index(revisions.BY_SET, revisions.by_set)
    return Rollouts(context.client, of(CONFIG_SETS), of(MANAGED_NODES), found, context.now).reconcile
