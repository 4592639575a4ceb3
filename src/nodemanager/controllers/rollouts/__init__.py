"""Makes revisions of ConfigSets, and publishes which of them hosts shall have."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.registration import Registration, WatchedKind
from nodemanager.controllers.rollouts import reconciling, waking

REGISTRATION: Final = Registration(
    name="rollout",
    kind=CONFIG_SETS,
    watches=(
        WatchedKind(CONFIG_SETS, waking.on_config_set),
        WatchedKind(CONFIG_SET_REVISIONS, waking.on_revision),
        WatchedKind(MANAGED_NODES, waking.on_node),
    ),
    build=reconciling.build,
    rights=(
        Right(CONFIG_SETS, ("patch",), "status"),
        Right(CONFIG_SET_REVISIONS, ("create", "delete")),
    ),
)
