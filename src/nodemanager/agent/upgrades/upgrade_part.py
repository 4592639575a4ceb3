"""Upgrades as a part of the agent: waits for slots, carries them out, tells of them.

Nothing here looks at a clock more often than every half window: that often it must, because the time
of day may be set while we sleep.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from nodemanager.agent.upgrades import own_task
from nodemanager.agent.upgrades.own_task import Order, Stage, UpgradeEntry, UpgradeResult
from nodemanager.agent.upgrades.schedule import History, UpgradeRule
from nodemanager.agent.upgrades.upgrade import (
    UpgradeDependencies,
    Upgrader,
    UpgradeSettings,
)
from nodemanager.api.common.managednode import (
    ANNOTATION_HOLD,
    ANNOTATION_REBOOT,
    MANAGED_NODES,
    ManagedNode,
    ManagedNodeStatus,
)
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.api.schedules import parse
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Unreadable
from nodemanager.host.inventory.timezone import local_zone
from nodemanager.kube import times
from nodemanager.kube.go import durations
from nodemanager.plan.tasks.record import TaskRecord
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger(__name__)
BUCKETS: Final = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600)
REBOOT_ALWAYS: Final = "always"
MAX_NAP: Final = 30.0
SLOTS: Final = 3
"""How many slots ahead are told."""
CLOCK_WAS_SET: Final = 1.0
"""Seconds by which the time of day may run away from the time since boot."""


@dataclass(frozen=True, slots=True)
class UpgradeStatus:
    """What the ManagedNode says of upgrades."""

    last_upgrade: str | None
    kubernetes_node_cordoned: str | None
    busy: bool = False
    """Whether the host is being upgraded."""
    problem: str = ""
    """Why the last upgrade failed, or why the schedule cannot be followed; empty = all is well."""
    next_slots: tuple[str, ...] = ()
    started: str | None = None
    """Since when the host is being upgraded."""


class UpgradeReporter:
    """Says what became of upgrades: events, metrics, log."""

    def __init__(self, node: str, registry: Registry, events: EventRecorder | None) -> None:
        self._node = node
        self._events = events
        self._total = registry.counter(
            "nodemanager_upgrade_total", "Upgrades of this host by result.", ("node", "result")
        )
        self._seconds = registry.histogram(
            "nodemanager_upgrade_duration_seconds", "From the slot to the proof.", ("node",), BUCKETS
        )
        self._last = registry.gauge(
            "nodemanager_last_upgrade_timestamp_seconds", "When the last upgrade was done.", ("node",)
        )

    def ended(self, node: ManagedNode | None, outcome: UpgradeEntry) -> None:
        """Tell of an upgrade that has ended."""
        self._total.labels(self._node, outcome.result).inc()
        if outcome.result is UpgradeResult.SUCCESS:
            self._seconds.labels(self._node).observe(outcome.seconds)
            self.tell(node, "Upgraded", f"{outcome.message} ({outcome.seconds:.0f} s)")
        elif outcome.result is UpgradeResult.SKIPPED:
            self.tell(node, "UpgradeSkipped", f"not upgraded in this slot: {outcome.message}")
        else:
            said = f"the upgrade failed and was undone, the next slot tries again: {outcome.message}"
            self.tell(node, "UpgradeFailed", said, bad=True)

    def tell(self, node: ManagedNode | None, reason: str, message: str, *, bad: bool = False) -> None:
        """Log it, and send it as an Event if there is an object to send it about."""
        log.log(logging.WARNING if bad else logging.INFO, "%s", message)
        if self._events is not None and node is not None:
            send = self._events.warning if bad else self._events.normal
            send(MANAGED_NODES, node, reason, message)

    def upgraded_at(self, moment: datetime | None) -> None:
        """Set when the last upgrade was done, also one that another process of ours did."""
        if moment is not None:
            self._last.labels(self._node).set(moment.timestamp())


class UpgradePart:
    """Upgrades the host when its ManagedNode says so.

    `node` returns our ManagedNode as it is known now; `changed()` is to be called when its spec,
    its annotations or its status became different, or what `dependencies.may_act` returns. `report` is told
    of every change of `status`.
    """

    name = "upgrades"

    def __init__(
        self,
        dependencies: UpgradeDependencies,
        node: Callable[[], ManagedNode | None],
        reporter: UpgradeReporter,
        *,
        settings: UpgradeSettings | None = None,
        zone: Callable[[], tzinfo] = local_zone,
        report: Callable[[UpgradeStatus], None] = lambda _: None,
    ) -> None:
        self._deps = dependencies
        self._node = node
        self._reporter = reporter
        self._settings = settings or UpgradeSettings()
        self._zone = zone
        self._report = report
        self._wake = asyncio.Event()
        self._complaint = ""
        self._known: object = None
        """What the upcoming slots were made from."""
        self._upcoming: tuple[datetime, ...] = ()
        self._upgrader = Upgrader(dependencies, self._settings, self._on_record)

    @property
    def status(self) -> UpgradeStatus:
        """What is to be written into the ManagedNode."""
        entry = self._upgrader.entry
        busy = entry.stage is not Stage.OVER
        failed = entry.message if entry.result is UpgradeResult.ERROR else ""
        return UpgradeStatus(
            _text(self._last_upgrade()),
            _text(entry.cordoned),
            busy,
            self._complaint or failed,
            tuple(times.rfc3339(slot) for slot in self._slots()),
            _text(entry.record.claimed_at) if busy else None,
        )

    def changed(self) -> None:
        """Look again at the ManagedNode."""
        self._wake.set()

    async def run(self) -> None:
        """Finish what is unfinished, then upgrade slot by slot until cancelled."""
        try:
            outcome = await self._upgrader.resume()
            if outcome is not None:
                self._ended(outcome)
            while True:
                self._wake.clear()
                self._reporter.upgraded_at(self._last_upgrade())
                order, wake = self._next()
                if order is not None:
                    self._reporter.tell(self._node(), "UpgradeStarted", f"upgrading in the slot {order.slot}")
                    self._ended(await self._upgrader.run(order))
                else:
                    await self._nap(wake)
        finally:
            await self._deps.locks.close()

    def _rule(self) -> UpgradeRule | None:
        """Return when to upgrade; None = never, as things are. Raises what is wrong with the schedule."""
        node = self._node()
        spec = node.spec.upgrade if node is not None else None
        held = not self._deps.may_act() or (node is not None and ANNOTATION_HOLD in node.metadata.annotations)
        if node is None or spec is None or not spec.schedule or held:
            return None
        delay = timedelta(seconds=durations.parse(spec.delay) if spec.delay else 0.0)
        return UpgradeRule(parse(spec.schedule), delay, self._settings.forgiveness)

    def _slots(self) -> tuple[datetime, ...]:
        """Return the next slots; they stay as they are until the first of them is over."""
        try:
            rule = self._rule()
        except (ValueError, OverflowError):  # `_next` complains
            return ()
        if rule is None:
            return ()
        now, zone, history = self._deps.clocks.wall(), self._zone(), self._history()
        if (entry := self._upgrader.entry).stage is not Stage.OVER:  # as if it had succeeded already
            history = History(entry.slot, entry.record.claimed_at)
        known = (rule, zone, history)
        if self._known != known or not self._upcoming or now >= self._upcoming[0]:
            self._known, self._upcoming = known, rule.upcoming(history, now, zone, SLOTS)
        return self._upcoming

    def _next(self) -> tuple[Order | None, datetime | None]:
        """Return what is to be done now, or when to look again."""
        node = self._node()
        try:
            rule = self._rule()
        except (ValueError, OverflowError) as error:
            self._complain(str(error))
            return None, None
        self._complain("")
        if node is None or node.spec.upgrade is None or rule is None or not self._deps.in_turn():
            return None, None
        now, visit = self._deps.clocks.wall(), claims.decode(node.metadata.annotations.get(VISIT))
        if isinstance(visit, Unreadable):  # the operator is newer than we are, and may be at work here
            return None, None
        if visit is not None and visit.holds and now < visit.expires:
            return None, visit.expires
        decision = rule.decide(self._history(), now, self._zone())
        if decision.slot is None:
            return None, decision.wake
        always = node.metadata.annotations.get(ANNOTATION_REBOOT) == REBOOT_ALWAYS
        return Order(decision.slot, node.spec.upgrade.group, always), None

    def _history(self) -> History:
        own, last, slot = self._own_success(), self._last_upgrade(), self._upgrader.entry.slot
        if own is not None and last == own.ended_at:
            return History(slot, own.claimed_at)
        return History(slot, last)  # done by the agent of the Go project, or the record was lost

    def _own_success(self) -> TaskRecord | None:
        return own_task.last_success(self._deps.ledger.entries.values())

    def _last_upgrade(self) -> datetime | None:
        """Return when the last upgrade was done: our own record, or what the status says."""
        node, own = self._node(), self._own_success()
        said = _moment(node.status) if node is not None else None
        known = [one for one in (None if own is None else own.ended_at, said) if one is not None]
        return max(known, default=None)

    async def _nap(self, wake: datetime | None) -> None:
        """Sleep until a moment; wake up before if the ManagedNode changes, or if the clock is set."""
        clocks = self._deps.clocks
        lag = clocks.wall().timestamp() - clocks.steady()
        longest = min(MAX_NAP, self._settings.forgiveness.total_seconds() / 2)
        while not self._wake.is_set():
            seconds: float | None = None
            if wake is not None:
                now = clocks.wall()
                if now >= wake or abs(now.timestamp() - clocks.steady() - lag) > CLOCK_WAS_SET:
                    return
                seconds = max(0.001, min((wake - now).total_seconds(), longest))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    def _ended(self, outcome: UpgradeEntry) -> None:
        self._reporter.ended(self._node(), outcome)
        self._report(self.status)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            if text:
                self._reporter.tell(self._node(), "BadUpgradeSchedule", text, bad=True)
            self._report(self.status)

    def _on_record(self, _: UpgradeEntry) -> None:
        self._report(self.status)


def _moment(status: ManagedNodeStatus) -> datetime | None:
    try:
        found = datetime.fromisoformat(status.last_upgrade or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else times.rfc3339(moment)
