"""Keeps a deleted ConfigSet that prunes, until its hosts have taken back what they have of it."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.pruning import finalizing
from nodemanager.controllers.registration import REPORTING, Registration, WatchedKind

REGISTRATION: Final = Registration(
    name="prune",
    kind=CONFIG_SETS,
    watches=(
        WatchedKind(CONFIG_SETS, finalizing.on_config_set),
        WatchedKind(MANAGED_NODES, finalizing.on_node),
    ),
    build=finalizing.build,
    rights=(Right(CONFIG_SETS, ("patch",)), REPORTING),
)
