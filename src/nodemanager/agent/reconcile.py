"""The agent's loop: what is wanted, made so on the host, and reported.

    ConfigSets, ManagedNodes, Secrets -> Desired -> observe, plan, apply -> status, events, metrics

There is one name in the queue, the host's own: whatever happens, the answer is a pass over it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodemanager.agent import status
from nodemanager.agent.assembly import Body
from nodemanager.agent.drift import DriftWatch
from nodemanager.agent.housekeeping import Housekeeper
from nodemanager.agent.node_object import NodeObject
from nodemanager.agent.notifies import Notifier
from nodemanager.agent.references import ReferenceWatch
from nodemanager.agent.reporting import Reporter
from nodemanager.agent.sight import Eyes
from nodemanager.agent.upgrade_part import UpgradeStatus
from nodemanager.agent.wishes import Wishes, visible
from nodemanager.agent.world import World
from nodemanager.api import durations, errors, matching
from nodemanager.api.conditions import Condition
from nodemanager.api.configset import ConfigSet
from nodemanager.api.managednode import ManagedNode
from nodemanager.api.objects import ObjectKey
from nodemanager.host.results import Outcome, Result
from nodemanager.plan.desired import Desired
from nodemanager.runtime import controller
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.queue import WorkQueue

log = logging.getLogger(__name__)
_BAD = (Outcome.FAILED, Outcome.BLOCKED)
RETRY_SECONDS = 30.0
"""A host on which something failed tries again after this, growing with every failure."""
MAX_RETRY = 600.0
MIN_PERIOD = 1.0
"""A host that is told to look at itself more often than this does not."""
OWN_STATUS_SECONDS = 2.0
"""News in our own status, which templates read: usually written by us. Where two hosts have one name, they
would otherwise answer each other as fast as the network allows."""
TWIN_SECONDS = 60.0
"""The same, once we know that there are two."""
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
    notifier: Notifier
    housekeeper: Housekeeper
    heartbeat_lease: str = ""
    period: float = 0.0
    """Seconds after which to look again where the ManagedNode does not say; 0 = never by itself."""
    drift: DriftWatch = field(default_factory=DriftWatch)
    wishes: Wishes = field(default_factory=Wishes)
    _labels: Mapping[str, str] | None = None
    """Labels of the host in the last pass; None before the first."""
    upgrades: Callable[[], UpgradeStatus] | None = None
    """What the status says of upgrades; None = this host does none."""
    token: Callable[[], Condition] | None = None
    """How the renewal of the host's own token goes; None where it uses another credential."""
    duplicated: bool = False
    """Another machine reports under our name."""
    _failures: int = 0
    _seeded: bool = False
    _waiting: list[asyncio.Event] = field(default_factory=list)

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
        labels = self._labels
        if labels is None or any(one is not None and matching.matches(one, labels) for one in (old, new)):
            self.soon()

    def _on_node(self, change: Change[ManagedNode]) -> None:
        old, new = change.old, change.new
        own = change.key == self.node.key
        if old is None or new is None:
            concerned = own or self.wishes.reads_peers
        elif own:
            concerned = (
                old.spec != new.spec
                or old.metadata.labels != new.metadata.labels
                or old.metadata.annotations != new.metadata.annotations
            )
            if not concerned and self.wishes.templated and visible(old) != visible(new):
                self.queue.add_after(self.node.key, TWIN_SECONDS if self.duplicated else OWN_STATUS_SECONDS)
        else:
            concerned = self.wishes.reads_peers and visible(old) != visible(new)
        if concerned:
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

    async def settled(self) -> None:
        """Return when a pass that begins from now on has found, or made, everything as declared."""
        event = asyncio.Event()
        self._waiting.append(event)
        try:
            self.trigger()
            await event.wait()
        finally:
            self._waiting.remove(event)

    async def _converge(self, node: ManagedNode) -> ManagedNode:
        waiting = list(self._waiting)
        self._labels = node.metadata.labels
        sets = self.sources.world().matching(node)
        await self.sources.references.follow(self.wishes.references(sets, node))
        wish = self.wishes.make(sets, self.sources.world(), node)
        collection = await self.housekeeper.collect_if_due()
        results = await self.body.converger.run(wish.desired, wish.contents) + _held(wish.desired)
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        results = self.drift.judge(wish.declared, results, stamp)
        results = [one for one in results if one.outcome is not Outcome.UNCHANGED]  # nobody tells those
        bad = {name for one in results if one.outcome in _BAD for name in (*one.sources, "")}
        self._failures = self._failures + 1 if bad else 0
        for event in waiting if not bad else ():
            event.set()
        self.reporter.passed(node, sets, wish.desired, results)
        done = status.Pass(
            sets, wish.desired.conflicts, results, self.drift.drift, self.body.converger.replaced, collection
        )
        node = await self._report(node, done)
        await self.notifier.applied(one for one in sets if one.metadata.name not in bad)
        return node

    async def _report(self, node: ManagedNode, done: status.Pass) -> ManagedNode:
        generation = node.metadata.generation
        seen = status.of_host(node.status, await self.eyes.look(node), self.heartbeat_lease, generation)
        wanted = status.of_pass(seen, done, self.now(), generation)
        wanted = status.of_duplication(wanted, self.duplicated, self.now(), generation)
        wanted = status.of_token(wanted, self.token() if self.token else None, self.now(), generation)
        if self.upgrades is not None:
            wanted = status.of_upgrades(wanted, self.upgrades())
        try:
            return await self.node.write_status(node, wanted)
        except errors.Conflict:
            raise controller.Retry(SETTLE_SECONDS, "somebody else wrote the ManagedNode meanwhile") from None

    def _next(self, node: ManagedNode) -> float | None:
        """Return when to look again although nothing happens: after a failure, or as the spec says."""
        delays = []
        if self._failures:
            delays.append(min(RETRY_SECONDS * 2 ** min(self._failures - 1, 10), MAX_RETRY))
        if (period := self._period(node)) > 0:
            delays.append(max(period, MIN_PERIOD))
        if (due := self.housekeeper.due_in()) is not None:
            delays.append(due)
        return min(delays, default=None)

    def _period(self, node: ManagedNode) -> float:
        try:
            return durations.parse(node.spec.reconcile_period) if node.spec.reconcile_period else self.period
        except ValueError as error:
            log.warning("cannot use spec.reconcilePeriod: %s; it is %g s instead", error, self.period)
            return self.period


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
