"""What one host may read and take turns with, because its ConfigSets say so: a Role of its own, kept true.

The static Role of a host (`host_rights`) has no Secrets in it. This one names exactly those
that the host's ConfigSets refer to, and follows every change of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nodemanager.api.access.host_rights import RBAC, account_name
from nodemanager.api.configset import ConfigSet
from nodemanager.api.managednode import ManagedNode

LABEL: Final = "nodemanager.io/host"
"""On the Roles that the operator keeps: the host it is for."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Needs:
    """Names of what a host needs."""

    secrets: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()
    own_key: str = ""
    """Secret of its WireGuard key, if it is to have one."""


def needs(
    node: ManagedNode, config_sets: Sequence[ConfigSet], secrets: Iterable[str], config_maps: Iterable[str]
) -> Needs:
    """Return what a host needs, sorted, so that equal needs are equal."""
    groups = {
        service.lock_group for one in config_sets for service in one.spec.services if service.lock_group
    }
    if node.spec.upgrade is not None and node.spec.upgrade.group:
        groups.add(node.spec.upgrade.group)
    wire_guard = node.spec.wire_guard
    own = f"wg-{wire_guard.interface}-{node.metadata.name}" if wire_guard and wire_guard.enabled else ""
    return Needs(
        tuple(sorted({*secrets, own} - {""})), tuple(sorted(set(config_maps))), tuple(sorted(groups)), own
    )


def role_name(hostname: str) -> str:
    """Return the name of the Role and of its binding."""
    return f"{account_name(hostname)}-references"


def rules(needed: Needs) -> list[Object]:
    """Return the rules of a host's Role."""
    read = ["get", "list", "watch"]
    found = []
    if needed.secrets:
        found.append(_rule("", "secrets", read, needed.secrets))
    if needed.own_key:
        found.append(_rule("", "secrets", ["create"], ()))  # the admission policy pins the name
    if needed.config_maps:
        found.append(_rule("", "configmaps", read, needed.config_maps))
    if needed.leases:
        found.append(_rule("coordination.k8s.io", "leases", ["get", "update", "patch"], needed.leases))
    return found


def _rule(group: str, resource: str, verbs: list[str], names: Sequence[str]) -> Object:
    rule: Object = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    return {**rule, "resourceNames": list(names)} if names else rule


def objects(node: ManagedNode, needed: Needs) -> tuple[Object, Object]:
    """Return the Role and its binding; they go with the ManagedNode."""
    meta = node.metadata
    name = role_name(meta.name)
    owner = {
        "apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", "name": meta.name, "uid": meta.uid,
    }  # fmt: skip
    about = {
        "name": name,
        "namespace": meta.namespace,
        "labels": {LABEL: meta.name[:63].rstrip("-._")},
        "ownerReferences": [owner],
    }
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": about, "rules": rules(needed)}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": account_name(meta.name), "namespace": meta.namespace}
        ],
    }
    return role, binding
