"""One look at one ConfigSet: its newest revision, how far that may be, and which old ones are not needed.

Nothing is remembered between two looks but what was seen, since when nothing went unseen, and when counts
were written last. A revision is made before it is published, under a name that follows from its number, so
whoever looks next finds it; what is published is written over what was read only.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, RESTART, ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.common.rollout import RevisionRef, Rollout, RolloutStatus, is_staged
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.registration import ControllerContext
from nodemanager.controllers.rollouts import revisions
from nodemanager.controllers.rollouts.steady_clock import SteadyClock
from nodemanager.fleet.rollout import beginning, deciding, facts, witness
from nodemanager.fleet.rollout.deciding import Decision
from nodemanager.fleet.rollout.facts import Progress, RolloutHost
from nodemanager.fleet.rollout.looking import Look
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import errors, times
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry

AGAIN_SECONDS: Final = 0.2
COUNTS_SECONDS: Final = 10.0
"""So often counts and words are written at most: every agent reads each write, with the whole set."""
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
    seen: dict[ObjectKey, Witness] = field(default_factory=dict)
    written: dict[ObjectKey, float] = field(default_factory=dict)
    """When a status was written, by the clock that never jumps."""

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Look at one set."""
        config_set = self.config_sets.get(key)
        if config_set is None or config_set.metadata.deletion_timestamp:
            self.seen.pop(key, None)
            self.written.pop(key, None)
            return None  # its revisions go with it
        known = self.revisions.find(revisions.BY_SET, config_set.metadata.uid)
        current = revisions.current(config_set, known)
        try:
            if current is None:
                current = await revisions.create(self.client, config_set, known)
            nodes = [one for one in self.nodes.values() if one.metadata.namespace == key.namespace]
            ref, look = configsetrevision.reference(current), self._look(config_set)
            others = () if config_set.status.rollout else revisions.readable(known)
            decision = decide(config_set, ref, nodes, look, others)
            self.seen[key] = decision.witness
            if (left := self._quiet_for(config_set, decision.status)) > 0:
                return ReconcileResult(
                    left if decision.again is None else max(0.0, min(left, decision.again))
                )
            status = msgspec.structs.replace(config_set.status, rollout=decision.status)
            await write_status(self.client, CONFIG_SETS, config_set, config_set.status, status)
            self.written[key] = asyncio.get_running_loop().time()
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
        known = self.seen.get(key_of(config_set), Witness())
        return Look(now, watched, edited, known if watched > 0 else Witness())

    def _quiet_for(self, config_set: ConfigSet, new: RolloutStatus) -> float:
        """Return for how many seconds a status is not written yet, of which only counts or words are new."""
        old = config_set.status.rollout
        if old is None or old == new or not is_only_told(old, new):
            return 0.0
        now = asyncio.get_running_loop().time()
        return self.written.get(key_of(config_set), -math.inf) + COUNTS_SECONDS - now

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


def is_only_told(old: RolloutStatus, new: RolloutStatus) -> bool:
    """Tell whether a status differs only in what is for people: its words, and how many hosts are healthy."""
    failed = [one.counts.failed if one.counts else 0 for one in (old, new)]
    same = msgspec.structs.replace(old, message=new.message, counts=new.counts) == new
    return same and failed[0] == failed[1]


def decide(
    config_set: ConfigSet,
    current: RevisionRef,
    nodes: Sequence[ManagedNode],
    look: Look,
    known: Sequence[RevisionRef] = (),
) -> Decision:
    """Return what is to be published of a set; pure. `known` are revisions that were there before."""
    meta, rollout, published = config_set.metadata, config_set.spec.rollout, config_set.status.rollout
    restart = meta.annotations.get(RESTART, "")[:MAX_RESTART]
    old = beginning.seen(published, meta.generation, restart, look.now)
    if published is None:
        meant = [one for one in nodes if choosing.is_meant(current, one.metadata.labels)]
        if facts.had_by_all(meta, current.digest, meant):
            old = msgspec.structs.replace(old, stable=current)  # hosts had it before there were revisions
        else:
            old = msgspec.structs.replace(old, stable=facts.had_by_most(meta.name, known, nodes))
    made = (times.parse(one.metadata.creation_timestamp) for one in nodes)
    newest = max((one for one in made if one is not None), default=look.now)
    base = beginning.begin(rollout, old, current, look.now, newest)
    if rollout is None or not is_staged(rollout):
        return Decision(base)
    seen, hosts = _judged(config_set, rollout, base, nodes, look)
    remade = not hosts and any(facts.is_concerned(base, one) for one in nodes)
    if base.next is not None and remade and not beginning.is_stopped(base):
        base = beginning.started(base, base.next, look.now, newest)  # all hosts were made again since
        seen, hosts = _judged(config_set, rollout, base, nodes, look)
    found = deciding.decide(rollout, base, hosts, look._replace(witness=seen))
    return found._replace(witness=seen)


def _judged(
    config_set: ConfigSet, rollout: Rollout, base: RolloutStatus, nodes: Sequence[ManagedNode], look: Look
) -> tuple[Witness, list[RolloutHost]]:
    """Return the hosts of a rollout, and what this process knows of them after this look."""
    known = witness.of(look.witness, base)
    hosts = facts.of_hosts(
        config_set.metadata.name, base, nodes, witness=known, now=look.now, on_silence=rollout.on_silence
    )
    if base.next is None:
        return known, hosts
    proven = [one.name for one in hosts if one.progress in (Progress.HEALTHY, Progress.PUT_OFF)]
    unproven = [one.name for one in hosts if one.progress is Progress.UNPROVEN]
    fresh = [one for one in nodes if one.metadata.name not in known.calm]
    return witness.after(known, proven, unproven, facts.calm(fresh), look.now), hosts


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of rollouts."""
    of = context.caches.of
    found = of(CONFIG_SET_REVISIONS)
    found.add_index(revisions.BY_SET, revisions.by_set)
    return Rollouts(context.client, of(CONFIG_SETS), of(MANAGED_NODES), found, context.now).reconcile
