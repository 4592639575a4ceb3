"""Roles, bindings, accounts and namespaces as plain objects, for whomever they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nodemanager.api.kind_parts import KindRight
from nodemanager.kube.objects import Resource

RBAC: Final = "rbac.authorization.k8s.io"
OWN_NAMESPACE: Final = "nodemanager"
"""The namespace that is ours alone; others have pods in theirs that we know nothing about."""
POD_SECURITY: Final = "pod-security.kubernetes.io/"

Object = dict[str, Any]


def namespace(name: str) -> Object:
    """Return a namespace; in our own no pod may run that has any rights on its node.

    Every command prints the same object, because `kubectl apply` removes labels that are not repeated.
    """
    about: Object = {"name": name}
    if name == OWN_NAMESPACE:
        about["labels"] = {f"{POD_SECURITY}{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": about}


def account(name: str, place: str) -> Object:
    """Return a ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": place}}


def rule(
    groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()
) -> Object:
    """Return a rule of a role; without names it is about every object."""
    found: Object = {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
    return {**found, "resourceNames": list(names)} if names else found


def grants(resource: Resource[Any], granted: Iterable[KindRight], own: str = "") -> list[Object]:
    """Return the rules that grant something on a kind; `own` is the one name that some are about, if any."""
    mine = [own] if own else []
    return [
        rule(
            [resource.group],
            [address(resource, one.subresource)],
            one.verbs,
            mine if one.own else one.names,
        )
        for one in granted
    ]


def address(resource: Resource[Any], subresource: str = "") -> str:
    """Return how rules write a kind, or a subresource of it."""
    return f"{resource.plural}/{subresource}" if subresource else resource.plural


def role(kind: str, name: str, place: str, rules: Sequence[Object]) -> Object:
    """Return a Role or, in no place, a ClusterRole."""
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": _meta(name, place), "rules": list(rules)}


def binding(kind: str, name: str, place: str, role_name: str, subject: Object) -> Object:
    """Return what gives a role to an account."""
    role_kind = "ClusterRole" if kind == "ClusterRoleBinding" else "Role"
    about = subject["metadata"]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": _meta(name, place),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role_name},
        "subjects": [
            {"kind": "ServiceAccount", "name": about["name"], "namespace": about["namespace"]},
        ],
    }


def _meta(name: str, place: str) -> Object:
    return {"name": name, "namespace": place} if place else {"name": name}
