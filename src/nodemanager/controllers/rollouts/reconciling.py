"""One look at one ConfigSet, or at those that move together: the newest revision, how far that may be, and
which old ones are not needed.

Nothing is remembered between two looks but what was seen, since when nothing went unseen, how hosts were
judged that said nothing since, and when counts were written last. A revision is made before it is published,
under a name that follows from its number, so the next look finds it; what is published is written over
what was read only.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.common.rollout import WAITING, RevisionRef, RolloutStatus, is_staged
from nodemanager.api.common.rollout_groups import MAX_MEMBERS
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.gate_asking import Asker
from nodemanager.controllers.registration import ControllerContext
from nodemanager.controllers.rollouts import membership, revisions, waking
from nodemanager.controllers.rollouts.following import Defaults
from nodemanager.controllers.rollouts.gating import GatedRollout, GateReader
from nodemanager.controllers.rollouts.looked_at import LookedAt, asked_about, asked_changes, in_order, parted
from nodemanager.controllers.rollouts.steady_clock import SteadyClock
from nodemanager.fleet.rollout import beginning, grouping, judging, telling
from nodemanager.fleet.rollout.deciding import RolloutDecision
from nodemanager.fleet.rollout.gates import LOOK_SECONDS
from nodemanager.fleet.rollout.grouping import GroupDecision
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.remembering import HostMemory, RolloutPart
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry

AGAIN_SECONDS: Final = 0.2
COUNTS_SECONDS: Final = 10.0
"""Counts and texts are written at most this often: every agent reads each write, with the whole set."""


class _CannotKeep(Exception):
    """There is no revision of a set's content, so no decision is possible; the message says why."""


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Looks at ConfigSets; those that move together are looked at together."""

    client: Client
    config_sets: Cache[ConfigSet]
    nodes: Cache[ManagedNode]
    revisions: Cache[ConfigSetRevision]
    """With the index `revisions.BY_SET`."""
    defaults: Defaults
    gates: GateReader
    now: Callable[[], datetime]
    wake: Callable[[ObjectKey], None]
    """Wakes another set."""
    clock: SteadyClock = field(default_factory=SteadyClock)
    seen: dict[ObjectKey, Witness] = field(default_factory=dict)
    judged: dict[ObjectKey, HostMemory] = field(default_factory=dict)
    """Judgements of rollouts that are under way."""
    written: dict[ObjectKey, float] = field(default_factory=dict)
    """When a status was written, by the monotonic clock."""
    over: dict[ObjectKey, str] = field(default_factory=dict)
    """The version over which the status of a group's set was written: a cache that still has it is old."""

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Look at one set, or at all that move with it."""
        config_set = self.config_sets.get(key)
        if config_set is None or config_set.metadata.deletion_timestamp:
            self.seen.pop(key, None)
            self.judged.pop(key, None)
            self.written.pop(key, None)
            self.over.pop(key, None)
            return None  # its revisions are removed with it
        default = self.defaults.policies.get(ObjectKey(key.namespace, DEFAULT))
        sets = membership.together(config_set, self.config_sets.values(), default)
        if (first := key_of(sets[0])) != key:
            self.judged.pop(key, None)
            self.wake(first)
            return None
        try:
            return await self._look_at(sets)
        except _CannotKeep as error:
            await self._tell(sets, RolloutReason.REVISION_TOO_LARGE, str(error))
            return ReconcileResult(LOOK_SECONDS)
        except (errors.Conflict, errors.AlreadyExists):
            raise Retry(AGAIN_SECONDS, "the cache is behind, or somebody else was faster") from None

    async def _look_at(self, sets: Sequence[ConfigSet]) -> ReconcileResult | None:
        if len(sets) > MAX_MEMBERS:
            said = f"group has {len(sets)} ConfigSets, and at most {MAX_MEMBERS} move together"
            await self._tell(sets, RolloutReason.GROUP_TOO_LARGE, said)
            return None
        if any(self.over.get(key_of(one)) == one.metadata.resource_version for one in sets):
            # After the first write the group looks half done: a decision from there might differ.
            raise Retry(AGAIN_SECONDS, "the cache does not have yet what was written last")
        looked = [await self._read(one) for one in sets]
        # Usually one pass; but the API may have a newer default than the cache.
        found = [await self._go_on(each) for each in parted(looked)]
        again = [one.requeue_after for one in found if one is not None and one.requeue_after is not None]
        return ReconcileResult(min(again)) if again else None

    async def _read(self, config_set: ConfigSet) -> LookedAt:
        """Read the present content of a set; new content becomes a revision."""
        known = self.revisions.find(revisions.BY_SET, config_set.metadata.uid)
        current = revisions.current(config_set, known)
        if current is None:
            try:
                current = await revisions.create(self.client, config_set, known)
            except revisions.RevisionTooLarge as error:
                name = config_set.metadata.name
                said = f"what {name} says now cannot be kept as a revision: {error}"
                raise _CannotKeep(said) from error
        followed = await self.defaults.of(config_set, configsetrevision.reference(current).digest)
        return LookedAt(config_set, known, current, followed)

    async def _go_on(self, looked: Sequence[LookedAt]) -> ReconcileResult | None:
        """Decide about sets that move together, or about one, and publish the result."""
        key = key_of(looked[0].config_set)
        nodes = [one for one in self.nodes.values() if one.metadata.namespace == key.namespace]
        about = asked_about(looked)
        look = await self._look(key, looked, about, nodes)
        found = decide_all(looked, nodes, look)
        told = {one.name: one.followed.told(found.statuses[one.name]) for one in looked}
        self.seen[key] = found.witness
        if not any(one.next or one.refused for one in told.values()):
            self.judged.pop(key, None)
        quiet = self._quiet_for(key, looked, told)
        if quiet <= 0:
            for one in in_order(looked, told):
                old = one.config_set.status
                status = msgspec.structs.replace(old, rollout=told[one.name])
                is_new = await write_status(self.client, CONFIG_SETS, one.config_set, old, status)
                if is_new and one.group:
                    self.over[key_of(one.config_set)] = one.config_set.metadata.resource_version
            self.written[key] = asyncio.get_running_loop().time()
        again = self.gates.ask(about, nodes, told[looked[0].name], found.again)
        if quiet > 0:
            return ReconcileResult(quiet if again is None else max(0.0, min(quiet, again)))
        for one in looked:
            await self._collect(one.config_set, told[one.name], one.known, nodes)
        return None if again is None else ReconcileResult(max(0.0, again))

    async def _tell(self, sets: Sequence[ConfigSet], reason: RolloutReason, said: str) -> None:
        """Report why sets cannot be rolled out; without a decision, hosts keep what they have."""
        for one in sets:
            spec, old = one.spec, one.status.rollout or RolloutStatus()
            digest = configsetrevision.digest_of(one.metadata.labels, configsetrevision.content_of(spec))
            followed = await self.defaults.of(one, digest)
            told = telling.in_phase(old, WAITING, reason, said, self.now())
            status = msgspec.structs.replace(one.status, rollout=followed.told(told))
            with contextlib.suppress(errors.Conflict):  # the writer's change causes the next look
                await write_status(self.client, CONFIG_SETS, one, one.status, status)

    async def _look(
        self, key: ObjectKey, looked: Sequence[LookedAt], about: GatedRollout, nodes: Sequence[ManagedNode]
    ) -> RolloutLook:
        now, monotonic = self.now(), asyncio.get_running_loop().time()
        interrupted = self.nodes.interrupted or self.config_sets.interrupted
        steady = max(self.nodes.steady_since, self.config_sets.steady_since)
        watched = self.clock.watched(now, monotonic, monotonic if interrupted else steady)
        known = self.seen.get(key, Witness()) if watched > 0 else Witness()
        gates = await self.gates.read(about, asked_changes(looked), nodes, now)
        gates = gates._replace(gone=any(one.followed.gone for one in looked))
        edited, memory = (
            any(one.followed.is_edited for one in looked),
            self.judged.setdefault(key, HostMemory()),
        )
        return RolloutLook(now, watched, edited, known, gates, memory)

    def _quiet_for(
        self, key: ObjectKey, looked: Sequence[LookedAt], told: Mapping[str, RolloutStatus]
    ) -> float:
        """Return for how many seconds statuses with only new counts or texts are not written yet."""
        both = [(one.config_set.status.rollout, told[one.name]) for one in looked]
        news = [(old, new) for old, new in both if old != new]
        if not news or any(old is None or not is_only_told(old, new) for old, new in news):
            return 0.0
        return self.written.get(key, -math.inf) + COUNTS_SECONDS - asyncio.get_running_loop().time()

    async def _collect(
        self,
        config_set: ConfigSet,
        status: RolloutStatus,
        known: Sequence[ConfigSetRevision],
        nodes: Sequence[ManagedNode],
    ) -> None:
        """Delete old revisions that are not needed."""
        for name in revisions.needless(config_set, status, known, nodes):
            try:
                await self.client.delete(CONFIG_SET_REVISIONS, name, config_set.metadata.namespace)
            except errors.NotFound:
                continue


def is_only_told(old: RolloutStatus, new: RolloutStatus) -> bool:
    """Tell whether two statuses differ only in parts for people: texts, and the number of healthy hosts."""
    failed = [one.counts.failed if one.counts else 0 for one in (old, new)]
    same = msgspec.structs.replace(old, message=new.message, counts=new.counts) == new
    return same and failed[0] == failed[1]


def decide_all(looked: Sequence[LookedAt], nodes: Sequence[ManagedNode], look: RolloutLook) -> GroupDecision:
    """Return what each set has to publish, by name: of all sets that move together, or of a single one."""
    members = [one.member for one in looked]
    if looked[0].group:
        return grouping.decide(looked[0].group, members, nodes, look)
    (only,) = members
    found = decide(only.config_set, only.current, nodes, look, only.known)
    return GroupDecision({only.name: found.status}, found.again, found.witness)


def decide(
    config_set: ConfigSet,
    current: RevisionRef,
    nodes: Sequence[ManagedNode],
    look: RolloutLook,
    known: Sequence[RevisionRef] = (),
) -> RolloutDecision:
    """Return what a set has to publish. Pure. `known` are revisions that existed before."""
    meta, rollout, published = config_set.metadata, config_set.spec.rollout, config_set.status.rollout
    old = beginning.seen(published, meta.generation, grouping.restart_of(meta), look.now)
    if published is None:
        old = judging.first_seen(meta, old, current, known, nodes)
    if old.group is not None:
        old = grouping.alone(old, look.now)
    base = beginning.begin(rollout, old, current, look.now, judging.newest(nodes, look.now))
    if rollout is None or not is_staged(rollout):
        return RolloutDecision(base)
    return judging.go_on(rollout, base, lambda status: [RolloutPart(meta.name, status)], nodes, look)


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of rollouts."""
    of = context.caches.of
    found = of(CONFIG_SET_REVISIONS)
    found.add_index(revisions.BY_SET, revisions.by_set)
    queue = context.queue  # answers about many hosts come at about the same time, as reports do
    asker = Asker(context.client, context.now, lambda key: queue.add_after(key, waking.SETTLE_SECONDS))
    gates = GateReader(
        context.client,
        of(MAINTENANCE_WINDOWS),
        of(NODES),
        of(MAINTENANCE_APPROVALS),
        asker,
        checkpoints=of(AUDIT_CHECKPOINTS),
    )
    defaults = Defaults(context.client, of(ROLLOUT_POLICIES))
    sets, nodes = of(CONFIG_SETS), of(MANAGED_NODES)
    return Rollouts(context.client, sets, nodes, found, defaults, gates, context.now, queue.add).reconcile
