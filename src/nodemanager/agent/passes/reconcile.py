"""The agent's loop: what is wanted, made so on the host, and reported.

    ConfigSets, ManagedNodes, Secrets -> Desired -> observe, plan, apply -> status, events, metrics

There are two names in the queue: the host's own, for which the answer is a pass over it; and that of its
status, which is written from what is known already, after a repair or when an address changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from nodemanager.agent.assembly import Body
from nodemanager.agent.declared.sources import Sources
from nodemanager.agent.declared.wishes import Wishes, visible
from nodemanager.agent.declared.world import World
from nodemanager.agent.drift.contest import Fight
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.passes.housekeeping import Housekeeper
from nodemanager.agent.passes.notifies import Notifier
from nodemanager.agent.passes.standing import Standing
from nodemanager.agent.report import status
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.agent.report.reporting import Reporter
from nodemanager.agent.report.sight import Eyes
from nodemanager.agent.upgrades.upgrade_part import UpgradeStatus
from nodemanager.api.common import matching
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import Outcome, Result
from nodemanager.kube import errors
from nodemanager.kube.conditions import Condition
from nodemanager.kube.go import durations
from nodemanager.kube.objects import ObjectKey
from nodemanager.plan.desired import Desired
from nodemanager.runtime import controller
from nodemanager.runtime.cache import Change
from nodemanager.runtime.queue import WorkQueue

log = logging.getLogger(__name__)
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
REPORT_SECONDS = 0.5
"""Repairs that come together are reported together."""


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
    drifts: DriftLog
    standing: Standing
    wishes: Wishes
    heartbeat_lease: str = ""
    period: float = 0.0
    """Seconds after which to look again where the ManagedNode does not say; 0 = never by itself."""
    _labels: Mapping[str, str] | None = None
    """Labels of the host in the last pass; None before the first."""
    upgrades: Callable[[], UpgradeStatus] | None = None
    """What the status says of upgrades; None = this host does none."""
    token: Callable[[], Condition] | None = None
    """How the renewal of the host's own token goes; None where it uses another credential."""
    unserved: Callable[[], str] = lambda: ""
    """Why metrics or probes are not served; empty = they are."""
    follow: Callable[[], Awaitable[None]] | None = None
    """Has what the last pass was about watched; None = nothing is watched."""
    changed: Callable[[], None] = lambda: None
    """Told that there is news of how the host stands."""
    _last: status.Pass | None = None
    """What the last pass was about; what became of it is in `standing`."""
    _look: bool = False
    """The host itself looks different, so that the status is to be written after another look."""
    duplicated: bool = False
    """Another machine reports under our name."""
    _broken: str = ""
    """Why the last pass was broken off; empty = it was not."""
    _crowded: bool = False
    """It was said that there are more backups than the status has room for."""
    _failures: int = 0
    _adopted: bool = False
    _waiting: list[asyncio.Event] = field(default_factory=list)

    def start(self) -> None:
        """Listen to everything that may change what is wanted."""
        self.sources.config_sets.subscribe(self._on_config_set)
        self.sources.nodes.subscribe(self._on_node)
        self.sources.contact.subscribe(self.soon)

    def trigger(self) -> None:
        """Ask for a pass now."""
        self.queue.add(self.node.key)

    def soon(self) -> None:
        """Ask for a pass in a moment, together with whatever else happens until then."""
        self.queue.add_after(self.node.key, SETTLE_SECONDS)

    def report(self, *, sight: bool = False) -> None:
        """Ask for the status to be written in a moment; after another look, if the `sight` of it changed."""
        self._look = self._look or sight
        self.queue.add_after(self._status_key, REPORT_SECONDS)
        self.changed()

    def repaired(self, results: Sequence[Result], seconds: float) -> None:
        """Count and log what was put back so many seconds after it was touched."""
        self.reporter.repaired(results, seconds)

    def contested(self, fight: Fight) -> None:
        """Warn that somebody else keeps changing something."""
        self.reporter.contested(self.node.known(), fight)

    @property
    def _status_key(self) -> ObjectKey:
        return ObjectKey(self.node.key.namespace, f"{self.node.key.name}/status")

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

    async def reconcile(self, key: ObjectKey) -> controller.Result | None:
        """Do one pass, or only write the status."""
        if key == self._status_key:
            await self._tell()
            return None
        node = await self._own_node()
        self._adopt(node)
        try:
            node = await self._converge(node)
        except (controller.Retry, errors.KubeError):
            raise  # about the API, and not about the host
        except Exception as error:
            # What our own mistakes say may quote anything, so it is in the log only.
            self._broken = (
                str(error) if isinstance(error, OSError) else f"{type(error).__name__}, see the log"
            )
            await self._tell_broken(node)
            raise
        return controller.Result(self._next(node))

    async def _tell_broken(self, node: ManagedNode) -> None:
        """Say that a pass was broken off: what the status says of the host may not be so any more."""
        self.changed()
        if not self.sources.contact.alone:
            with contextlib.suppress(errors.KubeError):  # the next pass has something to say, too
                await self.node.write_status(node, self._if_broken(node.status, node.metadata.generation))

    def _if_broken(self, found: ManagedNodeStatus, generation: int) -> ManagedNodeStatus:
        if not self._broken:
            return found
        said = f"the last pass was broken off: {self._broken}"
        return status.of_condition(found, status.not_ready(said), self.now(), generation)

    def _adopt(self, node: ManagedNode) -> None:
        """Learn, once, from the API which drifts it has been told of."""
        if not self._adopted and not self.sources.contact.alone:
            self._adopted = True
            self.drifts.adopt(node.status.drift)

    async def _own_node(self) -> ManagedNode:
        """Return our ManagedNode; without the API as it was, with the labels that we give it anyway."""
        known = self.node.known() or self.sources.memory.node
        if known is None or not self.sources.contact.alone:
            try:
                return await self.node.ensure()
            except errors.KubeError:
                # Whatever became of our request, it told the contact.
                if known is None or not self.sources.contact.alone:
                    raise
        return World(nodes=(known,)).node(self.body.identity)

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
        await self.sources.follow(await self.wishes.references(sets, node))
        world = self.sources.world()
        wish = await self.wishes.make(sets, world, node)
        await self._remember(sets, world, node)
        async with self.body.converger.turn:  # what a repair under way finds is about what was wanted before
            collection = await self.housekeeper.collect_if_due()
            alone = self.standing.begin(wish)
        done = await self.body.converger.run(wish.desired, wish.contents, alone) + _held(wish.desired)
        self._broken = ""
        results = self.standing.passed(done)
        await in_thread(self.standing.watch.save)
        bad = {name for one in results if one.bad for name in (*one.sources, "")}
        self._failures = self._failures + 1 if bad else 0
        for event in waiting if not bad else ():
            event.set()
        self.reporter.passed(node, sets, wish.desired, results)
        if self.follow is not None:
            await self.follow()
        self._last = status.Pass(sets, wish.desired.conflicts, (), None, collection=collection)
        if self.sources.contact.alone:
            self._owe_backups()  # all else is seen again once the API is back
            return node
        node = await self._report(node, await self.eyes.look(node))
        await self.notifier.applied(one for one in sets if one.metadata.name not in bad)
        return node

    def _backups(self) -> dict[str, str]:
        """Return where the former content of files is that no status tells of yet."""
        return {**self.body.converger.replaced, **self.sources.memory.owed}

    def _owe_backups(self) -> None:
        self._say_crowded(self.sources.memory.owe(self._backups(), self._paths))

    def _say_crowded(self, untold: int) -> None:
        """Say, once, that a status has no room for so many backups."""
        if untold and not self._crowded:
            log.warning(
                "the status has no room for %d backups, most of them of what nobody declares:"
                " nodemanager backups has them all", untold,
            )  # fmt: skip
        self._crowded = self._crowded or untold > 0

    @property
    def _paths(self) -> frozenset[str]:
        """The files that are declared."""
        return self.standing.wish.paths if self.standing.wish else frozenset()

    async def _tell(self) -> None:
        """Write the status from what is known; the pass before it, or after an outage, tells the rest."""
        await in_thread(self.standing.watch.save)
        if self._last is None or self.sources.contact.alone:
            return
        look, self._look = self._look, False
        try:
            node = await self.node.ensure()
            self._adopt(node)
            await self._report(node, await self.eyes.look(node) if look else None)
        except BaseException:
            self._look = self._look or look  # what was seen was not told
            raise

    async def _remember(self, sets: Sequence[ConfigSet], world: World, node: ManagedNode) -> None:
        """Keep what this pass is made of for a start without the API."""
        memory = self.sources.memory
        if self.sources.live:
            kept, own = self.wishes.basis(world, node)
            await in_thread(lambda: memory.keep(sets, kept, own, peers=self.wishes.reads_peers))
        if world.withheld and memory.forget_secrets():
            log.warning("removed the Secrets that this host knew: %s", world.withheld)

    async def _report(self, node: ManagedNode, sight: status.Sight | None) -> ManagedNode:
        """Write how the host stands; `sight` None = it looks as it did."""
        wanted = self._status(node, sight)
        try:
            node = await self.node.write_status(node, wanted)
        except errors.Conflict:
            raise controller.Retry(SETTLE_SECONDS, "somebody else wrote the ManagedNode meanwhile") from None
        except errors.KubeError:
            self._owe_backups()
            if not self.sources.contact.alone:
                raise
            return node
        self.sources.memory.settle()
        self.standing.told()
        return node

    def local(self) -> ManagedNodeStatus:
        """Return how the host stands as far as we know, whether or not the API could be told."""
        if self._last is None:
            return ManagedNodeStatus()
        node = self.node.known() or self.sources.memory.node or ManagedNode()
        generation = node.metadata.generation
        found = status.of_pass(node.status, self._done(self._last), self.now(), generation)
        return self._if_broken(found, generation)

    def _done(self, last: status.Pass) -> status.Pass:
        """Return what the last pass was about, with what became of it until now."""
        standing = self.standing
        return replace(
            last,
            results=list(standing.results.values()),
            drift=self.drifts.known(),
            backups=self._backups(),
            declared=self._paths,
            fights=standing.contest.fights(),
            shortfalls=standing.shortfalls,
        )

    def _status(self, node: ManagedNode, sight: status.Sight | None) -> ManagedNodeStatus:
        generation = node.metadata.generation
        last = self._last or status.Pass((), {}, (), None)
        self._last = replace(last, collection=None)
        done = self._done(last)
        seen = node.status
        self._say_crowded(status.untold_backups(seen, done))
        if sight is not None:
            seen = status.of_host(seen, sight, self.heartbeat_lease, generation)
        wanted = self._if_broken(status.of_pass(seen, done, self.now(), generation), generation)
        wanted = status.of_duplication(wanted, self.duplicated, self.now(), generation)
        wanted = status.of_servers(wanted, self.unserved(), self.now(), generation)
        wanted = status.of_token(wanted, self.token() if self.token else None, self.now(), generation)
        return status.of_upgrades(wanted, self.upgrades()) if self.upgrades is not None else wanted

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
