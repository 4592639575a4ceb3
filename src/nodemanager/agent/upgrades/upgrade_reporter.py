"""What is reported about upgrades: in the ManagedNode's status, in Events, metrics, and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodemanager.agent.upgrades.own_task import UpgradeEntry, UpgradeResult
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.common.node_upgrades import DueUpgrade
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger(__name__)
BUCKETS: Final = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600)


@dataclass(frozen=True, slots=True)
class UpgradeStatus:
    """What the ManagedNode shows about upgrades."""

    last_upgrade: str | None
    kubernetes_node_cordoned: str | None
    busy: bool = False
    """Whether the host upgrades itself."""
    problem: str = ""
    """Why the last upgrade failed, or why the schedule cannot be followed; empty = all is well."""
    next_slots: tuple[str, ...] = ()
    started: str | None = None
    """Since when the host is being upgraded."""
    asks: bool = False
    """Whether the operator begins the upgrades."""
    due: DueUpgrade | None = None
    """The slot that the operator is asked for."""


class UpgradeReporter:
    """Reports the results of upgrades: Events, metrics, log."""

    def __init__(
        self, node: str, registry: Registry, events: EventRecorder | None,
        recorded: Callable[[str], None] = lambda _reason: None,
    ) -> None:  # fmt: skip
        self._node = node
        self._recorded = recorded
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
        self._recorded(reason)
        log.log(logging.WARNING if bad else logging.INFO, "%s", message)
        if self._events is not None and node is not None:
            send = self._events.warning if bad else self._events.normal
            send(MANAGED_NODES, node, reason, message)

    def upgraded_at(self, moment: datetime | None) -> None:
        """Set when the last upgrade was done, also one that another process of ours did."""
        if moment is not None:
            self._last.labels(self._node).set(moment.timestamp())
