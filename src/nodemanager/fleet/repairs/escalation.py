"""Hosts with a drift that a person has to look at."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.fleet.maintenance import realtime


def hosts(nodes: Iterable[ManagedNode], maintenance: NodeMaintenance) -> list[str]:
    """Return the hosts on which something of a maintenance was changed that waits for a person; by name.

    What a silent host said last counts: nobody has seen to it since.
    """
    name = maintenance.metadata.name
    sets = {realtime.set_name(name, one.name) for one in realtime.operations(maintenance)}
    if not sets:
        return []
    found = {
        node.metadata.name
        for node in nodes
        if node.status.left_drifts is not None
        for one in node.status.left_drifts.escalated
        if one.configset in sets
    }
    return sorted(found)
