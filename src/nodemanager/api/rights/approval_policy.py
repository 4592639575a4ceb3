"""The admission policy that lets nobody approve a plan in the name of somebody else."""

from __future__ import annotations

from typing import Any, Final

from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS

POLICY: Final = "nodemanager-approvals"
_ADMISSION: Final = "admissionregistration.k8s.io"

Object = dict[str, Any]


def policies() -> list[Object]:
    """Return the policy and its binding. That what was approved stays so, a rule of the CRD says, too."""
    return [
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [MAINTENANCE_APPROVALS.group],
                            "apiVersions": ["*"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": [MAINTENANCE_APPROVALS.plural],
                        }
                    ]
                },
                "validations": [
                    {
                        "expression": (
                            "oldObject != null ? object.spec == oldObject.spec :"
                            " object.spec.approver == request.userInfo.username"
                        ),
                        "message": "spec.approver must be the user who creates the approval",
                        "messageExpression": (
                            "'spec.approver must be ' + request.userInfo.username + ', who creates the"
                            " approval: nobody approves in the name of somebody else'"
                        ),
                        "reason": "Forbidden",
                    }
                ],
            },
        },
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        },
    ]
