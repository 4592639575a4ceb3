"""Upgrades that the operator begins: the host asks in its status when a slot has come, and waits for a task.

    slot has come -> on disk, and asked -> the operator's task is taken       (it tells of itself)
                                        -> the operator gave it up            (failed)
                                        -> the window is over, or held        (skipped)

Every result is reported: no slot is lost in silence, even if we are killed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from nodemanager.agent.upgrades.own_task import Order, UpgradeEntry
from nodemanager.agent.upgrades.upgrade import UpgradeDependencies, Upgrader, UpgradeSettings
from nodemanager.agent.upgrades.upgrade_memory import UpgradeMemory
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.node_upgrades import DueUpgrade
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube import times
from nodemanager.kube.go import durations
from nodemanager.plan.tasks.record import TaskPhase

_MOMENT: Final = timedelta(seconds=1)
HELD: Final = "the host is held, or its schedule was changed, since it waits for its turn"
NOT_BEGUN: Final = "the operator did not begin with it within its window; an Event says what it waited for"


class Asking:
    """Asks the operator; `node` returns our ManagedNode as it is known now."""

    def __init__(
        self,
        dependencies: UpgradeDependencies,
        upgrader: Upgrader,
        memory: UpgradeMemory,
        settings: UpgradeSettings,
        node: Callable[[], ManagedNode | None],
    ) -> None:
        self._now = dependencies.clocks.wall
        self._upgrader = upgrader
        self._memory = memory
        self._settings = settings
        self._node = node

    def is_marked(self) -> bool:
        """Tell whether an operator says that it begins upgrades of this host."""
        node = self._node()
        return node is not None and upgrade_tasks.is_marked(node.metadata.annotations, self._now())

    def is_meant(self) -> bool:
        """Tell whether it is the operator who begins upgrades of this host, and can hear us ask for them.

        An API with CustomResourceDefinitions of before drops what we ask: then nobody would ever begin.
        """
        node = self._node()
        known = node.status.upgrade if node is not None else None
        return known is not None and known.asks and self.is_marked()

    def ask(self, order: Order) -> datetime:
        """Ask the operator to begin, once; return when that is over.

        What was asked for before stays until it is answered, also if other slots have come meanwhile.
        """
        asked = self._memory.asked
        if asked is not None and asked.slot is not None and self._is_open(asked.slot):
            visit = self._begun(asked.slot)
            return visit.expires if visit is not None else asked.slot + self._settings.forgiveness + _MOMENT
        self._upgrader.ask(order)
        return order.slot + self._settings.forgiveness + _MOMENT

    def due(self) -> DueUpgrade | None:
        """Return the slot that the operator is asked for, until it has answered or the window is over."""
        asked = self._memory.asked
        if asked is None or asked.slot is None or not self.is_meant():
            return None
        until = asked.slot + self._settings.forgiveness
        if asked.slot == self._memory.used_slot() or not self._is_open(asked.slot):
            return None
        drain = durations.format_seconds(self._settings.drain)
        return DueUpgrade(times.rfc3339(asked.slot), times.rfc3339(until), drain)

    def give_up(self, *, held: bool) -> UpgradeEntry | None:
        """Return what was asked for in vain, once; `held` tells that nothing is due as things are."""
        asked, now = self._memory.asked, self._now()
        if asked is None or asked.slot is None or self._node() is None:
            return None
        if asked.slot == self._memory.used_slot():
            self._upgrader.answered(TaskPhase.EXPIRED, "the operator ordered it by a task")
            return None
        if self._begun(asked.slot) is not None:
            return None
        if (visit := self._visit(asked.slot)) is not None:
            why = f"the operator gave it up: {visit.reason or visit.state}"
            return self._upgrader.answered(TaskPhase.FAILED, why)
        if held:
            return self._upgrader.answered(TaskPhase.EXPIRED, HELD)
        if now > asked.slot + self._settings.forgiveness:
            return self._upgrader.answered(TaskPhase.EXPIRED, NOT_BEGUN)
        return None

    def _is_open(self, slot: datetime) -> bool:
        """Tell whether a slot has come and may yet be begun with, or is."""
        return slot <= self._now() <= slot + self._settings.forgiveness or self._begun(slot) is not None

    def _begun(self, slot: datetime) -> Claim | None:
        """Return the visit by which the operator has begun with a slot, if it has not ended that."""
        visit = self._visit(slot)
        return visit if visit is not None and visit.holds and self._now() < visit.expires else None

    def _visit(self, slot: datetime) -> Claim | None:
        node = self._node()
        visit = upgrade_tasks.visit_of(node) if node is not None else None
        return visit if visit is not None and visit.run == upgrade_tasks.run_of(slot) else None
