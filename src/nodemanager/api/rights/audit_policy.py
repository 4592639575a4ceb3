"""The admission policies that keep history as it was written, for everybody, the operator included.

Only the operator of a namespace adds records there, and only at the end: rules of the CRDs say that nothing
that is there changes, so that it holds without policies, too. Who removes a segment is refused unless it is
sealed, there is a copy of it, and its time is over. A policy has no clock: that the time is over is what the
operator says (`status.expired`), and that it says so only of segments with a copy is checked here. Who
deletes the namespace deletes its log: a namespace that cannot end would hurt more people than it protects.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.rights import admission_policy
from nodemanager.api.rights.admission_policy import Object
from nodemanager.api.rights.host_bounds import CREATE, DELETE, unchanged
from nodemanager.api.rights.operator_rights import NAME

POLICY: Final = "nodemanager-audit"
_OPERATOR: Final = f"request.userInfo.username == 'system:serviceaccount:' + request.namespace + ':{NAME}'"
_NAMESPACE_ENDS: Final = (
    "request.userInfo.username in"
    " ['system:serviceaccount:kube-system:namespace-controller', 'system:kube-controller-manager',"
    " 'system:apiserver']"
)
"""The programs that remove the objects of a deleted namespace, which would otherwise never end."""
_IS_SEGMENT: Final = f"request.resource.resource == '{AUDIT_SEGMENTS.plural}'"
_STATUS: Final = "has({0}.status) && has({0}.status.{1})"
_MAY_GO: Final = (
    f"has(oldObject.spec.sealed) && {_STATUS.format('oldObject', 'exported')}"
    f" && {_STATUS.format('oldObject', 'expired')}"
)
_STAYS: Final = (
    f"!({_STATUS.format('oldObject', 'exported')}) || ({_STATUS.format('object', 'exported')}"
    " && object.status.exported == oldObject.status.exported)"
)
_COPY_FIRST: Final = (
    f"!({_STATUS.format('object', 'expired')}) || (oldObject != null && has(oldObject.spec.sealed)"
    f" && {_STATUS.format('oldObject', 'exported')})"
)
_REMEDY: Final = (
    "to give up the log of a namespace, export it, and delete the ValidatingAdmissionPolicyBinding"
    f" {POLICY} first"
)


def policies() -> list[Object]:
    """Return the policy and its binding."""
    both = [AUDIT_SEGMENTS.plural, AUDIT_CHECKPOINTS.plural]
    resources = [*both, *(f"{one}/status" for one in both)]
    return admission_policy.policy(
        POLICY,
        [admission_policy.matched(AUDIT_SEGMENTS.group, resources)],
        [
            admission_policy.validation(
                f"{DELETE} || {_OPERATOR} || ({_unchanged()})",
                "only the operator adds to the audit log",
                "request.userInfo.username + ' may not write the audit log: only the operator of its"
                " namespace adds to it'",
            ),
            admission_policy.validation(
                f"!({DELETE}) || {_NAMESPACE_ENDS} || ({_OPERATOR} && {_IS_SEGMENT} && {_MAY_GO})",
                "nobody may delete what is in the audit log before it is sealed, exported and expired;"
                f" {_REMEDY}",
            ),
            admission_policy.validation(
                f"{CREATE} || {DELETE} || !({_IS_SEGMENT}) || (({_STAYS}) && ({_COPY_FIRST}))",
                "a segment expires only after there is a copy of it, and that it has one is not taken back",
            ),
        ],
    )


def _unchanged() -> str:
    """Return an expression: a write that changes nothing, as those by which storage is migrated."""
    return f"request.operation == 'UPDATE' && ({unchanged('spec', 'status')})"
