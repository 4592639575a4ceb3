"""Hosts, an operator that remembers nothing, and a clock that somebody sets: rollouts without an API."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from nodemanager.api.common import choosing
from nodemanager.api.common.choosing import Content
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_conditions import ALIVE
from nodemanager.api.common.rollout import RevisionRef, Rollout, RolloutStatus
from nodemanager.fleet.rollout import beginning, deciding, facts
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SILENT = [Condition(type=ALIVE, status=conditions.FALSE)]


@dataclass
class Host:
    """One host: what it has, and whether it is heard."""

    meta: ObjectMeta
    silent: bool = False
    ref: RevisionRef | None = None
    since: datetime = BEGIN
    had: list[str] = field(default_factory=list)
    """Digests that it ever had."""


@dataclass
class World:
    """Some hosts and one ConfigSet."""

    rollout: Rollout
    hosts: list[Host]
    random: random.Random
    now: datetime = BEGIN + timedelta(hours=1)
    status: RolloutStatus | None = None
    current: RevisionRef = field(default_factory=RevisionRef)
    generation: int = 0
    restart: str = ""
    behaviour: dict[str, str] = field(default_factory=dict)
    """By digest: good, bad (hosts report failure), late (they do so after a while), hung."""

    def edit(self, behaviour: str) -> None:
        """Declare something else."""
        self.generation += 1
        digest = f"{self.generation:064x}"
        self.current = RevisionRef(
            name=f"web-{self.generation}", revision=self.generation, digest=digest, labels={"role": "web"}
        )
        self.behaviour[digest] = behaviour

    def config_set(self) -> ConfigSet:
        """Return the set as hosts see it."""
        return ConfigSet(
            metadata=ObjectMeta(name="web", labels={"role": "web"}, generation=self.generation),
            spec=ConfigSetSpec(rollout=self.rollout),
            status=ConfigSetStatus(rollout=self.status),
        )

    def look(self) -> RolloutStatus:
        """Have the operator look once, knowing nothing but what is published."""
        old = beginning.seen(self.status, self.generation, self.restart, self.now)
        base = beginning.begin(self.rollout, old, self.current, self.now)
        hosts = facts.of_hosts("web", base, [self.node(one) for one in self.hosts])
        self.status = deciding.decide(self.rollout, base, hosts, self.now).status
        return self.status

    def act(self, host: Host) -> None:
        """Have a host take what is its own now."""
        choice = choosing.chosen(self.config_set(), host.meta)
        if host.silent or choice.content is Content.SPEC or (choice.content is Content.HELD and host.ref):
            return
        if choice.revision is None or host.ref is None or choice.revision.digest != host.ref.digest:
            host.since = self.now
            if choice.revision is not None:
                host.had.append(choice.revision.digest)
        host.ref = choice.revision

    def node(self, host: Host) -> ManagedNode:
        """Return what a host reports."""
        reports = []
        if host.ref is not None:
            how, age = self.behaviour[host.ref.digest], self.now - host.since
            bad = how == "bad" or (how == "late" and age > timedelta(minutes=7))
            reports.append(
                AppliedConfigSet(
                    name="web",
                    revision=host.ref.revision,
                    digest=host.ref.digest,
                    error="no" if bad else "",
                    waiting="hangs" if how == "hung" else "",
                )
            )
        status = ManagedNodeStatus(
            release="6.1", configsets=reports, conditions=SILENT if host.silent else []
        )
        return ManagedNode(metadata=host.meta, status=status)


def world(seed: int) -> World:
    """Return some hosts and a rollout, all of it drawn by a seed."""
    draw = random.Random(seed)
    hosts = [
        Host(
            ObjectMeta(
                name=f"h{number}",
                uid=f"{seed}-{number}",
                labels={"role": "web", **({"canary": "true"} if draw.random() < 0.2 else {})},
                creation_timestamp=times.rfc3339(BEGIN),
            )
        )
        for number in range(draw.randint(1, 9))
    ]
    raw = {
        "strategy": "Staged",
        "stages": draw.choice([[], ["1"], ["2", "50%"], ["100%"], ["1", "25%", "50%", "100%"]]),
        "soak": draw.choice(["0", "1m", "5m"]),
        "stopAfter": draw.choice([1, 1, 2]),
        "onFailure": draw.choice(["undo", "undo", "pause"]),
        **draw.choice([{}, {"maxUnavailable": 1}, {"maxUnavailable": "50%"}]),
        **draw.choice([{}, {"canary": {"selector": {"matchLabels": {"canary": "true"}}}}]),
    }
    return World(msgspec.convert(raw, Rollout), hosts, draw)
