"""Asks hosts what proposed ConfigSets would do to them, and removes what remains of that."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.previews import reconciling
from nodemanager.controllers.registration import Registration, WatchedKind, itself, nobody

REGISTRATION: Final = Registration(
    name="preview",
    kind=CONFIG_SET_PREVIEWS,
    watches=(
        WatchedKind(CONFIG_SET_PREVIEWS, itself),
        WatchedKind(NODE_TASKS, reconciling.on_task),
        WatchedKind(MANAGED_NODES, nobody),
    ),
    build=reconciling.build,
    rights=(
        Right(CONFIG_SET_PREVIEWS, ("delete",)),
        Right(CONFIG_SET_PREVIEWS, ("patch",), "status"),
        Right(NODE_TASKS, ("create", "delete")),
        Right(MANAGED_NODES, ("patch",)),
    ),
)
