"""MaintenanceApproval: somebody says yes to one plan of one maintenance, or to one change of a ConfigSet."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.maintenance.maintenancewindow import GROUP, VERSION
from nodemanager.kube.hints import NAME_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct


class MaintenanceApprovalSpec(Struct):
    """Who says yes to which plan."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.maintenance) != has(self.configSet)", "must have either maintenance or configSet", ""),
    )

    maintenance: Annotated[str, meta("Name of the NodeMaintenance.", min_length=1, max_length=NAME_MAX)] = ""
    config_set: Annotated[
        str, meta("Or name of the ConfigSet, whose change is approved.", min_length=1, max_length=NAME_MAX)
    ] = ""
    plan_hash: Annotated[
        str,
        meta(
            "Hash of the plan, as status.plan.hash has it; another plan is not approved. For a ConfigSet: as "
            "the message of its rollout has it.",
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
    """Somebody says yes to one plan of one maintenance, or to one change of a ConfigSet."""

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
