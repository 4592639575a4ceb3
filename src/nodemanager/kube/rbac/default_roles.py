"""The ClusterRoles and bindings a Kubernetes API comes with, for the kinds that we serve.

Names, labels and meaning are those of Kubernetes, because people bind to them; rules about kinds
that are not served here are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from nodemanager.kube.rbac.identity import AUTHENTICATED, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED
from nodemanager.kube.rbac.rules import ALL, GROUP

_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_EVENTS: Final = ("", "events.k8s.io")
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}

Rules = list[dict[str, Any]]


def _rule(verbs: Iterable[str], groups: Iterable[str], *resources: str) -> dict[str, Any]:
    return {"verbs": sorted(verbs), "apiGroups": list(groups), "resources": sorted(resources)}


def _paths(*paths: str, verbs: Iterable[str] = ("get",)) -> dict[str, Any]:
    return {"verbs": list(verbs), "nonResourceURLs": sorted(paths)}


def _view() -> Rules:
    return [
        _rule(_READ, [""], "configmaps", "pods", "serviceaccounts"),
        _rule(_READ, [""], "namespaces/status", "pods/status"),
        _rule(_READ, [""], "namespaces"),
        _rule(_READ, _EVENTS, "events"),
        _rule(_READ, ["policy"], "poddisruptionbudgets", "poddisruptionbudgets/status"),
    ]


def _edit() -> Rules:
    return [
        _rule(_READ, [""], "secrets"),
        _rule(["impersonate"], [""], "serviceaccounts"),
        _rule(_WRITE, [""], "pods"),
        _rule(["create"], [""], "pods/eviction"),
        _rule(_WRITE, [""], "configmaps", "secrets", "serviceaccounts"),
        _rule(["create"], [""], "serviceaccounts/token"),
        _rule(_WRITE, _EVENTS, "events"),
        _rule(_WRITE, ["policy"], "poddisruptionbudgets"),
        _rule((*_READ, *_WRITE), ["coordination.k8s.io"], "leases"),
    ]


def _admin() -> Rules:
    return [
        _rule(["create"], ["authorization.k8s.io"], "localsubjectaccessreviews"),
        _rule((*_READ, *_WRITE), [GROUP], "rolebindings", "roles"),
    ]


def _cluster_rules() -> dict[str, Rules]:
    """Return the roles with rules of their own, by name."""
    issuer = ("/.well-known/openid-configuration", "/openid/v1/jwks")
    version = ("/version", "/version/")
    return {
        "cluster-admin": [_rule([ALL], [ALL], ALL), _paths(ALL, verbs=[ALL])],
        "system:auth-delegator": [
            _rule(["create"], ["authentication.k8s.io"], "tokenreviews"),
            _rule(["create"], ["authorization.k8s.io"], "subjectaccessreviews"),
        ],
        "system:basic-user": [
            _rule(
                ["create"], ["authorization.k8s.io"], "selfsubjectaccessreviews", "selfsubjectrulesreviews"
            ),
            _rule(["create"], ["authentication.k8s.io"], "selfsubjectreviews"),
        ],
        "system:discovery": [
            _paths(*_HEALTH, *version, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
        ],
        "system:monitoring": [
            _paths(
                *_HEALTH,
                *(f"{path}/*" for path in _HEALTH),
                "/metrics",
                "/metrics/slis",
                "/flagz",
                "/statusz",
            )
        ],
        "system:public-info-viewer": [_paths(*_HEALTH, *version)],
        "system:service-account-issuer-discovery": [_paths(*issuer, *(f"{path}/" for path in issuer))],
    }


def _role(name: str, rules: Rules | None, labels: dict[str, str], gathers: str = "") -> dict[str, Any]:
    role: dict[str, Any] = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": _LABELS | labels, "annotations": dict(_ANNOTATIONS)},
        "rules": rules,
    }
    if gathers:
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + gathers: "true"}}]}
    return role


def cluster_roles() -> list[dict[str, Any]]:
    """Return the default ClusterRoles, each a new object."""
    roles = [_role(name, rules, {}) for name, rules in _cluster_rules().items()]
    parts = {"admin": _admin(), "edit": _edit(), "view": _view()}
    roles += [
        _role(f"system:aggregate-to-{name}", rules, {_AGGREGATE + name: "true"})
        for name, rules in parts.items()
    ]
    return [
        *roles,
        _role("admin", None, {}, gathers="admin"),
        _role("edit", None, {_AGGREGATE + "admin": "true"}, gathers="edit"),
        _role("view", None, {_AGGREGATE + "edit": "true"}, gathers="view"),
    ]


def cluster_role_bindings() -> list[dict[str, Any]]:
    """Return the default ClusterRoleBindings, each a new object."""
    bound = {
        "cluster-admin": [MASTERS],
        "system:basic-user": [AUTHENTICATED],
        "system:discovery": [AUTHENTICATED],
        "system:monitoring": ["system:monitoring"],
        "system:public-info-viewer": [AUTHENTICATED, UNAUTHENTICATED],
        "system:service-account-issuer-discovery": [SERVICE_ACCOUNTS],
    }
    return [_binding(name, groups) for name, groups in bound.items()]


def _binding(name: str, groups: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups],
    }
