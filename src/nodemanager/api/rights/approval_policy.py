"""The admission policy that lets nobody ask for or approve a plan in the name of somebody else."""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSetSpec
from nodemanager.api.common.rollout import Rollout
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenanceSpec
from nodemanager.api.rights import admission_policy
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.host_bounds import Check, unchanged

POLICY: Final = "nodemanager-approvals"
_MAY_CHANGE: Final = ("paused",)
"""What a user may change without counting as the one who asks for it: an approver may pause."""
_ASKED_FOR: Final = [
    f"spec.{name}" for name in NodeMaintenanceSpec.__struct_encode_fields__ if name not in _MAY_CHANGE
]
_DIFFERENT: Final = (
    "has(object.spec) && has(object.spec.approval) && has(object.spec.approval.differentUser) &&"
    " object.spec.approval.differentUser"
)
_REQUESTER: Final = (
    "has(object.spec.approval.requester) && object.spec.approval.requester == request.userInfo.username"
)
_APPROVER: Final = Check(
    MAINTENANCE_APPROVALS.plural,
    "oldObject != null ? object.spec == oldObject.spec : object.spec.approver == request.userInfo.username",
    "spec.approver must be the user who creates the approval",
)
_ASKS: Final = Check(
    NODE_MAINTENANCES.plural,
    f"!({_DIFFERENT}) || (oldObject != null && has(oldObject.spec) && {unchanged(*_ASKED_FOR)}) ||"
    f" ({_REQUESTER})",
    "spec.approval.requester must be the user who writes the maintenance",
)
_ROLLED_OUT: Final = [
    "metadata.labels",
    *(
        f"spec.{name}"
        for name in ConfigSetSpec.__struct_encode_fields__
        if name not in ("rollout", "enforcement")
    ),
    *(f"spec.rollout.{name}" for name in Rollout.__struct_encode_fields__ if name not in _MAY_CHANGE),
]
_ROLLOUT: Final = "has({0}.spec) && has({0}.spec.rollout)"
_DECLARES: Final = Check(
    CONFIG_SETS.plural,
    f"!({_ROLLOUT.format('object')} && has(object.spec.rollout.approval)"
    " && has(object.spec.rollout.approval.differentUser) && object.spec.rollout.approval.differentUser) ||"
    f" (oldObject != null && {_ROLLOUT.format('oldObject')} && {unchanged(*_ROLLED_OUT)}) ||"
    " (has(object.spec.rollout.approval.requester)"
    " && object.spec.rollout.approval.requester == request.userInfo.username)",
    "spec.rollout.approval.requester must be the user who writes the ConfigSet",
)


def policies() -> list[Object]:
    """Return the policy and its binding. That what was approved stays so, a rule of the CRD says, too."""
    return admission_policy.policy(
        POLICY,
        [
            admission_policy.matched(one.group, [one.plural], ["CREATE", "UPDATE"])
            for one in (MAINTENANCE_APPROVALS, NODE_MAINTENANCES, CONFIG_SETS)
        ],
        [
            admission_policy.validation(
                _APPROVER.expression,
                _APPROVER.message,
                "'spec.approver must be ' + request.userInfo.username + ', who creates the approval: nobody"
                " approves in the name of somebody else'",
            ),
            admission_policy.validation(
                _ASKS.expression,
                _ASKS.message,
                "'spec.approval.requester must be ' + request.userInfo.username + ', who writes the"
                " maintenance: with differentUser, somebody else has to approve it'",
            ),
            admission_policy.validation(
                _DECLARES.expression,
                _DECLARES.message,
                "'spec.rollout.approval.requester must be ' + request.userInfo.username + ', who writes the"
                " ConfigSet: with differentUser, somebody else has to approve it'",
            ),
        ],
        variables={"kind": "request.resource.resource"},
    )
