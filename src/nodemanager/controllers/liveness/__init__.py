"""Tells silent hosts from live ones, and reports it on their ManagedNodes."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.liveness import watcher
from nodemanager.controllers.registration import REPORTING, Registration, WatchedKind
from nodemanager.kube.core import LEASES

REGISTRATION: Final = Registration(
    name="liveness",
    kind=MANAGED_NODES,
    watches=(WatchedKind(MANAGED_NODES, watcher.on_node), WatchedKind(LEASES, watcher.on_lease)),
    build=watcher.build,
    rights=(Right(MANAGED_NODES, ("patch",), "status"), REPORTING),
    concurrency=8,  # a rack that loses its power causes many writes at once
)
