"""Reports repairs: log lines, Events and metrics at once, the status in a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodemanager.agent.drift.repair_backoff import ContestedResource
from nodemanager.agent.report.reporting import Reporter
from nodemanager.agent.report.status_writer import StatusWriter
from nodemanager.host.results import Result


def _nobody(_results: Sequence[Result]) -> None:
    """Record nothing."""


@dataclass(frozen=True, slots=True)
class RepairReports:
    """What the repair loop reports, and where."""

    reporter: Reporter
    writer: StatusWriter
    changed: Callable[[Sequence[Result]], None] = _nobody
    """Records what was changed."""

    def repaired(self, results: Sequence[Result], seconds: float) -> None:
        """Count and log what was put back so many seconds after it was touched."""
        self.reporter.repaired(results, seconds)
        self.changed(results)

    def contested(self, one: ContestedResource) -> None:
        """Warn that somebody else keeps changing something."""
        self.reporter.contested(self.writer.node.known(), one)

    def report(self, *, inventory: bool = False) -> None:
        """Have the status written in a moment; after another look at the host, if its `inventory` changed."""
        self.writer.request(look=inventory)
