"""What must hold of a host before it is begun with, and before it counts as done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.node_maintenances import observing
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.fleet.maintenance.reasons import Reason


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of a maintenance."""

    before: Sequence[HealthGate] = ()
    after: Sequence[HealthGate] = ()

    @property
    def problem(self) -> Problem | None:
        """What is wrong with them; a gate that cannot be asked is never passed over."""
        for where, gates in (("before", self.before), ("after", self.after)):
            for place, gate in enumerate(gates):
                if gate.object is not None or gate.http is not None or gate.prometheus is not None:
                    field = f"health.{where}[{place}]"
                    said = f"{field}: gates of objects, addresses and queries are not asked yet; remove it"
                    return Problem(Reason.NOT_SUPPORTED_YET, field, said)
        return None

    def failing(self, host: ManagedNode, node: Node | None) -> dict[str, str]:
        """Return the first gate of each kind that does not hold, and why."""
        if not self.before and not self.after:
            return {}
        return {"before": _failing(self.before, host, node), "after": _failing(self.after, host, node)}


def gates_of(maintenance: NodeMaintenance) -> Gates:
    """Return the gates of a maintenance."""
    health = maintenance.spec.health
    return Gates() if health is None else Gates(health.before, health.after)


def _failing(gates: Sequence[HealthGate], host: ManagedNode, node: Node | None) -> str:
    for gate in gates:
        if why := _missing(gate, host, node):
            return f"{gate.name}: {why}" if gate.name else why
    return ""


def _missing(gate: HealthGate, host: ManagedNode, node: Node | None) -> str:
    name = host.metadata.name
    if gate.alive and not observing.is_alive(host):
        return f"managednode/{name}: its agent is silent"
    if gate.ready and node is not None and not node.is_ready:
        return f"node/{name}: not Ready"
    if gate.config_sets_hold and (why := observing.config_sets_missing(host)):
        return f"managednode/{name}: {why}"
    return ""
