"""Small makers of RBAC objects and of an authoriser over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nodemanager.kube.rbac.roles import compile_cluster, compile_namespace
from nodemanager.kube.rbac.rules import GROUP, RbacPolicy
from nodemanager.server.access.authz import Authorizer
from support.rbac_world import Lister


def rule(verbs: str, resources: str, groups: str = "", **more: list[str]) -> dict[str, Any]:
    """Return a rule; lists are written with blanks between, and the core group as nothing."""
    return {
        "verbs": verbs.split(),
        "resources": resources.split(),
        "apiGroups": groups.split() or [""],
        **more,
    }


def role(name: str, *rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    """Return a Role or, without namespace, a ClusterRole."""
    metadata: dict[str, Any] = {"name": name, "labels": more.pop("labels", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "rules": list(rules), **more}


def binding(name: str, ref: str, *subjects: str, namespace: str = "") -> dict[str, Any]:
    """Return a binding; `ref` is Kind/name, a subject is Kind/name or Kind/namespace/name."""
    kind, _, role_name = ref.partition("/")
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role_name},
        "subjects": [_subject(one) for one in subjects],
    }


def _subject(text: str) -> dict[str, str]:
    kind, *space, name = text.split("/")
    subject = {"kind": kind, "name": name}
    return subject | {"namespace": space[0]} if space else subject


def authorizer(
    cluster_roles: list[dict[str, Any]],
    cluster_bindings: list[dict[str, Any]],
    roles: list[dict[str, Any]] | None = None,
    bindings: list[dict[str, Any]] | None = None,
) -> Authorizer:
    """Return an authoriser over these objects."""
    objects = {
        "clusterroles": cluster_roles,
        "clusterrolebindings": cluster_bindings,
        "roles": roles or [],
        "rolebindings": bindings or [],
    }
    return Authorizer(Lister(objects=objects))


def compile_policy(
    cluster: tuple[Iterable[dict[str, Any]], Iterable[dict[str, Any]]],
    namespace: str = "",
    local: tuple[Iterable[dict[str, Any]], Iterable[dict[str, Any]]] = ((), ()),
) -> RbacPolicy:
    """Return a policy from roles and bindings of the cluster and of one namespace."""
    return RbacPolicy(compile_cluster(*cluster), compile_namespace(namespace, *local) if namespace else None)
