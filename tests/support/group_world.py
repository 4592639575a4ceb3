"""ConfigSets that move together, hosts and an operator, without an API: each write is seen by itself.

The operator may be killed between two writes, and remembers nothing. Hosts choose with the code of the agent,
by what they see, which may be old, and now and then a revision cannot be read.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.api.common import choosing, configsetrevision
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.configsetrevision import RESTART, ConfigSetRevision, ConfigSetRevisionSpec
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.api.common.rollout import STAGED, RevisionRef, Rollout, RolloutStatus
from nodemanager.controllers.rollouts import membership
from nodemanager.controllers.rollouts.following import FollowedSet
from nodemanager.controllers.rollouts.looked_at import LookedAt, in_order, parted
from nodemanager.controllers.rollouts.reconciling import decide_all
from nodemanager.fleet.rollout.gates import RolloutGates
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.kube import conditions, errors, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support.cached_nodes import CachedNodes

T = TypeVar("T")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(seconds=60)
SPACE, GROUP = "x", "site"
ROLLOUT = Rollout(strategy=STAGED, soak="1m", stages=["1", "50%"], group=GROUP)
NO_LABELS: Mapping[str, str] = {}
State = dict[str, RevisionRef | None]
"""Which revision of each set."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what comes of something that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    raise AssertionError("it waits for something")


@dataclass
class Host:
    """One host: what it has, and what it said last."""

    meta: ObjectMeta
    staged: StagedSets
    kept: list[ConfigSet] = field(default_factory=list)
    reports: list[AppliedConfigSet] = field(default_factory=list)
    silent: bool = False
    seen: int = 0
    """How much of what was written it has seen."""

    def node(self) -> ManagedNode:
        alive = Condition(
            type=ALIVE,
            status=conditions.FALSE if self.silent else conditions.TRUE,
            last_transition_time=times.rfc3339(BEGIN),
        )
        status = ManagedNodeStatus(release="6.1", configsets=self.reports, conditions=[alive])
        return ManagedNode(metadata=self.meta, status=status)

    @property
    def has(self) -> dict[str, str]:
        return {one.metadata.name: choosing.applied(one).digest for one in self.kept}


@dataclass
class GroupWorld:
    """Sets of a namespace, and who looks at them."""

    random: random.Random
    sets: dict[str, ConfigSet] = field(default_factory=dict)
    hosts: list[Host] = field(default_factory=list)
    now: datetime = BEGIN + timedelta(hours=1)
    history: list[dict[str, ConfigSet]] = field(default_factory=list)
    """What there was after each write."""
    revisions: dict[str, list[ConfigSetRevision]] = field(default_factory=dict)
    """By uid of their set."""
    bad: set[str] = field(default_factory=set)
    """Digests with which hosts fail."""
    unreadable: set[str] = field(default_factory=set)
    """Names of revisions that nobody can read now."""
    states: list[State] = field(default_factory=list)
    """What hosts may have together: what is stable, and with it what is next, of each decision."""
    cached: CachedNodes = field(default_factory=CachedNodes)
    serial: int = 0

    # What people do

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def put(self, one: ConfigSet) -> None:
        self.sets = {**self.sets, one.metadata.name: one}
        self.history.append(self.sets)

    def make(self, name: str, labels: Mapping[str, str] = NO_LABELS) -> None:
        meta = ObjectMeta(
            name=name, namespace=SPACE, uid=f"{name}-{self._next()}", generation=1,
            labels={"role": "web", **labels}, creation_timestamp=times.rfc3339(self.now),
        )  # fmt: skip
        self.put(ConfigSet(meta, ConfigSetSpec(priority=self._next(), rollout=ROLLOUT)))

    def edit(self, name: str, *, bad: bool = False, **spec: Any) -> None:
        one = self.sets[name]
        spec = spec or {"priority": self._next()}
        meta = msgspec.structs.replace(one.metadata, generation=one.metadata.generation + 1)
        one = ConfigSet(meta, msgspec.structs.replace(one.spec, **spec), one.status)
        self.put(one)
        if bad:
            self.bad.add(_digest(one))

    def revert(self, name: str) -> None:
        status = self.sets[name].status.rollout
        if status is not None and status.stable is not None:
            uid = self.sets[name].metadata.uid
            old = next(one for one in self.revisions[uid] if one.metadata.name == status.stable.name)
            self.edit(name, priority=configsetrevision.spec_of(old, old.spec.digest).priority)

    def restart(self, name: str) -> None:
        one = self.sets[name]
        notes = {RESTART: str(self._next())}
        self.put(
            msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, annotations=notes))
        )

    def delete(self, name: str) -> None:
        self.sets = {key: one for key, one in self.sets.items() if key != name}
        self.history.append(self.sets)

    def join(self, **labels: str) -> Host:
        number = self._next()
        meta = ObjectMeta(
            name=f"h{number}", uid=f"{number}-{self.random.random()}", namespace=SPACE,
            labels={"role": "web", **labels}, creation_timestamp=times.rfc3339(self.now),
        )  # fmt: skip
        host = Host(meta, StagedSets(self._get, self._no_default))
        host.staged.kept = lambda: host.kept
        self.hosts.append(host)
        return host

    async def _get(self, name: str) -> ConfigSetRevision:
        found = [one for each in self.revisions.values() for one in each if one.metadata.name == name]
        if not found or name in self.unreadable:
            raise errors.NotFound(f"{name} is not there")
        return found[0]

    async def _no_default(self) -> bool:
        return False

    # What the operator does

    def looks(self) -> Iterator[list[tuple[LookedAt, RolloutStatus]]]:
        """Yield what is to be written, in its order, for each look that is due."""
        names, done = sorted(self.sets), set[str]()
        for name in names:
            if name in done or name not in self.sets:
                continue
            sets = membership.together(self.sets[name], self.sets.values(), None)
            done.update(one.metadata.name for one in sets)
            for looked in parted([self._looked(one) for one in sets]):
                nodes, look = self.cached.nodes(one.node() for one in self.hosts), self._look(looked)
                found = decide_all(looked, nodes, look)
                remembering = look._replace(memory=self.cached.memory(looked[0].name))
                assert decide_all(looked, nodes, remembering) == found
                if looked[0].group:
                    self._may_have(found.statuses)
                yield [(one, found.statuses[one.name]) for one in in_order(looked, found.statuses)]

    def _looked(self, one: ConfigSet) -> LookedAt:
        known = self.revisions.setdefault(one.metadata.uid, [])
        newest = known[-1] if known and configsetrevision.says_the_same(known[-1], one) else None
        if newest is None:
            known.append(newest := _revision(one, len(known) + 1))
        return LookedAt(one, known, newest, FollowedSet(one))

    def _look(self, looked: list[LookedAt]) -> RolloutLook:
        return RolloutLook(
            self.now, edited=any(one.followed.is_edited for one in looked), gates=RolloutGates()
        )

    def _may_have(self, told: Any) -> None:
        stable: State = {name: status.stable for name, status in told.items()}
        before = [_group_of(self.sets[name]) for name in told]
        if before == [GROUP] * len(told) and self.states and self.states[-1].keys() == stable.keys():
            known = [_digests(one) for one in self.states]
            assert _digests(stable) in known, ("stable is a part of a change", stable)
        self.states.append(stable)
        news = {name: status.next for name, status in told.items() if status.next is not None}
        if news:
            self.states.append({**stable, **news})

    def write(self, one: LookedAt, status: RolloutStatus) -> None:
        """Publish something of one set, unless somebody changed it since."""
        name = one.name
        if self.sets.get(name) is one.config_set and one.config_set.status.rollout != status:
            meta, spec = one.config_set.metadata, one.config_set.spec
            self.put(ConfigSet(meta, spec, ConfigSetStatus(rollout=status)))

    # What hosts do

    def act(self, host: Host) -> bool:
        """Have a host make a pass by what it has seen; tell whether it has something else then."""
        seen, before = self.history[host.seen], host.has
        host.kept = [
            one for one in at_once(host.staged.choose(list(seen.values()), host.meta))
            if choosing.is_meant(choosing.applied(one), host.meta.labels)
        ]  # fmt: skip
        host.reports = [
            AppliedConfigSet(
                name=one.metadata.name, observed_generation=one.metadata.generation, digest=digest,
                error="it failed" if digest in self.bad else "",
            )
            for one in host.kept
            for digest in [choosing.applied(one).digest]
        ]  # fmt: skip
        return host.has != before

    def meant(self, state: State, host: Host) -> dict[str, str]:
        """Return what a host has that has these revisions."""
        refs = {name: one for name, one in state.items() if one is not None}
        return {name: one.digest for name, one in refs.items() if choosing.is_meant(one, host.meta.labels)}


def _group_of(one: ConfigSet) -> str:
    """Return the group with which something of a set was published last."""
    status = one.status.rollout
    return status.group.name if status is not None and status.group is not None else ""


def _digests(state: State) -> dict[str, str]:
    return {name: one.digest if one is not None else "" for name, one in state.items()}


def _digest(one: ConfigSet) -> str:
    return configsetrevision.digest_of(one.metadata.labels, configsetrevision.content_of(one.spec))


def _revision(one: ConfigSet, number: int) -> ConfigSetRevision:
    meta = ObjectMeta(name=configsetrevision.name_of(one.metadata, number))
    spec = ConfigSetRevisionSpec(
        config_set=one.metadata.name, revision=number, generation=one.metadata.generation,
        digest=_digest(one), labels=one.metadata.labels, content=configsetrevision.content_of(one.spec),
    )  # fmt: skip
    return ConfigSetRevision(meta, spec)
