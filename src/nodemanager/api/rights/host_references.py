"""What one host may read and lock because its ConfigSets and tasks refer to it: a Role, kept up to date.

The static Role of a host (`host_rights`) has no Secrets in it. This one names exactly those
that the host's ConfigSets and unfinished tasks refer to, and follows every change of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from nodemanager.api.audit.auditcheckpoint import KEY_SECRET
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.rights.host_rights import account_name
from nodemanager.api.rights.rbac_objects import RBAC
from nodemanager.kube.object_names import is_object_name

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
    # Also if the operator takes that Lease: a host needs the right just when no operator could grant it.
    if node.spec.upgrade is not None and node.spec.upgrade.group:
        groups.add(node.spec.upgrade.group)
    wire_guard = node.spec.wire_guard
    own = f"wg-{wire_guard.interface}-{node.metadata.name}" if wire_guard and wire_guard.enabled else ""
    # Authors of ConfigSets must not get the key of the audit log by referring to it.
    return Needs(
        tuple(sorted({*secrets, own} - {"", KEY_SECRET})),
        tuple(sorted(set(config_maps))),
        tuple(sorted(groups)),
        own,
    )


def with_granted(needed: Needs, granted: Sequence[Mapping[str, Any]]) -> Needs:
    """Return needs with all that the rules name already, while it is unknown what is needed."""

    def joined(resource: str, names: Iterable[str]) -> tuple[str, ...]:
        known = (one.get("resourceNames") or () for one in granted if resource in one["resources"])
        return tuple(sorted({*names, *(name for each in known for name in each)}))

    return replace(
        needed,
        secrets=joined("secrets", needed.secrets),
        config_maps=joined("configmaps", needed.config_maps),
        leases=joined("leases", needed.leases),
    )


def role_name(hostname: str) -> str:
    """Return the name of the Role and of its binding."""
    return f"{account_name(hostname)}-references"


def rules(needed: Needs) -> list[Object]:
    """Return the rules of a host's Role."""
    read = ["get", "list", "watch"]
    found = _named("", "secrets", read, needed.secrets)
    if needed.own_key:  # no rule can name what is not there yet: the admission policy pins the name
        found.append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]})
    found += _named("", "configmaps", read, needed.config_maps)
    return found + _named("coordination.k8s.io", "leases", ["get", "update", "patch"], needed.leases)


def _named(group: str, resource: str, verbs: list[str], names: Sequence[str]) -> list[Object]:
    """Return a rule about objects of these names, or none; what is no name would mean all of them."""
    known = [name for name in names if is_object_name(name)]
    rule: Object = {"apiGroups": [group], "resources": [resource], "verbs": verbs, "resourceNames": known}
    return [rule] if known else []


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
