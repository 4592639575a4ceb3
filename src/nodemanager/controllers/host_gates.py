"""Gates of health about a host itself: they are answered from caches, without any request."""

from __future__ import annotations

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.kube import conditions


def is_asked(gate: HealthGate) -> bool:
    """Tell whether the answer needs a request."""
    return gate.object is not None or gate.http is not None or gate.prometheus is not None


def missing(gate: HealthGate, host: ManagedNode, node: Node | None) -> str:
    """Return why a gate about a host does not hold; empty = it does."""
    name = host.metadata.name
    if gate.alive and not _is_alive(host):
        return f"managednode/{name}: its agent is silent"
    if gate.ready and node is not None and not node.is_ready:
        return f"node/{name}: not Ready"
    if gate.config_sets_hold and (why := _config_sets_missing(host)):
        return f"managednode/{name}: {why}"
    return ""


def _is_alive(host: ManagedNode) -> bool:
    found = conditions.get(host.status.conditions, node_conditions.ALIVE)
    return found is not None and found.status == conditions.TRUE


def _config_sets_missing(host: ManagedNode) -> str:
    """Return why a host does not have everything that is declared for it."""
    ready = conditions.get(host.status.conditions, conditions.READY)
    if ready is None:
        return "its agent has reported nothing yet"
    return "" if ready.status == conditions.TRUE else ready.message or ready.reason
