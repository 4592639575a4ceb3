"""Makes revisions of ConfigSets, and publishes which of them hosts should have."""

from __future__ import annotations

from typing import Final

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rolloutpolicy import ROLLOUT_POLICIES
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers import audit_gate
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.registration import Registration, WatchedKind, nobody
from nodemanager.controllers.rollouts import reconciling, waking
from nodemanager.kube.core import CONFIG_MAPS

REGISTRATION: Final = Registration(
    name="rollout",
    kind=CONFIG_SETS,
    watches=(
        WatchedKind(CONFIG_SETS, waking.on_config_set),
        WatchedKind(CONFIG_SET_REVISIONS, waking.on_revision),
        WatchedKind(ROLLOUT_POLICIES, waking.on_policy),
        WatchedKind(MANAGED_NODES, waking.on_node),
        WatchedKind(MAINTENANCE_WINDOWS, waking.on_window),
        WatchedKind(MAINTENANCE_APPROVALS, waking.on_approval),
        WatchedKind(AUDIT_CHECKPOINTS, audit_gate.wakes(CONFIG_SETS), optional=True),
        WatchedKind(NODES, nobody, optional=True),
    ),
    build=reconciling.build,
    rights=(
        Right(CONFIG_SETS, ("patch",), "status"),
        Right(CONFIG_SET_REVISIONS, ("create", "delete")),
        Right(CONFIG_MAPS, ("get",)),
    ),
)
