"""Sums up what hosts report about each ConfigSet."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.configsets import rollup
from nodemanager.controllers.registration import Registration, WatchedKind

REGISTRATION: Final = Registration(
    name="configset",
    kind=CONFIG_SETS,
    watches=(WatchedKind(CONFIG_SETS, rollup.on_config_set), WatchedKind(MANAGED_NODES, rollup.on_node)),
    build=rollup.build,
    rights=(Right(CONFIG_SETS, ("patch",), "status"),),
)
