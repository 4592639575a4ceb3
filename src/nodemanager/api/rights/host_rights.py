"""What a host may do in the API: its identity, its rights, and the policy that pins them to its own name.

RBAC says which kinds and verbs. It cannot say "only labels of this list", nor pin the name of
something that is being created; the admission policy can.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nodemanager.api.common.configset import GROUP
from nodemanager.api.common.managednode import LABEL_OS
from nodemanager.api.common.matching import ARCH, OS
from nodemanager.api.kind_parts import READ
from nodemanager.api.rights import rbac_objects
from nodemanager.api.rights.rbac_objects import Object, binding, role, rule

PREFIX: Final = "nodemanager-"
OPERATOR: Final = "operator"
"""The one name that no host may have: its ServiceAccount is the operator's."""
DAEMONSET: Final = "daemonset"
"""Another account: that of agents that run as pods, each of which becomes its own host."""
DAEMONSET_NAMESPACE: Final = "nodemanager-agents"
SUFFIXES: Final = ("-token-refresh", "-drain", "-references")
"""Ends of the names of a host's roles; no host may be called so, or it would share them with another."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OWN_LABELS: Final = (OS, ARCH, HOSTNAME_LABEL, LABEL_OS)
"""Labels that a host may set on itself; with any other it could opt in to what is meant for others."""
LABELS: Final = "labels"
"""No kind: a Role that lets `set` the labels of a name such as role=web is where people declare them."""
SET: Final = "set"
MAX_LABELS: Final = 8
"""How many of them a host may set with one write: each is a question that the policy has to ask."""
MAX_EVENT_HOST: Final = 220
"""How much of a host's name is in those of its Events at most: names have at most 253 characters."""
POLICY: Final = "nodemanager-hosts"
NODE_ROLE: Final = "nodemanager-node"
"""The role that all hosts share."""
MANUAL_ROLE: Final = "nodemanager-host"
"""The role of hosts that a person lets in without `nodemanager rbac`."""
_MAX_NAME: Final = 253


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
    """Namespace of the DaemonSet whose pod on this host may get the host's token; empty = there is none."""
    labels: Sequence[str] = ()
    """Labels with their values, such as role=web, that it may set on its ManagedNode."""


def account_name(hostname: str) -> str:
    """Return the name of a host's ServiceAccount, which is also that of its Lease."""
    return PREFIX + hostname


def host_of(lease: str) -> str:
    """Return the host that a Lease is the sign of life of; empty = it is something else."""
    host = sys.intern(lease.removeprefix(PREFIX))  # who notes it shares it with who has the host
    return host if lease.startswith(PREFIX) and host not in (OPERATOR, DAEMONSET) else ""


def host_of_account(user: str, namespace: str) -> str:
    """Return the host whose ServiceAccount a user name names; empty = it is no host of this namespace."""
    account = user.removeprefix(f"system:serviceaccount:{namespace}:")
    return "" if account == user else host_of(account)


def cluster_name(access: HostAccess, *purpose: str) -> str:
    """Return the name of an object of one host that is in no namespace.

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
        rbac_objects.namespace(namespace),
        rbac_objects.account(name, namespace),
        node_role(),
        node_binding(access),
        role("Role", name, namespace, _own_rules(access)),
        binding("RoleBinding", name, namespace, name, _account(access)),
        role("Role", refresh, namespace, [rule([""], ["serviceaccounts/token"], ["create"], [name])]),
        _token_binding(refresh, access),
    ]
    return [*found, *drain_manifests(access)] if access.kubernetes_node else found


def own_manifests(access: HostAccess) -> list[Object]:
    """Return the objects of this host alone, whatever it was allowed to do, in the order of their deletion.

    Its ServiceAccount goes first: with it every token of the host ends. An API server may take one for some
    seconds more, so what it may do goes before that by which the policy knows it for a host.
    """
    shared = {("Namespace", access.namespace), ("ClusterRole", NODE_ROLE)}
    whole = manifests(replace(access, kubernetes_node=False))
    account, *rest = (one for one in whole if (one["kind"], one["metadata"]["name"]) not in shared)
    return [account, *drain_manifests(access), *rest]


def node_binding(access: HostAccess) -> Object:
    """Return what gives a host the role that all hosts share."""
    return binding("ClusterRoleBinding", cluster_name(access), "", NODE_ROLE, _account(access))


def drain_manifests(access: HostAccess) -> list[Object]:
    """Return what lets a host cordon and drain the Kubernetes Node of its own name."""
    name = cluster_name(access, "drain")
    return [
        role("ClusterRole", name, "", _drain_rules(access.hostname)),
        binding("ClusterRoleBinding", name, "", name, _account(access)),
    ]


def _account(access: HostAccess) -> Object:
    return rbac_objects.account(account_name(access.hostname), access.namespace)


def node_role() -> Object:
    """Return the role of every host: to ask the API about its own identity and rights, and nothing else.

    Kubernetes lets everybody ask by default; clusters whose administrators took that away still
    let hosts check themselves. What a host may do is in the namespace, in a Role of its own.
    """
    return role("ClusterRole", NODE_ROLE, "", _questions())


def manual_role() -> Object:
    """Return a role for hosts that are let in by hand, each of them bound to it in their namespace.

    It cannot name a host, so what keeps each to its own objects there is the admission policy alone. It has
    no `serviceaccounts/token`: who may get everybody's token is no host to that policy any more.
    """
    return role("ClusterRole", MANUAL_ROLE, "", [*_questions(), *_own_rules(HostAccess("", ""))])


def _questions() -> list[Object]:
    return [
        rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
        rule(["authorization.k8s.io"], ["selfsubjectaccessreviews"], ["create"]),
    ]


def _token_binding(name: str, access: HostAccess) -> Object:
    """Return who may get the host's token: itself and, if it is one, the DaemonSet's pod on it.

    All pods of a DaemonSet have one ServiceAccount; the admission policy keeps each to its own node.
    """
    found = binding("RoleBinding", name, access.namespace, name, _account(access))
    if access.daemonset:
        subject = {"kind": "ServiceAccount", "name": PREFIX + DAEMONSET, "namespace": access.daemonset}
        found["subjects"].append(subject)
    return found


def _own_rules(access: HostAccess) -> list[Object]:
    from nodemanager.api import kinds  # agents need names of this module, and no kind that is not for them

    host = access.hostname
    leases = [account_name(host), *access.lock_groups] if host else []
    rules = [
        *(each for kind in kinds.BY_NAME for each in rbac_objects.grants(kind.resource, kind.hosts, host)),
        rule(["coordination.k8s.io"], ["leases"], ["create"]),
        rule(["coordination.k8s.io"], ["leases"], ["get", "update", "patch"], leases),
        rule([""], ["events"], ["create", "patch"]),
    ]
    if access.labels:
        rules.append(rule([GROUP], [LABELS], [SET], access.labels))
    if access.wide_secrets:
        rules += [rule([""], ["secrets", "configmaps"], READ), rule([""], ["secrets"], ["create"])]
    return rules


def _drain_rules(hostname: str) -> list[Object]:
    return [
        rule([""], ["nodes"], ["get", "patch"], [hostname]),
        rule([""], ["pods"], ["get", "list"]),
        rule([""], ["pods/eviction"], ["create"]),
    ]
