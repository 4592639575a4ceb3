"""Tells people what happens to their maintenances: delivers the notices that the status of each has.

Apart from the controller that decides, so that nobody who does not answer delays a decision.
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
