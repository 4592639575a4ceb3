"""The parts of one agent that other parts use, once all of them are connected."""

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
    """The facts about this host for `nodemanager status`."""
    last_pass: LastPass
    host_pass: HostPass
    drifts: DriftLog
    trail: AuditTrail
    holds: HoldKeeper

    @property
    def requests(self) -> Requests:
        """Accepts requests for a pass."""
        return self.host_pass.requests

    @property
    def writer(self) -> StatusWriter:
        """The only writer of the status."""
        return self.host_pass.reports.writer

    @property
    def sources(self) -> DeclaredSources:
        """The sources of the wanted state."""
        return self.host_pass.declared.sources

    @property
    def reachability(self) -> ApiReachability:
        """Whether the API answers and accepts us."""
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
