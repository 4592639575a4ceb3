"""What a host may do in the API: its identity, its rights, and the policy that pins them to its own name.

RBAC says which kinds and verbs. It cannot say "only labels of this list", nor pin the name of
something that is being created; the admission policy can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from nodemanager.api.common import configset
from nodemanager.api.common.managednode import LABEL_OS
from nodemanager.api.common.matching import ARCH, OS

PREFIX: Final = "nodemanager-"
OPERATOR: Final = "operator"
"""The one name that no host may have: its ServiceAccount is the operator's."""
DAEMONSET: Final = "daemonset"
"""Another one: its ServiceAccount is that of agents that run as pods, each of which becomes its own host."""
DAEMONSET_NAMESPACE: Final = "nodemanager-agents"
SUFFIXES: Final = ("-token-refresh", "-drain", "-references")
"""Ends of the names of a host's roles; no host may be called so, or it would share them with another."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OWN_LABELS: Final = (OS, ARCH, HOSTNAME_LABEL, LABEL_OS)
"""Labels that a host may set on itself; with any other it could opt in to what is meant for others."""
OWN_NAMESPACE: Final = "nodemanager"
"""The namespace that is ours alone; others have pods in theirs that we know nothing about."""
POD_SECURITY: Final = "pod-security.kubernetes.io/"
MAX_EVENT_HOST: Final = 220
"""How much of a host's name is in those of its Events at most: names have at most 253 characters."""
POLICY: Final = "nodemanager-hosts"
RBAC: Final = "rbac.authorization.k8s.io"
NODE_ROLE: Final = "nodemanager-node"
"""The role that all hosts share."""
_MAX_NAME: Final = 253

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HostAccess:
    """How much a host may do."""

    hostname: str
    namespace: str
    kubernetes_node: bool = False
    """It may cordon and drain the Kubernetes Node of its own name."""
    wide_secrets: bool = False
    """It may read all Secrets and ConfigMaps of the namespace: for clusters without our operator."""
    lock_groups: Sequence[str] = ()
    """Leases it may take turns with other hosts with."""
    daemonset: str = ""
    """Namespace of the DaemonSet whose pod on this host may get the host's token; empty = none may."""


def account_name(hostname: str) -> str:
    """Return the name of a host's ServiceAccount, which is also that of its Lease."""
    return PREFIX + hostname


def cluster_name(access: HostAccess, *purpose: str) -> str:
    """Return the name of something that is one host's, and in no namespace.

    Hosts of one name in two namespaces are two hosts. No name of either has a colon in it, so no two
    pairs make one name. One that would be too long is cut, and told apart by a digest.
    """
    name = ":".join(("nodemanager", access.namespace, access.hostname, *purpose))
    if len(name) <= _MAX_NAME:
        return name
    end = ":".join((f"~{hashlib.sha256(name.encode()).hexdigest()[:32]}", *purpose))
    return name[: _MAX_NAME - len(end)] + end


def manifests(access: HostAccess) -> list[Object]:
    """Return everything that lets a host in, in the order to apply it."""
    name, namespace = account_name(access.hostname), access.namespace
    refresh = f"{name}-token-refresh"
    found = [
        _namespace(namespace),
        {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace},
        },
        node_role(),
        node_binding(access),
        _role("Role", name, namespace, _own_rules(access)),
        _binding("RoleBinding", name, namespace, name, access),
        _role("Role", refresh, namespace, [_rule([""], ["serviceaccounts/token"], ["create"], [name])]),
        _token_binding(refresh, access),
    ]  # fmt: skip
    return [*found, *drain_manifests(access)] if access.kubernetes_node else found


def own_manifests(access: HostAccess) -> list[Object]:
    """Return what is this host's alone, whatever it was let do, in the order to delete it.

    Its ServiceAccount goes first: with it every token of the host ends. An API server may take one for some
    seconds more, so what it may do goes before that by which the policy knows it for a host.
    """
    shared = {("Namespace", access.namespace), ("ClusterRole", NODE_ROLE)}
    whole = manifests(replace(access, kubernetes_node=False))
    account, *rest = (one for one in whole if (one["kind"], one["metadata"]["name"]) not in shared)
    return [account, *drain_manifests(access), *rest]


def node_binding(access: HostAccess) -> Object:
    """Return what gives a host the role that all hosts share."""
    return _binding("ClusterRoleBinding", cluster_name(access), "", NODE_ROLE, access)


def drain_manifests(access: HostAccess) -> list[Object]:
    """Return what lets a host cordon and drain the Kubernetes Node of its own name."""
    name = cluster_name(access, "drain")
    return [
        _role("ClusterRole", name, "", _drain_rules(access.hostname)),
        _binding("ClusterRoleBinding", name, "", name, access),
    ]


def node_role() -> Object:
    """Return the role of every host: to ask the API who it is and what it may do, and nothing else.

    Kubernetes lets everybody ask by default; clusters whose administrators took that away still
    let hosts check themselves. What a host may do is in the namespace, in a Role of its own.
    """
    rules = [
        _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
        _rule(["authorization.k8s.io"], ["selfsubjectaccessreviews"], ["create"]),
    ]
    return _role("ClusterRole", NODE_ROLE, "", rules)


def operator_manifests(namespace: str) -> list[Object]:
    """Return what the operator may do, all of it in one namespace.

    It lets hosts read Secrets, and the API lets nobody grant what they have not got themselves.
    The alternative, the verbs `escalate` and `bind`, would let it grant itself anything, up to the
    tokens of all hosts: see docs/adr/0007-rights-of-the-operator.md.
    """
    name, group = PREFIX + OPERATOR, configset.GROUP
    read = ["get", "list", "watch"]
    rules = [
        _rule([group], ["configsets", "managednodes"], read),
        _rule([group], ["configsets/status"], ["patch"]),
        _rule(["coordination.k8s.io"], ["leases"], ["get", "create", "update", "patch"]),
        _rule([RBAC], ["roles", "rolebindings"], [*read, "create", "patch"]),
        _rule([""], ["secrets"], [*read, "create"]),
        _rule([""], ["configmaps"], read),
    ]
    access = HostAccess(OPERATOR, namespace)
    return [
        _namespace(namespace),
        {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace},
        },
        _role("Role", name, namespace, rules),
        _binding("RoleBinding", name, namespace, name, access),
    ]  # fmt: skip


def _namespace(name: str) -> Object:
    """Return a namespace; in our own no pod may run that has any rights on its node.

    Whoever prints it, it is the same object: `kubectl apply` takes labels away that are not said again.
    """
    meta: Object = {"name": name}
    if name == OWN_NAMESPACE:
        meta["labels"] = {f"{POD_SECURITY}{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _token_binding(name: str, access: HostAccess) -> Object:
    """Return who may get the host's token: itself and, if it is one, the DaemonSet's pod on it.

    All pods of a DaemonSet have one ServiceAccount; the admission policy keeps each to its own node.
    """
    binding = _binding("RoleBinding", name, access.namespace, name, access)
    if access.daemonset:
        subject = {"kind": "ServiceAccount", "name": PREFIX + DAEMONSET, "namespace": access.daemonset}
        binding["subjects"].append(subject)
    return binding


def _own_rules(access: HostAccess) -> list[Object]:
    group, host = configset.GROUP, access.hostname
    read = ["get", "list", "watch"]
    leases = [account_name(host), *access.lock_groups]
    rules = [
        _rule([group], ["configsets"], read),
        _rule([group], ["managednodes"], read),
        _rule([group], ["managednodes"], ["create"]),  # RBAC cannot name what does not exist: the policy does
        _rule([group], ["managednodes"], ["update", "patch"], [host]),
        _rule([group], ["managednodes/status"], ["get", "update", "patch"], [host]),
        _rule(["coordination.k8s.io"], ["leases"], ["create"]),
        _rule(["coordination.k8s.io"], ["leases"], ["get", "update", "patch"], leases),
        _rule([""], ["events"], ["create", "patch"]),
    ]
    if access.wide_secrets:
        rules += [_rule([""], ["secrets", "configmaps"], read), _rule([""], ["secrets"], ["create"])]
    return rules


def _drain_rules(hostname: str) -> list[Object]:
    return [
        _rule([""], ["nodes"], ["get", "patch"], [hostname]),
        _rule([""], ["pods"], ["get", "list"]),
        _rule([""], ["pods/eviction"], ["create"]),
    ]


def _rule(groups: list[str], resources: list[str], verbs: list[str], names: Sequence[str] = ()) -> Object:
    rule: Object = {"apiGroups": groups, "resources": resources, "verbs": verbs}
    return {**rule, "resourceNames": list(names)} if names else rule


def _role(kind: str, name: str, namespace: str, rules: list[Object]) -> Object:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": _meta(name, namespace), "rules": rules}


def _binding(kind: str, name: str, namespace: str, role: str, access: HostAccess) -> Object:
    role_kind = "ClusterRole" if kind == "ClusterRoleBinding" else "Role"
    subject = {
        "kind": "ServiceAccount",
        "name": account_name(access.hostname),
        "namespace": access.namespace,
    }
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": _meta(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [subject],
    }


def _meta(name: str, namespace: str) -> Object:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}
