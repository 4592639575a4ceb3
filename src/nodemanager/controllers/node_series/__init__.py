"""Reports in every NodeSeries which hosts it selects now."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.node_series import resolving
from nodemanager.controllers.registration import Registration, WatchedKind

REGISTRATION: Final = Registration(
    name="nodeseries",
    kind=NODE_SERIES,
    watches=(
        WatchedKind(NODE_SERIES, resolving.on_series),
        WatchedKind(MANAGED_NODES, resolving.on_node),
        WatchedKind(NODES, resolving.on_kubernetes_node, optional=True),
    ),
    build=resolving.build,
    rights=(Right(NODE_SERIES, ("patch",), "status"),),
)
