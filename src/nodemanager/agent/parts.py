"""The parts of one agent that others ask for something, once all of them are wired together."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.audit.audit_trail import AuditTrail
from nodemanager.agent.declared.sources import DeclaredSources
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.holds.keeping import HoldKeeper
from nodemanager.agent.link.api_reachability import ApiReachability
from nodemanager.agent.passes.host_pass import HostPass
from nodemanager.agent.report.local_status import Board
from nodemanager.agent.report.status_sources import LastPass
from nodemanager.agent.report.status_writer import StatusWriter
from nodemanager.agent.requests import Requests
from nodemanager.runtime.manager import Manager


@dataclass(frozen=True, slots=True)
class Agent:
    """All parts of one agent."""

    manager: Manager
    managed_host: ManagedHost
    board: Board
    """What is known of this host, for `nodemanager status`."""
    last_pass: LastPass
    host_pass: HostPass
    drifts: DriftLog
    trail: AuditTrail
    holds: HoldKeeper

    @property
    def requests(self) -> Requests:
        """Where to ask for a pass."""
        return self.host_pass.requests

    @property
    def writer(self) -> StatusWriter:
        """What alone writes the status."""
        return self.host_pass.reports.writer

    @property
    def sources(self) -> DeclaredSources:
        """What says what this host shall be."""
        return self.host_pass.declared.sources

    @property
    def reachability(self) -> ApiReachability:
        """How the agent stands with the API."""
        return self.sources.reachability

    def close(self) -> None:
        """Give back what is held open."""
        for one in (
            self.drifts,
            self.trail,
            self.holds,
            self.sources.memory,
            self.reachability,
            self.writer.inspector,
            self.managed_host,
        ):
            one.close()
