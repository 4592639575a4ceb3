"""Reports in every MaintenanceWindow whether it is open, and when it opens next."""

from __future__ import annotations

from typing import Final

from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.maintenance_windows import opening
from nodemanager.controllers.registration import REPORTING, Registration, WatchedKind
from nodemanager.kube.core import CONFIG_MAPS

REGISTRATION: Final = Registration(
    name="maintenancewindow",
    kind=MAINTENANCE_WINDOWS,
    watches=(WatchedKind(MAINTENANCE_WINDOWS, opening.on_window),),
    build=opening.build,
    rights=(Right(MAINTENANCE_WINDOWS, ("patch",), "status"), Right(CONFIG_MAPS, ("get",)), REPORTING),
)
