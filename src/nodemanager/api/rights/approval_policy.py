"""The admission policy that lets nobody approve a plan in the name of somebody else."""

from __future__ import annotations

from typing import Final

from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.rights import admission_policy
from nodemanager.api.rights.admission_policy import Object

POLICY: Final = "nodemanager-approvals"


def policies() -> list[Object]:
    """Return the policy and its binding. That what was approved stays so, a rule of the CRD says, too."""
    approvals = MAINTENANCE_APPROVALS
    return admission_policy.policy(
        POLICY,
        [admission_policy.matched(approvals.group, [approvals.plural], ["CREATE", "UPDATE"])],
        [
            admission_policy.validation(
                "oldObject != null ? object.spec == oldObject.spec :"
                " object.spec.approver == request.userInfo.username",
                "spec.approver must be the user who creates the approval",
                "'spec.approver must be ' + request.userInfo.username + ', who creates the approval: nobody"
                " approves in the name of somebody else'",
            )
        ],
    )
