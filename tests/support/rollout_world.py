"""Hosts, an operator that remembers nothing, and a clock that somebody sets: rollouts without an API.

Each host behaves in its own way with each change. What it reports is what it said last, so after an outage
the operator sees what was so before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from nodemanager.api.common import choosing, enforcement
from nodemanager.api.common.choosing import ContentSource
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.api.common.rollout import RevisionRef, Rollout, RolloutStatus, is_staged
from nodemanager.api.common.rolloutpolicy import RolloutPolicy
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.controllers.rollouts.following import FollowedSet, followed
from nodemanager.controllers.rollouts.reconciling import decide
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.rollout.gates import HealthFinding, RolloutGates, WindowGate
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support.cached_nodes import CachedNodes

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(seconds=60)
"""Every host that is there acts within two of them."""
LABELS = {"role": "web"}
CANARY = {"selector": {"matchLabels": {"canary": "true"}}}
STAGES: tuple[list[str], ...] = (
    [],
    ["1"],
    ["2", "50%"],
    ["100%"],
    ["1", "25%", "50%", "100%"],
    ["2", "3", "4"],
)
GOOD = ("good", "slow", "brief")
BAD = ("bad", "late", "hung", "flaps", "dies")


class Kept(NamedTuple):
    """What of the set is on a host."""

    digest: str
    ref: RevisionRef | None
    """None = it was taken from the spec."""
    uid: str


@dataclass
class Host:
    """One host: what it has, what it said last, and whether it is heard."""

    meta: ObjectMeta
    knows: bool = True
    """Its agent knows about stages."""
    visited: bool = False
    """Somebody else works on it."""
    silent: bool = False
    dead: bool = False
    """What it took killed it: it says nothing any more, and is called silent a moment later."""
    alive_since: datetime = BEGIN
    kept: Kept | None = None
    since: datetime = BEGIN
    """When it took what it has."""
    acted: datetime = BEGIN
    report: AppliedConfigSet | None = None
    had: set[str] = field(default_factory=set)
    """Digests that it ever had."""
    _node: tuple[object, ManagedNode] = (None, ManagedNode())

    @property
    def name(self) -> str:
        return self.meta.name

    def node(self) -> ManagedNode:
        """Return its ManagedNode."""
        about = self.silent, self.alive_since, self.report, self.visited
        if about == self._node[0]:
            return self._node[1]
        alive = Condition(
            type=ALIVE,
            status=conditions.FALSE if self.silent else conditions.TRUE,
            last_transition_time=times.rfc3339(self.alive_since),
        )
        status = ManagedNodeStatus(
            release="6.1", configsets=[self.report] if self.report else [], conditions=[alive]
        )
        notes = {ANNOTATION_VISIT: "by somebody"} if self.visited else {}
        meta = msgspec.structs.replace(self.meta, annotations=notes)
        self._node = about, ManagedNode(metadata=meta, status=status)
        return self._node[1]


@dataclass
class World:
    """Some hosts and one ConfigSet."""

    rollout: Rollout
    hosts: list[Host]
    random: random.Random
    now: datetime = BEGIN + timedelta(hours=1)
    watched_since: datetime = BEGIN
    """Since when the operator has missed nothing."""
    status: RolloutStatus | None = None
    witness: Witness = field(default_factory=Witness)
    """What the operator that runs has seen."""
    again: float | None = None
    """When the operator wants to look again by itself."""
    current: RevisionRef = field(default_factory=RevisionRef)
    generation: int = 0
    uid: int = 1
    created: str = times.rfc3339(BEGIN)
    annotations: dict[str, str] = field(default_factory=dict)
    shut: bool = False
    """The window of the set."""
    closed: bool = False
    """The window of its rollout."""
    gate: RolloutReason | None = None
    """What its gate of health says; None = it holds."""
    unapproved: str = ""
    """What somebody has to say yes to."""
    policy: RolloutPolicy | None = None
    """Where the set has no rollout of its own: the default that it follows."""
    behaviour: dict[str, dict[str, str]] = field(default_factory=dict)
    """By digest and host; "" is for all others."""
    cached: CachedNodes = field(default_factory=CachedNodes)
    serial: int = 0

    # What people do

    def edit(self, behaviour: str = "good", **hosts: str) -> None:
        """Declare something else."""
        self.serial += 1
        digest = f"{self.serial:064x}"
        self.current = RevisionRef(
            name=f"web-{self.serial}", revision=self.serial, digest=digest, labels=LABELS
        )
        self.behaviour[digest] = {"": behaviour, **hosts}
        self.generation += 1

    def revert(self) -> None:
        """Declare again what is stable."""
        if self.status is not None and self.status.stable is not None:
            self.current = self.status.stable
            self.generation += 1

    def configure(self, **changes: Any) -> None:
        """Change how it is rolled out."""
        raw = {**msgspec.to_builtins(self.rollout), **changes}
        self.rollout = msgspec.convert({key: one for key, one in raw.items() if one is not None}, Rollout)
        if self.policy is None:
            self.generation += 1
            return
        meta = self.policy.metadata
        meta = msgspec.structs.replace(meta, generation=meta.generation + 1)
        self.policy = RolloutPolicy(meta, self.rollout)

    def recreate(self) -> None:
        """Delete the set, and make it again with other content."""
        self.uid += 1
        self.created, self.status = times.rfc3339(self.now), None
        self.edit()
        self.generation = 1

    def join(self, **labels: str) -> Host:
        """Have one more host."""
        self.serial += 1
        meta = ObjectMeta(
            name=f"h{self.serial}",
            uid=f"{self.serial}-{self.random.random()}",
            namespace="x",
            labels={**LABELS, **labels},
            creation_timestamp=times.rfc3339(self.now),
        )
        self.hosts.append(Host(meta, alive_since=self.now, acted=self.now))
        return self.hosts[-1]

    # What happens by itself

    def hush(self, host: Host) -> None:
        """Have a host fall silent, or come back."""
        host.silent, host.alive_since, host.acted = not host.silent, self.now, self.now

    def config_set(self) -> ConfigSet:
        """Return the set as hosts see it."""
        meta = ObjectMeta(
            name="web",
            namespace="x",
            uid=str(self.uid),
            labels=LABELS,
            generation=self.generation,
            annotations=self.annotations,
            creation_timestamp=self.created,
        )
        return ConfigSet(
            metadata=meta,
            spec=ConfigSetSpec(rollout=self.rollout if self.policy is None else None),
            status=ConfigSetStatus(rollout=self.status),
        )

    def followed(self) -> FollowedSet:
        """Return what is in force."""
        return followed(self.config_set(), self.policy, self.current.digest)

    def look(self) -> RolloutStatus:
        """Have the operator look once, knowing nothing but what is published."""
        nodes, given = self.cached.nodes(one.node() for one in self.hosts), self.followed()
        watched = self.now - self.watched_since
        known = self.witness if watched > timedelta() else Witness()
        gates = self.gates()._replace(gone=given.gone)
        look = RolloutLook(self.now, watched.total_seconds(), given.is_edited, known, gates)
        found = decide(given.config_set, self.current, nodes, look)
        remembering = look._replace(memory=self.cached.memory("web"))
        assert decide(given.config_set, self.current, nodes, remembering) == found
        status, self.again, self.witness = found
        self.status = given.told(status)
        return self.status

    def gates(self) -> RolloutGates:
        """Return what keeps further hosts from a change."""
        view = WindowView(open=not self.closed, opens_at=self.now + timedelta(hours=1))
        health = HealthFinding(self.gate, "errors: 5", 300.0) if self.gate is not None else None
        return RolloutGates(WindowGate("nights", view), health, self.unapproved)

    @property
    def barred(self) -> bool:
        """Whether no further host may take a change."""
        return self.closed or self.gate is not None or bool(self.unapproved)

    def tick(self, *, lazy: bool = True) -> None:
        """Let a minute pass: most hosts act, and all that have not for two."""
        self.now += TICK
        seen = self.config_set()
        for host in self.hosts:
            if host.dead and not host.silent:
                self.hush(host)
            if not lazy or self.random.random() < 0.7 or self.now - host.acted >= 2 * TICK:
                self.act(host, seen)

    def act(self, host: Host, seen: ConfigSet) -> None:
        """Have a host take what is its own now, and say so; as `agent.declared.staged_sets` does."""
        if host.silent or host.dead:
            return
        host.acted = self.now
        if not host.knows:
            host.kept = Kept(self.current.digest, None, str(self.uid))
            self._say(host, self.generation)
            return
        kept = host.kept if host.kept and host.kept.uid == str(self.uid) else None
        if self.policy is not None and is_staged(self.policy.spec) and not choosing.in_stages(seen):
            seen = choosing.undecided(seen)  # it asks the API
        choice, status = choosing.chosen(seen, host.meta), self.status
        if choice.content is ContentSource.SPEC:
            self._take(host, Kept(self.current.digest, None, str(self.uid)))
            self._say(host, self.generation)
            return
        ref = choice.revision
        between = status is not None and (status.next is not None or status.refused is not None)
        own = kept is not None and kept.ref is None and between and ref == (status and status.stable)
        if kept is not None and (choice.content is ContentSource.HELD or own):
            self._say(host, host.report.observed_generation if host.report else 0)
            return
        if ref is not None and self.shut and (kept is None or kept.digest != ref.digest):
            before = host.report or AppliedConfigSet(name="web")
            self._publish(host, msgspec.structs.replace(before, held=1, waiting=enforcement.WAITS, error=""))
            return
        self._take(host, Kept(ref.digest, ref, str(self.uid)) if ref else None)
        self._say(host, self.generation)

    def _take(self, host: Host, new: Kept | None) -> None:
        if new is None or host.kept is None or new.digest != host.kept.digest:
            host.since = self.now
        host.kept = new
        if new is not None:
            host.had.add(new.digest)
            host.dead = self.behaves(host, new.digest) == "dies"

    def behaves(self, host: Host, digest: str) -> str:
        """Return how a host behaves with what it has."""
        known = self.behaviour[digest]
        return known.get(host.name, known[""])

    def _say(self, host: Host, generation: int) -> None:
        """Report what the host has, and how that is right now."""
        kept = host.kept
        if kept is None:
            host.report = None
        if kept is None or host.dead:
            return
        how, age = self.behaves(host, kept.digest), self.now - host.since
        bad = (
            how == "bad"
            or (how == "late" and age > 7 * TICK)
            or (how == "flaps" and age.total_seconds() // 60 % 3 == 1)
        )
        waits = how == "hung" or (how == "slow" and age < 3 * TICK)
        # Not for ever: hosts that take turns at it would leave no time for a soak.
        waits = waits or (how == "brief" and age < 120 * TICK and age.total_seconds() // 60 % 17 == 5)
        self._publish(
            host,
            AppliedConfigSet(
                name="web",
                observed_generation=generation,
                revision=kept.ref.revision if kept.ref else 0,
                digest=kept.digest if kept.ref else "",
                error="no" if bad else "",
                waiting="something runs" if waits else "",
            ),
        )

    def _publish(self, host: Host, report: AppliedConfigSet) -> None:
        last = host.report.last_applied if host.report else None
        new = msgspec.structs.replace(report, last_applied=last)
        if new != host.report:
            host.report = msgspec.structs.replace(new, last_applied=times.rfc3339(self.now))


def world(seed: int) -> World:
    """Return some hosts and a rollout, all of it drawn by a seed."""
    draw = random.Random(seed)
    raw = {
        "strategy": "Staged",
        "stages": draw.choice(STAGES),
        "soak": draw.choice(["0", "1m", "5m"]),
        "stopAfter": draw.choice([1, 1, 2]),
        "onFailure": draw.choice(["undo", "undo", "pause"]),
        "onSilence": draw.choice(["fail", "fail", "ignore"]),
        **draw.choice([{}, {"maxUnavailable": 1}, {"maxUnavailable": "50%"}]),
        **draw.choice([{}, {"canary": CANARY}]),
    }
    here = World(msgspec.convert(raw, Rollout), [], draw, now=BEGIN)
    if seed % 2:
        here.policy = RolloutPolicy(ObjectMeta(name="default", uid="p", generation=1), here.rollout)
    for _ in range(draw.randint(1, 7)):
        host = here.join(**({"canary": "true"} if draw.random() < 0.2 else {}))
        host.knows = draw.random() < 0.97
    here.now += timedelta(hours=1)
    here.edit()
    return here
