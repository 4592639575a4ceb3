"""Facts about hosts and their tasks for a decision; the operator fills them in from its caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.fleet.maintenance.claims import Claim, Unreadable
from nodemanager.fleet.maintenance.openings import Durations, WindowView
from nodemanager.fleet.maintenance.protected_pods import Protection
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.series import HostGroup

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
UNDONE: Final = "Undone"
HALTED: Final = "Halted"
EXPIRED: Final = "Expired"
REFUSED: Final = "Refused"
ENDS: Final = frozenset((SUCCEEDED, FAILED, UNDONE, HALTED, EXPIRED, REFUSED))
"""Phases of a NodeTask that are final."""


@dataclass(frozen=True, slots=True)
class GateFinding:
    """A gate of health that does not hold, or whose answer is not known."""

    said: str
    reason: Reason = Reason.GATE_BEFORE

    @property
    def is_open(self) -> bool:
        """Whether only the answer of the gate is missing, which comes in a moment."""
        return self.reason is Reason.GATE_NOT_ASKED


@dataclass(frozen=True, slots=True)
class HostHealth:
    """The health of a host."""

    alive: bool | None = True
    """None: no agent was ever heard there."""
    heard: datetime | None = None
    """When the operator last saw its Lease renewed."""
    held: bool = False
    upgrading: bool = False
    """Whether the host upgrades by itself, as its spec.upgrade says."""
    boot_id: str = ""
    failing_before: GateFinding | None = None
    """Which gate of health.before does not hold; None = all hold."""
    failing_after: GateFinding | None = None
    """Which gate of health.after does not hold; None = all hold."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The Kubernetes Node of a host."""

    ready: bool = True
    cordoned: bool = False
    ours: bool = False
    """Whether a visit of ours cordoned the Node."""
    pods: int = 0
    """How many pods a drain has yet to move."""
    blocked_by: str = ""
    """What prevents pods from being moved, such as poddisruptionbudget/web."""
    protected: Protection | None = None
    """A pod that asks for time."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host."""

    name: str
    uid: str
    created: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    health: HostHealth = field(default_factory=HostHealth)
    node: NodeFacts | None = None
    """None: the host is no Kubernetes Node, so there is nothing to cordon or drain."""
    claim: Claim | Unreadable | None = None
    changing: str = ""
    """The ConfigSet whose staged change the host is taking now; empty = none."""

    @property
    def works(self) -> bool:
        """Whether a visit or an upgrade works on the host."""
        return self.claim is not None and self.claim.holds


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One NodeTask of a run."""

    name: str
    phase: str = ""
    attempt: int = 0
    taken: bool = False
    """Whether the agent has begun the task."""
    rebooting: bool = False
    """Whether the step that runs now is a reboot."""
    rebooted: bool = False
    """Whether a step of the task has rebooted the host."""
    ended: datetime | None = None
    windowed: bool = False
    """Whether the task had to begin before a window closed, and no step of it has begun."""
    not_done: Reason | None = None
    """Why the visit failed although the task succeeded."""

    @property
    def is_end(self) -> bool:
        """Whether the task has ended."""
        return self.phase in ENDS

    @property
    def missed_window(self) -> bool:
        """Whether the window closed before the task did anything."""
        return self.phase == EXPIRED and self.windowed


@dataclass(frozen=True, slots=True)
class Run:
    """The run that is under way."""

    id: str
    started_at: datetime
    retried_at: datetime | None = None
    stopped: bool = False
    """Whether the run was stopped, and nobody has let it go on since."""
    ending: Reason | None = None
    """Why no further host is begun with: DELETED, ABORTED, REPLACED."""
    superseded: bool = False
    """Whether another slot is due: then the run does not wait for hosts that cannot begin."""


@dataclass(frozen=True, slots=True)
class MaintenanceFacts:
    """Everything that a decision is made from."""

    uid: str
    spec: NodeMaintenanceSpec
    run: Run
    groups: Sequence[HostGroup]
    """The hosts of the series, in their order."""
    hosts: Mapping[str, HostFacts]
    """All hosts that the decision needs: those of the series, those in work, and those with tasks of the run.
    """
    now: datetime
    window: WindowView = field(default_factory=WindowView)
    tasks: Mapping[str, Sequence[TaskFacts]] = field(default_factory=dict)
    """The NodeTasks of this run, by host."""
    durations: Durations = field(default_factory=Durations)
    problem: tuple[Reason, str] | None = None
    """What is wrong with something that it needs, such as a missing template, and which object that is."""
    series_known: bool = True
    """Whether it is known which hosts are meant; if not, an empty series proves nothing."""
    approved: bool = True

    def is_ours(self, host: HostFacts) -> bool:
        """Tell whether the last visit of a host was one of this run."""
        claim = host.claim
        return isinstance(claim, Claim) and claim.run == self.run.id and claim.uid == self.uid


def unavailable(host: HostFacts) -> Reason | None:
    """Return why a host is unavailable to its users, for any cause; budgets count this."""
    if host.works:
        return host.claim.reason if isinstance(host.claim, Unreadable) else Reason.HOST_BUSY
    if host.health.alive is False:
        return Reason.HOST_SILENT
    if host.node is not None and not host.node.ready:
        return Reason.NODE_NOT_READY
    if host.node is not None and host.node.cordoned:
        return Reason.NODE_CORDONED
    if host.health.upgrading:
        return Reason.HOST_UPGRADING
    return Reason.HOST_CHANGING if host.changing else None


def unfit(host: HostFacts) -> tuple[Reason, str] | None:
    """Return why a host cannot be begun with, for a reason of its own, and the object that it is about."""
    if host.health.alive is None:
        return Reason.HOST_WITHOUT_AGENT, f"managednode/{host.name}"
    reason = unavailable(host)
    if isinstance(host.claim, Claim) and reason is Reason.HOST_BUSY:
        return reason, host.claim.object
    if reason in (Reason.NODE_NOT_READY, Reason.NODE_CORDONED):
        return reason, f"node/{host.name}"
    if reason is Reason.HOST_CHANGING:
        return reason, f"configset/{host.changing}"
    if reason is not None:
        return reason, f"managednode/{host.name}"
    if host.health.held:
        return Reason.HOST_HELD, f"managednode/{host.name}"
    gate = host.health.failing_before
    if gate is not None and not gate.is_open:
        return gate.reason, gate.said
    if host.node is not None and host.node.protected is not None:
        return Reason.POD_PROTECTED, host.node.protected.object
    return None
