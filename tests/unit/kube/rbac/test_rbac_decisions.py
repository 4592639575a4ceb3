"""Who may do what by which rule, subject and binding: one row, one decision."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.kube.rbac.roles import compile_cluster
from nodemanager.kube.rbac.rules import Held, PolicyRule, RbacPolicy, allowed, objects_in
from support.rbac_objects import binding, compile_policy, role, rule

PODS = Attributes("get", resource="pods", namespace="ns", name="p")


def asks(verb: str = "get", **fields: Any) -> Attributes:
    return Attributes(verb, **{"group": "apps", "resource": "things", "name": "one", **fields})


@pytest.mark.parametrize(
    ("fields", "asked", "expected"),
    [
        pytest.param({}, asks(), True, id="all fits"),
        pytest.param({}, asks(verb="list"), False, id="another verb"),
        pytest.param({}, asks(group=""), False, id="another group"),
        pytest.param({}, asks(resource="others"), False, id="another resource"),
        pytest.param({}, asks(name="two"), False, id="another name"),
        pytest.param({}, asks(name=""), False, id="all of them"),
        pytest.param({"names": ()}, asks(name="two"), True, id="any name"),
        pytest.param({"names": ()}, asks(name=""), True, id="any name, all of them"),
        pytest.param({}, asks(subresource="status"), False, id="a subresource"),
        pytest.param({"resources": ("things/status",)}, asks(), False, id="only the subresource"),
        pytest.param({"resources": ("things/status",)}, asks(subresource="status"), True, id="its own"),
        pytest.param({"resources": ("*/status",)}, asks(subresource="status"), True, id="that of all"),
        pytest.param({"resources": ("*/status",)}, asks(subresource="scale"), False, id="another of all"),
        pytest.param({"resources": ("*/",)}, asks(), False, id="no subresource"),
        pytest.param({"resources": ("*",)}, asks(subresource="status"), True, id="everything"),
        pytest.param({"verbs": ("*",)}, asks(verb="list"), True, id="every verb"),
        pytest.param({"groups": ("*",)}, asks(group=""), True, id="every group"),
        pytest.param({}, Attributes("get", path="/metrics"), False, id="a path, by a rule for resources"),
    ],
)
def test_a_rule(fields: dict[str, tuple[str, ...]], asked: Attributes, expected: bool) -> None:
    found = {"verbs": ("get",), "groups": ("apps",), "resources": ("things",), "names": ("one",), **fields}
    assert PolicyRule(**found).allows(asked) is expected


def test_a_rule_for_paths_is_none_for_resources() -> None:
    one = PolicyRule(verbs=("get",), paths=("/a", "/b/*"))
    assert [one.allows(Attributes("get", path=path)) for path in ("/a", "/b/c", "/c")] == [True, True, False]
    assert not one.allows(Attributes("post", path="/a"))
    assert not one.allows(asks(group="", resource="pods"))


def test_a_rule_is_read_field_by_field() -> None:
    read = PolicyRule.parse(
        {"verbs": ["v", 1], "apiGroups": ["g"], "resources": ["r"], "resourceNames": ["n"],
         "nonResourceURLs": ["/u"]}
    )  # fmt: skip
    assert read == PolicyRule(("v",), ("g",), ("r",), ("n",), ("/u",))
    assert PolicyRule.parse({"verbs": "get", "resources": None}) == PolicyRule()


def test_objects_that_are_none_are_passed_over() -> None:
    assert objects_in([{"a": 1}, "x", None]) == [{"a": 1}]
    assert objects_in({"a": 1}) == objects_in(None) == []


def local(*subjects: str, ref: str = "Role/r") -> RbacPolicy:
    mine = ([role("r", rule("get", "pods"), namespace="ns")], [binding("b", ref, *subjects, namespace="ns")])
    return compile_policy(([role("c", rule("get", "pods"))], ()), "ns", mine)


@pytest.mark.parametrize(
    ("subject", "user", "expected"),
    [
        pytest.param("ServiceAccount/sa", "system:serviceaccount:ns:sa", True, id="of the same namespace"),
        pytest.param("ServiceAccount/sa", "system:serviceaccount:other:sa", False, id="only of the same"),
        pytest.param("ServiceAccount/other/sa", "system:serviceaccount:other:sa", True, id="of another"),
        pytest.param("ServiceAccount/other/sa", "system:serviceaccount:ns:sa", False, id="only of another"),
        pytest.param("ServiceAccount/sa", "sa", False, id="no user of that name"),
        pytest.param("User/sa", "sa", True, id="a user"),
        pytest.param("User/sa", "system:serviceaccount:ns:sa", False, id="a user is no account"),
        pytest.param("Robot/sa", "sa", False, id="nothing that is known"),
        pytest.param("Robot/ns/sa", "system:serviceaccount:ns:sa", False, id="nothing that is known, either"),
    ],
)
def test_a_subject(subject: str, user: str, expected: bool) -> None:
    """An account is one of its namespace: of the binding's own, unless the subject names another."""
    assert allowed(User(user), PODS, local(subject)).allowed is expected


def test_an_account_of_the_cluster_s_binding_needs_its_namespace() -> None:
    cluster = compile_cluster(
        [role("c", rule("get", "pods"))], [binding("b", "ClusterRole/c", "ServiceAccount/ns/sa")]
    )
    assert allowed(User("system:serviceaccount:ns:sa"), PODS, RbacPolicy(cluster)) == (
        True, 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "c" to ServiceAccount "sa/ns"',
    )  # fmt: skip
    assert not allowed(User("system:serviceaccount:other:sa"), PODS, RbacPolicy(cluster)).allowed


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("ServiceAccount/other/sa", 'ServiceAccount "sa/other"'),
        ("User/system:serviceaccount:other:sa", 'User "system:serviceaccount:other:sa"'),
        ("Group/g", 'Group "g"'),
    ],
)
def test_the_first_subject_that_fits_is_named(subject: str, said: str) -> None:
    policy = local("User/somebody", subject, "Group/g", ref="ClusterRole/c")
    user = User("system:serviceaccount:other:sa", ("g",))
    expected = f'RBAC: allowed by RoleBinding "b/ns" of ClusterRole "c" to {said}'
    assert allowed(user, PODS, policy) == (True, expected)


def test_bindings_count_in_the_order_of_their_names_and_those_of_the_cluster_first() -> None:
    cluster = ([role("c", rule("get", "pods"))], [binding(n, "ClusterRole/c", "User/u") for n in "zy"])
    mine = (
        [role("r", rule("get", "pods"), namespace="ns")],
        [binding("a", "Role/r", "User/u", namespace="ns")],
    )
    held = compile_policy(cluster, "ns", mine).held(User("u"))
    assert [grant.source.split('"')[1] for grant in held.grants] == ["y", "z", "a/ns"]
    assert [one.verbs for one in held.rules()] == [("get",)] * 3


def test_a_role_is_no_cluster_role_of_the_same_name() -> None:
    cluster = ([role("same", rule("get", "pods"))], [binding("b", "Role/same", "User/u")])
    assert not allowed(User("u"), PODS, compile_policy(cluster)).allowed
    mine = ([role("same", rule("get", "secrets"), namespace="ns")],
            [binding("b", "Role/same", "User/u", namespace="ns")])  # fmt: skip
    assert not allowed(User("u"), PODS, compile_policy((cluster[0], ()), "ns", mine)).allowed
    assert allowed(User("u"), PODS, local("User/u", ref="ClusterRole/c")).allowed


@pytest.mark.parametrize("ref", [None, "ClusterRole/c", []])
def test_a_binding_to_nothing_that_can_be_read_gives_nothing(ref: Any) -> None:
    broken = {"metadata": {"name": "b"}, "roleRef": ref, "subjects": [{"kind": "User", "name": "u"}]}
    policy = compile_policy(([role("c", rule("get", "pods"))], [broken]))
    assert allowed(User("u"), PODS, policy) == (False, "")


def test_who_holds_other_rules_is_refused_without_a_word() -> None:
    assert allowed(User("u"), Attributes("delete", resource="pods"), local("User/u")) == (False, "")
    assert allowed(User("x"), PODS, local("User/u")) == (False, "")


def missing(*refs: Any) -> Held:
    return Held([], [{"kind": kind, "name": name} for kind, name in refs])


def test_what_is_said_of_roles_that_are_missing() -> None:
    where = "rbac.authorization.k8s.io"
    assert missing().errors() == ""
    assert missing(("Role", "a")).errors() == f'role.{where} "a" not found'
    assert missing(("Role", "a"), ("Role", "a")).errors() == f'role.{where} "a" not found'
    assert missing(("Role", "a")).errors("rolebindings") == f'rolebindings.{where} "a" not found'
    two = missing(("Role", "a"), ("ClusterRole", "b")).errors()
    assert two == f'[role.{where} "a" not found, clusterrole.{where} "b" not found]'
    assert missing((5, None)).errors() == f'.{where} "" not found'
