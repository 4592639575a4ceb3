"""Kubernetes Nodes of hosts that are worked on: kept free of pods meanwhile, and given back afterwards.

The controllers that work on hosts share this. Its rights are granted separately: without them, no work
begins on a host that is a Kubernetes Node.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.kind_parts import READ
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.disruption import forgotten, planned
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.registration import THE_ONE, Periodic, Registration, WatchedKind
from nodemanager.kube import core

RIGHTS: Final = (
    Right(core.NODES, (*READ, "patch")),
    Right(core.NODES, ("patch",), "status"),
    Right(core.PODS, ("get", "list")),
    Right(core.PODS, ("create",), "eviction"),
)
"""Opt-in: config/rbac/operator-disruption.yaml, or operator.disruption of the chart."""
GRANT: Final = "kubectl apply -f config/rbac/operator-disruption.yaml, or operator.disruption of the chart"
"""How a person grants them."""

REGISTRATION: Final = Registration(
    name="cordons",
    kind=None,
    watches=(
        WatchedKind(NODES, forgotten.on_node, optional=True),
        WatchedKind(MANAGED_NODES, forgotten.on_host),
    ),
    build=forgotten.build,
    periodic=(Periodic(THE_ONE, forgotten.LOOK_SECONDS),),
)

PLANNED: Final = Registration(
    name="plannedmaintenance",
    kind=None,
    watches=(
        WatchedKind(NODES, planned.on_node, optional=True),
        WatchedKind(NODE_MAINTENANCES, planned.on_maintenance),
    ),
    build=planned.build,
    periodic=(Periodic(THE_ONE, forgotten.LOOK_SECONDS),),
)
