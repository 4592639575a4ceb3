"""Carries out maintenances: decides with `fleet.maintenance`, writes claims, holds Nodes, and makes tasks."""

from __future__ import annotations

from typing import Final

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.node_maintenances import reconciling, waking
from nodemanager.controllers.registration import REPORTING, Registration, WatchedKind, nobody
from nodemanager.kube.core import CONFIG_MAPS, LEASES

REGISTRATION: Final = Registration(
    name="nodemaintenance",
    kind=NODE_MAINTENANCES,
    watches=(
        WatchedKind(NODE_MAINTENANCES, waking.on_maintenance),
        WatchedKind(MAINTENANCE_WINDOWS, waking.on_window),
        WatchedKind(NODE_SERIES, waking.on_series),
        WatchedKind(NODE_OPERATION_TEMPLATES, waking.on_template),
        WatchedKind(MAINTENANCE_APPROVALS, waking.on_approval),
        WatchedKind(MANAGED_NODES, waking.on_host),
        WatchedKind(NODE_TASKS, waking.on_task),
        WatchedKind(CONFIG_SETS, waking.on_config_set),
        WatchedKind(LEASES, nobody),
        WatchedKind(AUDIT_CHECKPOINTS, waking.on_checkpoint, optional=True),
        WatchedKind(NODES, waking.on_node, optional=True),
    ),
    build=reconciling.build,
    rights=(
        Right(NODE_MAINTENANCES, ("patch", "delete")),
        Right(NODE_MAINTENANCES, ("patch",), "status"),
        Right(MANAGED_NODES, ("patch",)),
        Right(NODE_TASKS, ("create", "delete", "patch")),
        Right(CONFIG_SETS, ("create", "patch", "delete")),
        Right(CONFIG_MAPS, ("get",)),
        REPORTING,
    ),
    concurrency=1,  # two decisions in parallel would each spend the same budget
    timeout=120.0,
)
