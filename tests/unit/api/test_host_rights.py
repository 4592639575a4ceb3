"""What a host and the operator may do by RBAC, decided by the rules themselves, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.api.common.configset import GROUP
from nodemanager.api.rights import host_rights
from nodemanager.api.rights.host_rights import HostAccess, cluster_name
from nodemanager.api.rights.rbac_objects import RBAC
from nodemanager.controllers import assembly
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.kube.rbac.rules import allowed
from support.rbac_objects import compile_policy

LEASES = "coordination.k8s.io"
PLAIN = HostAccess("web1", "ns")


def may(objects: list[dict[str, Any]], user: str, verb: str, what: str, **fields: str) -> bool:
    """Tell whether these objects let a user do something in the namespace, or with namespace="" outside."""
    resource, _, subresource = what.partition("/")
    namespace = fields.setdefault("namespace", "ns")
    kinds = {kind: [one for one in objects if one["kind"] == kind] for kind in
             ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")}  # fmt: skip
    cluster = kinds["ClusterRole"], kinds["ClusterRoleBinding"]
    here = [[one for one in kinds[kind] if one["metadata"]["namespace"] == namespace]
            for kind in ("Role", "RoleBinding")]  # fmt: skip
    policy = compile_policy(cluster, namespace, (here[0], here[1])) if namespace else compile_policy(cluster)
    asked = Attributes(verb, resource=resource, subresource=subresource, **fields)  # type: ignore[arg-type]
    return allowed(User(f"system:serviceaccount:{user}"), asked, policy).allowed


@pytest.mark.parametrize(
    ("verb", "what", "fields", "expected"),
    [
        ("list", "configsets", {"group": GROUP}, True),
        ("create", "configsets", {"group": GROUP}, False),
        ("watch", "managednodes", {"group": GROUP}, True),
        ("create", "managednodes", {"group": GROUP}, True),
        ("patch", "managednodes", {"group": GROUP, "name": "web1"}, True),
        ("patch", "managednodes", {"group": GROUP, "name": "web2"}, False),
        ("delete", "managednodes", {"group": GROUP, "name": "web1"}, False),
        ("patch", "managednodes/status", {"group": GROUP, "name": "web1"}, True),
        ("patch", "managednodes/status", {"group": GROUP, "name": "web2"}, False),
        ("patch", "configsets/status", {"group": GROUP, "name": "base"}, False),
        ("patch", "leases", {"group": LEASES, "name": "nodemanager-web1"}, True),
        ("patch", "leases", {"group": LEASES, "name": "nodemanager-web2"}, False),
        ("patch", "leases", {"group": LEASES, "name": "group"}, False),
        ("create", "events", {}, True),
        ("get", "secrets", {"name": "x"}, False),
        ("create", "secrets", {}, False),
        ("create", "serviceaccounts/token", {"name": "nodemanager-web1"}, True),
        ("create", "serviceaccounts/token", {"name": "nodemanager-operator"}, False),
        ("create", "selfsubjectreviews", {"group": "authentication.k8s.io", "namespace": ""}, True),
        ("create", "selfsubjectaccessreviews", {"group": "authorization.k8s.io", "namespace": ""}, True),
        ("get", "nodes", {"name": "web1", "namespace": ""}, False),
        ("list", "configsets", {"group": GROUP, "namespace": "other"}, False),
    ],
)
def test_a_host(verb: str, what: str, fields: dict[str, str], expected: bool) -> None:
    objects = host_rights.manifests(PLAIN)
    assert may(objects, "ns:nodemanager-web1", verb, what, **fields) is expected
    assert not may(objects, "ns:nodemanager-web2", verb, what, **fields)
    assert not may(objects, "other:nodemanager-web1", verb, what, **fields)


@pytest.mark.parametrize(
    ("access", "verb", "what", "fields"),
    [
        (HostAccess("web1", "ns", wide_secrets=True), "list", "secrets", {}),
        (HostAccess("web1", "ns", wide_secrets=True), "get", "configmaps", {}),
        (HostAccess("web1", "ns", wide_secrets=True), "create", "secrets", {}),
        (
            HostAccess("web1", "ns", lock_groups=("group",)),
            "patch",
            "leases",
            {"group": LEASES, "name": "group"},
        ),
        (HostAccess("web1", "ns", kubernetes_node=True), "patch", "nodes", {"name": "web1", "namespace": ""}),
        (HostAccess("web1", "ns", kubernetes_node=True), "create", "pods/eviction", {"namespace": "any"}),
        (HostAccess("web1", "ns", kubernetes_node=True), "list", "pods", {"namespace": ""}),
    ],
)
def test_what_a_host_may_be_allowed_besides(
    access: HostAccess, verb: str, what: str, fields: dict[str, str]
) -> None:
    assert may(host_rights.manifests(access), "ns:nodemanager-web1", verb, what, **dict(fields))
    assert not may(host_rights.manifests(PLAIN), "ns:nodemanager-web1", verb, what, **dict(fields))


def test_a_host_drains_no_other_node_and_writes_no_secret() -> None:
    wide = HostAccess("web1", "ns", kubernetes_node=True, wide_secrets=True)
    objects, host = host_rights.manifests(wide), "ns:nodemanager-web1"
    assert not may(objects, host, "patch", "nodes", name="web2", namespace="")
    assert not may(objects, host, "patch", "secrets", name="x")
    assert not may(objects, host, "create", "configmaps")


def test_who_may_get_the_token_of_a_host() -> None:
    token = ("create", "serviceaccounts/token")
    pods = HostAccess("web1", "ns", daemonset="agents")
    for access, expected in ((PLAIN, False), (pods, True)):
        objects = host_rights.manifests(access)
        assert may(objects, "agents:nodemanager-daemonset", *token, name="nodemanager-web1") is expected
        assert not may(objects, "ns:nodemanager-daemonset", *token, name="nodemanager-web1")
        assert not may(objects, "agents:nodemanager-daemonset", "list", "configsets", group=GROUP)


@pytest.mark.parametrize(
    ("verb", "what", "fields", "expected"),
    [
        ("watch", "configsets", {"group": GROUP}, True),
        ("list", "managednodes", {"group": GROUP}, True),
        ("patch", "managednodes", {"group": GROUP, "name": "web1"}, True),
        ("update", "managednodes", {"group": GROUP, "name": "web1"}, False),
        ("patch", "configsets/status", {"group": GROUP, "name": "base"}, True),
        ("create", "leases", {"group": LEASES}, True),
        ("patch", "roles", {"group": RBAC, "name": "r"}, True),
        ("create", "rolebindings", {"group": RBAC}, True),
        ("delete", "roles", {"group": RBAC, "name": "r"}, False),
        ("escalate", "roles", {"group": RBAC, "name": "r"}, False),
        ("list", "secrets", {}, True),
        ("create", "secrets", {}, True),
        ("patch", "secrets", {"name": "x"}, False),
        ("get", "configmaps", {"name": "x"}, True),
        ("create", "configmaps", {}, False),
        ("create", "serviceaccounts/token", {"name": "nodemanager-web1"}, False),
        ("list", "secrets", {"namespace": "other"}, False),
    ],
)
def test_the_operator(verb: str, what: str, fields: dict[str, str], expected: bool) -> None:
    objects = assembly.manifests("ns")
    assert may(objects, "ns:nodemanager-operator", verb, what, **fields) is expected
    assert not may(objects, "ns:nodemanager-web1", verb, what, **fields)


def test_what_is_a_host_s_alone_goes_with_it_its_account_first() -> None:
    found = host_rights.own_manifests(HostAccess("web1", "ns", lock_groups=("g",)))
    names = [(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", "")) for one in found]
    assert names == [
        ("ServiceAccount", "nodemanager-web1", "ns"),
        ("ClusterRole", "nodemanager:ns:web1:drain", ""),
        ("ClusterRoleBinding", "nodemanager:ns:web1:drain", ""),
        ("ClusterRoleBinding", "nodemanager:ns:web1", ""),
        ("Role", "nodemanager-web1", "ns"),
        ("RoleBinding", "nodemanager-web1", "ns"),
        ("Role", "nodemanager-web1-token-refresh", "ns"),
        ("RoleBinding", "nodemanager-web1-token-refresh", "ns"),
    ]
    assert found == host_rights.own_manifests(
        HostAccess("web1", "ns", kubernetes_node=True, lock_groups=("g",))
    )


def test_names_that_would_be_too_long_are_cut_and_told_apart() -> None:
    fits = HostAccess("h" * 200, "n" * 40)
    assert cluster_name(fits) == f"nodemanager:{'n' * 40}:{'h' * 200}"
    assert len(cluster_name(fits)) == 253
    longer, other = (HostAccess("h" * 200 + end, "n" * 40) for end in ("a", "b"))
    names = {cluster_name(one, *purpose) for one in (longer, other) for purpose in ((), ("drain",))}
    assert len(names) == 4
    assert {len(name) for name in names} == {253}
    assert cluster_name(longer, "drain").endswith(":drain")
    assert cluster_name(longer).rpartition("~")[2].isalnum()
    assert len(cluster_name(longer).rpartition("~")[2]) == 32


@pytest.mark.parametrize(("name", "ours"), [("nodemanager", True), ("other", False)])
def test_in_our_own_namespace_no_pod_has_rights_on_its_node(name: str, ours: bool) -> None:
    for found in (
        host_rights.manifests(HostAccess("web1", name))[0],
        assembly.manifests(name)[0],
    ):
        assert found["kind"] == "Namespace"
        labels = found["metadata"].get("labels", {})
        modes = [f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "audit", "warn")]
        assert labels == (dict.fromkeys(modes, "restricted") if ours else {})


@pytest.mark.parametrize(
    ("lease", "host"),
    [
        ("nodemanager-web1", "web1"),
        ("nodemanager-operator", ""),
        ("nodemanager-daemonset", ""),
        ("group", ""),
        ("other-web1", ""),
    ],
)
def test_whose_sign_of_life_a_lease_is(lease: str, host: str) -> None:
    assert host_rights.host_of(lease) == host


@pytest.mark.parametrize(
    ("user", "host"),
    [
        ("system:serviceaccount:ns:nodemanager-web1", "web1"),
        ("system:serviceaccount:ns:nodemanager-operator", ""),
        ("system:serviceaccount:other:nodemanager-web1", ""),
        ("nodemanager-web1", ""),
        ("system:serviceaccount:ns:builder", ""),
    ],
)
def test_which_host_a_user_is(user: str, host: str) -> None:
    assert host_rights.host_of_account(user, "ns") == host


@pytest.mark.parametrize("labels", [[], ["role=web"]])
def test_a_host_may_set_the_labels_that_it_was_given_and_no_others(labels: list[str]) -> None:
    objects = host_rights.manifests(HostAccess("web1", "ns", labels=labels))
    user = "ns:nodemanager-web1"
    assert may(objects, user, "set", "labels", group=GROUP, name="role=web") == bool(labels)
    assert not may(objects, user, "set", "labels", group=GROUP, name="role=db")
