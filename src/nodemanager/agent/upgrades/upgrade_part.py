"""Upgrades as a part of the agent: it waits for slots, carries them out, and reports them.

It looks at the clock every half window, not more often. Less often would not do, because the time
of day may be set while we sleep.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Final

from nodemanager.agent.tasks.ledger import Entry
from nodemanager.agent.upgrades import own_task
from nodemanager.agent.upgrades.asking import Asking
from nodemanager.agent.upgrades.own_task import Order, Stage, UpgradeEntry, UpgradeResult
from nodemanager.agent.upgrades.schedule import History, UpgradeRule
from nodemanager.agent.upgrades.upgrade import (
    UpgradeDependencies,
    Upgrader,
    UpgradeSettings,
)
from nodemanager.agent.upgrades.upgrade_memory import UpgradeMemory
from nodemanager.agent.upgrades.upgrade_reporter import UpgradeReporter, UpgradeStatus
from nodemanager.api.common.managednode import (
    ANNOTATION_HOLD,
    ManagedNode,
)
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.api.schedules import parse
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Unreadable
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.host.inventory.timezone import local_zone
from nodemanager.kube import times
from nodemanager.kube.go import durations
from nodemanager.plan.tasks.record import StepPhase

MAX_NAP: Final = 30.0
SLOTS: Final = 3
"""How many coming slots are reported."""
CLOCK_WAS_SET: Final = 1.0
"""Seconds by which the time of day may differ from the time since boot before it counts as set."""


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
        self._said: object = (False, None)
        """The last report to the operator."""
        self._known: object = None
        """The inputs of the upcoming slots."""
        self._upcoming: tuple[datetime, ...] = ()
        self._upgrader = Upgrader(dependencies, self._settings, self._on_record)
        self._memory = UpgradeMemory(dependencies, self._upgrader)
        self._asking = Asking(dependencies, self._upgrader, self._memory, self._settings, node)

    @property
    def status(self) -> UpgradeStatus:
        """What is to be written into the ManagedNode."""
        entry, busy = self._memory.newest(), self._upgrader.entry.is_under_way
        asks = entry.stage is Stage.ASKING
        failed = entry.message if entry.result is UpgradeResult.ERROR and not asks else ""
        return UpgradeStatus(
            _text(self._memory.last_upgrade(self._node())),
            _text(entry.cordoned),
            busy,
            self._complaint or failed,
            tuple(times.rfc3339(slot) for slot in self._slots()),
            _text(entry.record.claimed_at) if entry.is_under_way else None,
            self._asking.is_marked() and not busy,
            self._asking.due(),
        )

    def used_slot(self) -> datetime | None:
        """Return the last slot that was used, by host or operator, and with any result."""
        return self._memory.used_slot()

    def follow(self, task: Entry) -> None:
        """Hear what is written down of a task of the operator, and tell of it if it upgrades this host."""
        for entry in own_task.ordered([task]):
            if entry.record.phase.is_end:
                self._ended(entry)
            elif entry.record.steps[own_task.UPGRADE].phase is StepPhase.RUNNING:
                said = f"upgrading in the slot {entry.slot}, by task {task.name}"
                self._reporter.tell(self._node(), "UpgradeStarted", said)
                self._report(self.status)

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
                self._reporter.upgraded_at(self._memory.last_upgrade(self._node()))
                if (vain := self._asking.give_up(held=self._is_held())) is not None:
                    self._ended(vain)
                self._tell_operator()
                order, wake = self._next()
                if order is not None and self._asking.is_meant():
                    await self._nap(self._asking.ask(order))
                elif order is not None:
                    self._reporter.tell(self._node(), "UpgradeStarted", f"upgrading in the slot {order.slot}")
                    self._ended(await self._upgrader.run(order))
                else:
                    await self._nap(wake)
        finally:
            await self._deps.locks.close()

    def _tell_operator(self) -> None:
        """Report when we leave other things to the operator, or ask it for something else, than before."""
        said = self._asking.is_marked(), self._asking.due()
        if said != self._said:
            self._said = said
            self._report(self.status)

    def _rule(self) -> UpgradeRule | None:
        """Return when to upgrade; None = never, as things are. Raises what is wrong with the schedule."""
        node = self._node()
        spec = node.spec.upgrade if node is not None else None
        held = not self._deps.may_act() or (node is not None and ANNOTATION_HOLD in node.metadata.annotations)
        if node is None or spec is None or not spec.schedule or held:
            return None
        delay = timedelta(seconds=durations.parse(spec.delay) if spec.delay else 0.0)
        return UpgradeRule(parse(spec.schedule), delay, self._settings.forgiveness)

    def _is_held(self) -> bool:
        """Tell whether nothing is due, as things are."""
        try:
            return self._rule() is None
        except (ValueError, OverflowError):
            return True

    def _slots(self) -> tuple[datetime, ...]:
        """Return the next slots; they stay as they are until the first of them is over."""
        try:
            rule = self._rule()
        except (ValueError, OverflowError):  # `_next` complains
            return ()
        if rule is None:
            return ()
        now, zone, history = self._deps.clocks.wall(), self._zone(), self._memory.history(self._node())
        if (entry := self._memory.newest()).is_under_way:  # as if it had succeeded already
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
        # A host that only asks may do so: the operator knows that it works here.
        if visit is not None and visit.holds and now < visit.expires and not self._asking.is_meant():
            return None, visit.expires
        decision = rule.decide(self._memory.history(self._node()), now, self._zone())
        if decision.slot is None:
            return None, decision.wake
        slot, always = decision.slot, upgrade_tasks.reboots_always(node.metadata.annotations)
        if self._asking.is_meant():  # it takes a while until the operator has answered
            slot = rule.newest(slot, now, self._zone())
        return Order(slot, node.spec.upgrade.group, always), None

    async def _nap(self, wake: datetime | None) -> None:
        """Sleep until a moment; wake up before if the ManagedNode changes, or if the clock is set."""
        clocks = self._deps.clocks
        lag = clocks.wall().timestamp() - clocks.steady()
        longest = min(MAX_NAP, self._settings.forgiveness.total_seconds() / 2)
        await asyncio.sleep(0)  # the other parts get their turn also if that moment has passed
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


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else times.rfc3339(moment)
