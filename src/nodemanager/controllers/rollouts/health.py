"""The gates of health of a rollout: the questions, and the known answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import SOAKING, RolloutStatus
from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.controllers import disruption, host_gates
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.gate_asking import AT_ONCE
from nodemanager.fleet.maintenance import questions
from nodemanager.fleet.maintenance.questions import GateAnswer, Question
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.rollout import widening
from nodemanager.fleet.rollout.gates import HealthFinding
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times
from nodemanager.kube.go import durations

MOST_HOSTS: Final = 100
"""The most hosts with the change that gates are about: as many as are asked about at once."""
PATIENCE: Final = "10m"
_REASONS: Final = {
    Reason.GATE_BEFORE: RolloutReason.GATE_FAILS,
    Reason.GATE_NOT_ASKED: RolloutReason.GATE_NOT_ASKED,
    Reason.GATE_UNANSWERED: RolloutReason.GATE_UNANSWERED,
    Reason.GATE_FORBIDDEN: RolloutReason.GATE_FORBIDDEN,
}

ASKED: Final = frozenset(_REASONS.values())
"""Reasons of a rollout that waits for the answers of gates."""
KEPT_BACK: Final = frozenset(
    (
        RolloutReason.AUDIT_BROKEN,
        RolloutReason.GROUP_MISMATCH,
        RolloutReason.NOT_APPROVED,
        RolloutReason.WINDOW_CLOSED,
        RolloutReason.WINDOW_NOT_FOUND,
        RolloutReason.WINDOW_INVALID,
        RolloutReason.BUDGET_SPENT,
    )
)
"""Reasons of a rollout that waits for something else, while its hosts with the change are healthy."""


@dataclass(frozen=True, slots=True)
class RolloutHealth:
    """The gates of one rollout, and the hosts that have the change."""

    gates: Sequence[HealthGate]
    namespace: str
    hosts: Sequence[ManagedNode]
    node_of: Callable[[str], Node | None]
    """The Kubernetes Node of a host."""
    nodes_refused: str = ""
    """Why Nodes cannot be read."""
    since: datetime | None = None
    """Answers from before this time do not prove that hosts are well with the change; None = no proof is
    needed."""

    def questions(self) -> Iterator[Question]:
        """Yield the questions for other services."""
        for gate in self.gates:
            yield from self._asked(gate)

    def finding(self, answers: Mapping[Question, GateAnswer], now: datetime) -> HealthFinding | None:
        """Return the first gate that says no, or else the first one without an answer; None = all hold."""
        found = [
            one for place, gate in enumerate(self.gates) for one in self._findings(place, gate, answers, now)
        ]
        return next((one for one in found if one.is_no), found[0] if found else None)

    def _findings(
        self, place: int, gate: HealthGate, answers: Mapping[Question, GateAnswer], now: datetime
    ) -> Iterator[HealthFinding]:
        patience = durations.parse(gate.timeout or PATIENCE)
        if why := questions.fault(gate):
            yield HealthFinding(RolloutReason.GATE_INVALID, f"health[{place}].{why}")
            return
        if gate.ready and self.nodes_refused:
            said = f"ready: {self.nodes_refused}; {disruption.GRANT}"
            yield HealthFinding(RolloutReason.GATE_FORBIDDEN, said)
            return
        named = f"{gate.name}: " if gate.name else ""
        for host in self.hosts:
            if why := host_gates.missing(gate, host, self.node_of(host.metadata.name)):
                yield HealthFinding(RolloutReason.GATE_FAILS, f"{named}{why}", patience)
        for asked in self._asked(gate):
            known = answers.get(asked)
            if self.since is not None:
                no = questions.after(known, self.since, now)
            else:
                no = questions.before(known, now, questions.STALE if self._are_many else None)
            if no is not None:
                said = f"{gate.name or questions.label(asked)}: {no.said}"
                no_since = known.no_since if known is not None else None
                yield HealthFinding(_REASONS[no.reason], said, patience, no_since)

    @property
    def _are_many(self) -> bool:
        """Whether there are too many questions to get all answers within a moment."""
        return bool(self.hosts) or len(self.gates) > AT_ONCE

    def _asked(self, gate: HealthGate) -> Iterator[Question]:
        """Yield the questions of a gate; only one, if it is not about a host."""
        asked = questions.question(gate, questions.HOST, self.namespace)
        if asked is None:
            return
        if asked == questions.question(gate, "", self.namespace):
            yield asked
            return
        for host in self.hosts:
            if (one := questions.question(gate, host.metadata.name, self.namespace)) is not None:
                yield one


def is_asked_for(status: RolloutStatus) -> bool:
    """Tell whether the answers of gates matter now: hosts with the change soak or wait, or no host has it."""
    kept_back = status.reason in KEPT_BACK and widening.has_begun(status)
    return status.phase == SOAKING or status.reason in ASKED or kept_back


def proof_since(published: RolloutStatus) -> datetime | None:
    """Return from which time on an answer proves that hosts are well with the change.

    That is when all of them were healthy, and somebody began to wait, for answers or for something else: as
    published, in whole seconds. None is needed before the first stage, nor once there was one; but what is
    known of a host that comes to a soak may be of an earlier change.
    """
    since = times.parse(published.since)
    if published.phase == SOAKING:
        return since - questions.STALE if since is not None else None
    waits = published.reason == RolloutReason.GATE_NOT_ASKED or published.reason in KEPT_BACK
    if (published.reason in ASKED and not waits) or not widening.has_begun(published):
        return None
    proven = since if waits else None
    return proven + timedelta(seconds=1) if proven is not None else datetime.max.replace(tzinfo=UTC)
