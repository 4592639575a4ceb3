"""The agent's loop: what is wanted, made so on the host, and reported.

    ConfigSets, ManagedNodes, Secrets -> Desired -> observe, plan, apply -> status, events, metrics

There is one name in the queue, the host's own: whatever happens, the answer is a pass over it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from nodemanager.agent import status
from nodemanager.agent.assembly import Body
from nodemanager.agent.contents import Contenter
from nodemanager.agent.drift import DriftWatch
from nodemanager.agent.fetching import references
from nodemanager.agent.node_object import NodeObject
from nodemanager.agent.references import ReferenceWatch
from nodemanager.agent.reporting import Reporter
from nodemanager.agent.sight import Eyes
from nodemanager.agent.world import World
from nodemanager.api import durations, errors
from nodemanager.api.configset import ConfigSet
from nodemanager.api.managednode import ManagedNode
from nodemanager.api.objects import ObjectKey
from nodemanager.host.results import Outcome, Result
from nodemanager.plan import merge
from nodemanager.plan.desired import Desired
from nodemanager.runtime import controller
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.queue import WorkQueue

log = logging.getLogger(__name__)
RETRY_SECONDS = 30.0
"""A host on which something failed tries again after this, growing with every failure."""
MAX_RETRY = 600.0
SETTLE_SECONDS = 0.05
"""Changes that come together are answered together."""


@dataclass(slots=True)
class Sources:
    """Where wishes come from."""

    config_sets: Cache[ConfigSet]
    nodes: Cache[ManagedNode]
    references: ReferenceWatch

    def world(self) -> World:
        """Return all of them as of now."""
        return World(
            tuple(self.config_sets.values()),
            tuple(self.nodes.values()),
            self.references.secrets(),
            self.references.config_maps(),
        )


@dataclass(slots=True)
class HostReconciler:
    """Makes this host what it shall be, again and again."""

    body: Body
    node: NodeObject
    sources: Sources
    queue: WorkQueue[ObjectKey]
    eyes: Eyes
    reporter: Reporter
    now: Callable[[], datetime]
    heartbeat_lease: str = ""
    drift: DriftWatch = field(default_factory=DriftWatch)
    contenter: Contenter = field(default_factory=Contenter)
    _failures: int = 0
    _uses_peers: bool = False
    _seeded: bool = False

    def start(self) -> None:
        """Listen to everything that may change what is wanted."""
        self.sources.config_sets.subscribe(self._on_config_set)
        self.sources.nodes.subscribe(self._on_node)

    def trigger(self) -> None:
        """Ask for a pass now."""
        self.queue.add(self.node.key)

    def soon(self) -> None:
        """Ask for a pass in a moment, together with whatever else happens until then."""
        self.queue.add_after(self.node.key, SETTLE_SECONDS)

    def _on_config_set(self, change: Change[ConfigSet]) -> None:
        old, new = change.old, change.new
        if old and new and old.spec == new.spec and old.metadata.labels == new.metadata.labels:
            return  # only its status: that is the operator's
        self.soon()

    def _on_node(self, change: Change[ManagedNode]) -> None:
        old, new = change.old, change.new
        if change.key == self.node.key:
            same = old and new and old.spec == new.spec and old.metadata.labels == new.metadata.labels
            if not same or old is None or new is None or old.metadata.annotations != new.metadata.annotations:
                self.soon()
        elif self._uses_peers:
            self.soon()

    async def reconcile(self, _key: ObjectKey) -> controller.Result | None:
        """Do one pass."""
        node = await self.node.ensure()
        if not self._seeded:
            self._seeded = True
            if node.status.drift is not None:
                self.drift.drift = node.status.drift
        node = await self._converge(node)
        return controller.Result(self._next(node))

    async def _converge(self, node: ManagedNode) -> ManagedNode:
        sets = self.sources.world().matching(node)
        await self.sources.references.follow(references(sets, node))
        world = self.sources.world()
        self._uses_peers = any("Nodes" in file.template or "nodes" in file.template
                               for one in sets for file in one.spec.files)  # fmt: skip
        desired = merge.merge(sets)
        made = self.contenter.make(desired, world, node)
        results = await self.body.converger.run(desired, made) + _held(desired)
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        results = self.drift.judge(desired, made, results, stamp)
        results = [one for one in results if one.outcome is not Outcome.UNCHANGED]  # nobody tells those
        bad = [one for one in results if one.outcome in (Outcome.FAILED, Outcome.BLOCKED)]
        self._failures = self._failures + 1 if bad else 0
        self.reporter.passed(node, sets, desired, results)
        done = status.Pass(sets, desired.conflicts, results, self.drift.drift, self.body.converger.replaced)
        generation = node.metadata.generation
        seen = status.of_host(node.status, await self.eyes.look(node), self.heartbeat_lease, generation)
        wanted = status.of_pass(seen, done, self.now(), generation)
        try:
            return await self.node.write_status(node, wanted)
        except errors.Conflict:
            raise controller.Retry(SETTLE_SECONDS, "somebody else wrote the ManagedNode meanwhile") from None

    def _next(self, node: ManagedNode) -> float | None:
        """Return when to look again although nothing happens: after a failure, or as the spec says."""
        delays = []
        if self._failures:
            delays.append(min(RETRY_SECONDS * 2 ** (self._failures - 1), MAX_RETRY))
        period = durations.parse(node.spec.reconcile_period) if node.spec.reconcile_period else 0.0
        if period > 0:
            delays.append(period)
        return min(delays, default=None)


def _held(desired: Desired) -> list[Result]:
    """Return a result for each resource in conflict, so that the host does not call itself ready."""
    by_set: dict[str, list[str]] = {}
    for name, said in desired.conflicts.items():
        for text in said:
            by_set.setdefault(text.partition(" (also in")[0], []).append(name)
    return [
        Result(one, tuple(by_set.get(str(one), ())), Outcome.BLOCKED, why)
        for one, why in desired.held.items()
    ]
