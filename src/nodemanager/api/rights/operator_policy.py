"""The admission policy that keeps the operator to what RBAC cannot say: which part of an object it changes.

It writes on hosts who works on them, and on maintenances that they must not go before hosts are given back.
What people decide, in `spec` and labels, is not its business: whoever takes it over decides nothing there.
"""

from __future__ import annotations

from typing import Any, Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_RETRY,
    ANNOTATION_TOKEN,
    ANNOTATION_VISIT,
    FINALIZER,
    NODE_MAINTENANCES,
)
from nodemanager.api.rights.host_bounds import VARIABLES, Check, only_noted, unchanged
from nodemanager.api.rights.operator_rights import NAME

POLICY: Final = NAME
_ADMISSION: Final = "admissionregistration.k8s.io"
_IS_OPERATOR: Final = f"request.userInfo.username == 'system:serviceaccount:' + request.namespace + ':{NAME}'"
_OTHERS: Final = (
    "(has({0}.metadata.finalizers) ? {0}.metadata.finalizers.filter(one, one != '" + FINALIZER + "') : [])"
)

Object = dict[str, Any]


def policies() -> list[Object]:
    """Return the policy and its binding."""
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
                            "apiGroups": [resource.group],
                            "apiVersions": ["*"],
                            "operations": ["UPDATE"],
                            "resources": [resource.plural],
                        }
                        for resource in (MANAGED_NODES, NODE_MAINTENANCES)
                    ]
                },
                "matchConditions": [{"name": "is-the-operator", "expression": _IS_OPERATOR}],
                "variables": [
                    {"name": "kind", "expression": "request.resource.resource"},
                    *({"name": name, "expression": VARIABLES[name]} for name in ("noted", "notes")),
                ],
                "validations": [
                    {"expression": one.expression, "message": one.message, "reason": "Forbidden"}
                    for one in _CHECKS
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


_CHECKS: Final = (
    Check(
        MANAGED_NODES.plural,
        f"{unchanged('spec', 'metadata.labels', 'metadata.finalizers', 'metadata.ownerReferences')} &&"
        f" {only_noted(ANNOTATION_VISIT, ANNOTATION_TOKEN)}",
        f"the operator may change nothing of a ManagedNode but its annotations {ANNOTATION_VISIT} and"
        f" {ANNOTATION_TOKEN}",
    ),
    Check(
        NODE_MAINTENANCES.plural,
        f"{unchanged('spec', 'metadata.labels', 'metadata.ownerReferences')} &&"
        f" {only_noted(ANNOTATION_RETRY)} && {_OTHERS.format('object')} == {_OTHERS.format('oldObject')}",
        f"the operator may change nothing of a NodeMaintenance but its finalizer {FINALIZER} and the"
        f" annotation {ANNOTATION_RETRY}",
    ),
)
