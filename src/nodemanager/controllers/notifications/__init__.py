"""Tells people about their maintenances: delivers the notices in the status of each.

It is separate from the controller that decides, so that a receiver without an answer delays no decision.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.notifications import delivering
from nodemanager.controllers.registration import REPORTING, Registration, WatchedKind
from nodemanager.kube.core import SECRETS

REGISTRATION: Final = Registration(
    name="notifications",
    kind=NODE_MAINTENANCES,
    watches=(WatchedKind(NODE_MAINTENANCES, delivering.on_maintenance),),
    build=delivering.build,
    rights=(Right(NODE_MAINTENANCES, ("patch",), "status"), Right(SECRETS, ("get",)), REPORTING),
    concurrency=4,
)
