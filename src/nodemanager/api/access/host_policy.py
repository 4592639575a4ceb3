"""The admission policy that keeps every host to its own objects, as plain objects ready to be applied."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from nodemanager.api import configset
from nodemanager.api.access.host_rights import DAEMONSET, HOSTNAME_LABEL, OPERATOR, OWN_LABELS, POLICY, PREFIX
from nodemanager.api.access.identity import NODE_NAME

GROUP: Final = "admissionregistration.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"

Object = dict[str, Any]


def policies() -> list[Object]:
    """Return the policy and its binding."""
    return [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        _matched([configset.GROUP], ["managednodes", "managednodes/status"]),
                        _matched(["coordination.k8s.io"], ["leases"]),
                        _matched([""], ["secrets", "events", "serviceaccounts/token", "nodes"]),
                    ]
                },
                "matchConditions": [{"name": "is-a-host", "expression": _IS_HOST}],
                "variables": [{"name": name, "expression": text} for name, text in _VARIABLES.items()],
                "validations": [
                    {"expression": check.expression, "message": check.message, "reason": "Forbidden"}
                    for check in _CHECKS
                ],
            },
        },
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        },
    ]


def _matched(groups: list[str], resources: list[str]) -> Object:
    return {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": resources,
    }


_IS_HOST = (
    f"request.userInfo.username.startsWith('{_ACCOUNT}') && "
    f"request.userInfo.username.split(':')[3].startsWith('{PREFIX}') && "
    f"request.userInfo.username.split(':')[3] != '{PREFIX}{OPERATOR}'"
)
_NODE = (
    f"has(request.userInfo.extra) && '{NODE_NAME}' in request.userInfo.extra ?"
    f" request.userInfo.extra['{NODE_NAME}'][0] : ''"
)
_LABELS = "{0} != null && has({0}.metadata.labels) ? {0}.metadata.labels : {{}}"
_VARIABLES = {
    "host": f"request.userInfo.username.split(':')[3].substring({len(PREFIX)})",
    "node": _NODE,
    "kind": "request.resource.resource",
    "old": _LABELS.format("oldObject"),
    "new": _LABELS.format("object"),
    "allowed": "[" + ", ".join(f"'{label}'" for label in OWN_LABELS) + "]",
}
_DELETE = "request.operation == 'DELETE'"
_CREATE = "request.operation == 'CREATE'"
_SAME_SPEC = "has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec)"
_LABELS_ALLOWED = (
    "variables.new.all(key, key in variables.allowed || "
    "(key in variables.old && variables.old[key] == variables.new[key])) && "
    "variables.old.all(key, key in variables.new || key in variables.allowed)"
)
_OWN_KEY = (
    "object.metadata.name.startsWith('wg-') && object.metadata.name.endsWith('-' + variables.host) && "
    "object.metadata.name.size() > variables.host.size() + 4 && "
    "!object.metadata.name.substring(3, object.metadata.name.size() - variables.host.size() - 1)"
    ".contains('-')"
)
_MAY_UPDATE = (
    "authorizer.group('coordination.k8s.io').resource('leases').namespace(request.namespace)"
    ".name(object.metadata.name).check('update').allowed()"
)
_OWN_EVENT = "{0}.involvedObject.kind == 'ManagedNode' && {0}.involvedObject.name == variables.host"
_FINALIZERS = (
    "!has(object.metadata.finalizers) || object.metadata.finalizers.all(one, oldObject != null &&"
    " has(oldObject.metadata.finalizers) && one in oldObject.metadata.finalizers)"
)
_SAME = "has({0}) == has({1}) && (!has({0}) || {0} == {1})"
_ONLY_CORDONED = "variables.old == variables.new && " + " && ".join(
    f"({_SAME.format(f'object.{field}', f'oldObject.{field}')})"
    for field in ("metadata.finalizers", "metadata.ownerReferences", "spec.taints")
)
_NAME = "(request.name != '' ? request.name : object.metadata.name)"


class _Check(NamedTuple):
    """What must hold of one kind of object, and what to say if it does not."""

    kind: str
    holds: str
    message: str

    @property
    def expression(self) -> str:
        return f"variables.kind != '{self.kind}' || ({self.holds})"


_CHECKS = (
    _Check("managednodes", f"!({_DELETE})", "a host may not delete ManagedNodes"),
    _Check(
        "managednodes",
        f"{_DELETE} || {_NAME} == variables.host",
        "a host may only write the ManagedNode of its own name",
    ),
    _Check(
        "managednodes",
        f"{_DELETE} || ({_CREATE} ? (!has(object.spec) || object.spec == {{}}) : ({_SAME_SPEC}))",
        "a host may not change its spec: that is for people",
    ),
    _Check(
        "managednodes",
        f"{_DELETE} || ({_LABELS_ALLOWED})",
        "a host may only set these labels on itself: " + ", ".join(OWN_LABELS),
    ),
    _Check(
        "managednodes",
        f"{_DELETE} || !('{HOSTNAME_LABEL}' in variables.new) ||"
        f" variables.new['{HOSTNAME_LABEL}'] == variables.host",
        f"a host may not give itself the {HOSTNAME_LABEL} of another",
    ),
    _Check(
        "managednodes",  # with one, its rights would outlive its removal
        f"{_DELETE} || ({_FINALIZERS})",
        "a host may not keep its ManagedNode from being removed",
    ),
    _Check("leases", f"!({_DELETE})", "a host may not delete Leases"),
    _Check(
        "leases",
        f"{_DELETE} || !{_NAME}.startsWith('{PREFIX}') || {_NAME} == '{PREFIX}' + variables.host",
        "a host may only renew the Lease of its own name, and those of its lock groups",
    ),
    _Check(
        "leases",
        f"{_DELETE} || !has(object.spec) || !has(object.spec.holderIdentity) ||"
        " object.spec.holderIdentity in ['', variables.host]",
        "a host may hold a Lease in its own name only",
    ),
    _Check(
        "leases",
        f"!({_CREATE}) || ({_MAY_UPDATE})",
        "a host may only create the Lease of its own name, and those of its lock groups",
    ),
    _Check("events", f"!({_DELETE})", "a host may not delete Events"),
    _Check(
        "events",
        f"{_DELETE} || ({_OWN_EVENT.format('object')} && (oldObject == null ||"
        f" {_OWN_EVENT.format('oldObject')}))",
        "a host may only record Events about its own ManagedNode",
    ),
    _Check(
        "serviceaccounts",
        f"request.name == '{PREFIX}' + (variables.host == '{DAEMONSET}' ? variables.node : variables.host)",
        "a host may only get its own token, a pod of the DaemonSet that of the node which its token names",
    ),
    _Check("secrets", _CREATE, "a host may not change Secrets"),
    _Check(
        "nodes",  # with labels and taints it could draw pods to itself that are meant for others
        f"request.operation == 'UPDATE' && {_ONLY_CORDONED}",
        "a host may only cordon its Node, and not change its labels, taints, finalizers and owners",
    ),
    _Check(
        "secrets",
        f"!({_CREATE}) || ({_OWN_KEY})",
        "a host may only create the Secret of its own WireGuard key: wg-INTERFACE-HOST",
    ),
)
