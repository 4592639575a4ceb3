"""Ends NodeTasks that no agent took in time, and removes those that ended long ago."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.node_tasks import keeping
from nodemanager.controllers.registration import REPORTING, Registration, WatchedKind, nobody

REGISTRATION: Final = Registration(
    name="nodetask",
    kind=NODE_TASKS,
    watches=(
        WatchedKind(NODE_TASKS, keeping.on_task),
        WatchedKind(MANAGED_NODES, keeping.on_node),
        WatchedKind(NODE_MAINTENANCES, nobody),
    ),
    build=keeping.build,
    rights=(Right(NODE_TASKS, ("delete",)), Right(NODE_TASKS, ("patch",), "status"), REPORTING),
)
