"""Gates of health that must hold before a host begins, and before it counts as done.

Some answers come from the caches, the others from the last answers of the services that are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers import host_gates
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.node_maintenances import observing
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.fleet.maintenance import questions
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.facts import GateFinding
from nodemanager.fleet.maintenance.questions import GateAnswer, Question
from nodemanager.fleet.maintenance.reasons import Reason

_ASKED_BEFORE = frozenset((
    Reason.GATE_BEFORE, Reason.GATE_NOT_ASKED, Reason.GATE_UNANSWERED, Reason.GATE_FORBIDDEN,
))  # fmt: skip
_PROVEN = (State.PROVING, State.SOAKING)


@dataclass(frozen=True, slots=True)
class MaintenanceGates:
    """The gates of a maintenance, and the known answers."""

    namespace: str = ""
    before: Sequence[HealthGate] = ()
    after: Sequence[HealthGate] = ()
    answers: Mapping[Question, GateAnswer] = field(default_factory=dict)
    now: datetime | None = None
    """None: no service is asked here, so gates that would need a question count as holding."""

    @property
    def problem(self) -> Problem | None:
        """What is wrong with the gates; a gate that cannot be asked is never skipped."""
        for where, gates in (("before", self.before), ("after", self.after)):
            for place, gate in enumerate(gates):
                if why := questions.fault(gate):
                    named = f"health.{where}[{place}]"
                    return Problem(Reason.GATE_INVALID, named, f"{named}.{why}")
        return None

    def failing(self, host: ManagedNode, node: Node | None) -> dict[str, GateFinding | None]:
        """Return the first gate of each kind that does not hold, or still has to be asked, and why."""
        if not self.before and not self.after:
            return {}
        found = {}
        for where, gates in (("before", self.before), ("after", self.after)):
            said = [one for gate in gates if (one := self._finding(gate, where, host, node)) is not None]
            # A gate that says no is more useful than one without an answer yet.
            found[where] = next((one for one in said if not one.is_open), said[0] if said else None)
        return found

    def _finding(
        self, gate: HealthGate, where: str, host: ManagedNode, node: Node | None
    ) -> GateFinding | None:
        asked = questions.question(gate, host.metadata.name, self.namespace)
        if asked is None:
            why = host_gates.missing(gate, host, node)
            found = GateFinding(why) if why else None
        elif self.now is None:
            found = None
        elif where == "before":
            found = questions.before(self.answers.get(asked), self.now)
        else:
            claim = observing.claim_of(host)
            since = claim.since if isinstance(claim, Claim) and claim.state is State.PROVING else None
            found = questions.after(self.answers.get(asked), since, self.now)
        if found is None:
            return None
        name = gate.name or (questions.label(asked) if asked is not None else "")
        return GateFinding(f"{name}: {found.said}" if name else found.said, found.reason)

    def questions_before(self, waits: Iterable[HostWait]) -> Iterator[Question]:
        """Yield the questions for hosts whose turn it is, and for those whose gates said no."""
        asked = [gate for gate in self.before if host_gates.is_asked(gate)]
        for wait in waits if asked else ():
            if wait.reason in _ASKED_BEFORE:
                yield from self._of(asked, wait.host)

    def questions_after(self, hosts: Iterable[ManagedNode], uid: str) -> Iterator[Question]:
        """Yield the questions for hosts that are being proven for a maintenance."""
        asked = [gate for gate in self.after if host_gates.is_asked(gate)]
        for host in hosts if asked else ():
            claim = observing.claim_of(host)
            if isinstance(claim, Claim) and claim.uid == uid and claim.state in _PROVEN:
                yield from self._of(asked, host.metadata.name)

    def _of(self, gates: Iterable[HealthGate], host: str) -> Iterator[Question]:
        for gate in gates:
            if (asked := questions.question(gate, host, self.namespace)) is not None:
                yield asked


def gates_of(
    maintenance: NodeMaintenance,
    answers: Mapping[Question, GateAnswer] | None = None,
    now: datetime | None = None,
) -> MaintenanceGates:
    """Return the gates of a maintenance."""
    health = maintenance.spec.health
    if health is None:
        return MaintenanceGates()
    namespace = maintenance.metadata.namespace
    return MaintenanceGates(namespace, health.before, health.after, answers or {}, now)


def told(maintenance: NodeMaintenance) -> dict[str, dict[str, GateFinding]]:
    """Return what the operator last said about gates, by host, for callers that cannot ask themselves."""
    gates = gates_of(maintenance)
    found: dict[str, dict[str, GateFinding]] = {"before": {}, "after": {}}
    asked = {where: any(map(host_gates.is_asked, getattr(gates, where))) for where in found}
    for one in maintenance.status.waiting:
        if one.reason in _ASKED_BEFORE and asked["before"]:
            found["before"] |= dict.fromkeys(one.first, GateFinding(one.object, Reason(one.reason)))
        elif one.reason == Reason.PROVING and asked["after"] and one.object:
            found["after"] |= dict.fromkeys(one.first, GateFinding(one.object))
    return found
