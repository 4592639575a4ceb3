"""A Role for each host, with what its ConfigSets and unfinished tasks refer to."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.kind_parts import READ
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights import host_references
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.host_roles import roles
from nodemanager.controllers.registration import Registration, WatchedKind
from nodemanager.kube.core import CONFIG_MAPS, LEASES, ROLE_BINDINGS, ROLES, SECRETS

_GRANTED: Final = (
    Right(SECRETS, (*READ, "create")),
    Right(CONFIG_MAPS, READ),
    Right(LEASES, ("get", "update", "patch")),
)
"""The rights of hosts (`host_references.rules`): in Kubernetes, nobody can grant rights that they lack."""

REGISTRATION: Final = Registration(
    name="hostrole",
    kind=MANAGED_NODES,
    watches=(
        WatchedKind(CONFIG_SETS, roles.on_config_set),
        WatchedKind(CONFIG_SET_REVISIONS, roles.on_revision),
        WatchedKind(MANAGED_NODES, roles.on_node),
        WatchedKind(NODE_TASKS, roles.on_task),
        WatchedKind(ROLES, roles.on_role, host_references.LABEL),
        WatchedKind(ROLE_BINDINGS, roles.on_role, host_references.LABEL),
    ),
    build=roles.build,
    rights=(Right(ROLES, ("create", "patch")), Right(ROLE_BINDINGS, ("create", "patch")), *_GRANTED),
)
