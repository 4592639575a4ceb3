"""When to look at the host again without any event."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.passes.housekeeping import Housekeeper
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube.go import durations

log = logging.getLogger(__name__)
RETRY_SECONDS: Final = 30.0
"""After a failure on it, a host tries again after this time, which grows with every failure."""
MAX_RETRY: Final = 600.0
MIN_PERIOD: Final = 1.0
"""The shortest period; a ManagedNode that asks for a shorter one gets this."""


@dataclass(slots=True)
class PassSchedule:
    """When the next pass is due: after a failure, at the end of a wait, for old backups, or by the period."""

    housekeeper: Housekeeper
    period: float = 0.0
    """Seconds after which to look again if the ManagedNode declares none; 0 = never by itself."""
    _failures: int = 0
    _again_in: float | None = None
    _told: str = ""
    """The last report about an unusable period."""

    def passed(self, *, failed: bool, again_in: float | None = None) -> None:
        """Take note of the end of a pass, whether something failed, and in how many seconds waiting ends."""
        self._failures = self._failures + 1 if failed else 0
        self._again_in = again_in

    def next(self, node: ManagedNode) -> float | None:
        """Return in how many seconds to look again; None = only if something happens."""
        delays = []
        if self._failures:
            delays.append(min(RETRY_SECONDS * 2 ** min(self._failures - 1, 10), MAX_RETRY))
        if self._again_in is not None:
            delays.append(self._again_in)
        if (period := self._period(node)) > 0:
            delays.append(max(period, MIN_PERIOD))
        if (due := self.housekeeper.due_in()) is not None:
            delays.append(due)
        return min(delays, default=None)

    def _period(self, node: ManagedNode) -> float:
        try:
            return durations.parse(node.spec.reconcile_period) if node.spec.reconcile_period else self.period
        except ValueError as error:
            if str(error) != self._told:
                log.warning("cannot use spec.reconcilePeriod: %s; it is %g s instead", error, self.period)
            self._told = str(error)
            return self.period
