"""MaintenanceApproval: somebody says yes to one plan of one maintenance."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.maintenance.maintenancewindow import GROUP, VERSION
from nodemanager.kube.hints import NAME_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct


class MaintenanceApprovalSpec(Struct):
    """Who says yes to which plan."""

    maintenance: Annotated[
        str, meta("Name of the NodeMaintenance.", min_length=1, max_length=NAME_MAX, required=True)
    ] = ""
    plan_hash: Annotated[
        str,
        meta(
            "Hash of the plan, as status.plan.hash has it; another plan is not approved.",
            pattern="^[0-9a-f]{64}$",
            max_length=64,
            required=True,
        ),
    ] = ""
    approver: Annotated[
        str,
        meta(
            "Name of the user who approves: whoever creates the object, and nobody else.",
            pattern=PRINTABLE,
            min_length=1,
            max_length=256,
            required=True,
        ),
    ] = ""
    comment: Annotated[str, meta("Anything that others should know.", pattern=PRINTABLE, max_length=512)] = ""


class MaintenanceApproval(Struct):
    """Somebody says yes to one plan of one maintenance."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        MaintenanceApprovalSpec,
        meta(
            "Who says yes to which plan.",
            Rule("self == oldSelf", "cannot be changed: delete it, and approve anew"),
            required=True,
        ),
    ] = MaintenanceApprovalSpec()


MAINTENANCE_APPROVALS: Final = Resource(
    GROUP, VERSION, "MaintenanceApproval", "maintenanceapprovals", MaintenanceApproval
)
