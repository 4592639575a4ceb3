from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.rbac import default_roles
from nodemanager.kube.rbac.escalation import atoms, escalation, missing
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.kube.rbac.roles import aggregated, compile_cluster
from nodemanager.kube.rbac.rules import PolicyRule, RbacPolicy, allowed, path_covers
from support.rbac_objects import binding, compile_policy, role, rule

_some = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=2).map(tuple)
_resources = st.lists(st.sampled_from(["pods", "pods/x", "*/x", "*"]), min_size=1, max_size=2).map(tuple)
_names = st.lists(st.sampled_from(["n", "m"]), max_size=2).map(tuple)
_about_resources = st.builds(PolicyRule, verbs=_some, groups=_some, resources=_resources, names=_names)
_paths = st.lists(st.sampled_from(["/a", "/a/*", "*", "/b"]), min_size=1, max_size=2).map(tuple)
_rules = st.lists(_about_resources | st.builds(PolicyRule, verbs=_some, paths=_paths), max_size=3)
_asked = st.builds(
    Attributes,
    verb=st.sampled_from("abc"),
    group=st.sampled_from("abc"),
    resource=st.sampled_from(["pods", "nodes"]),
    subresource=st.sampled_from(["", "x", "y"]),
    name=st.sampled_from(["", "n", "m"]),
) | st.builds(Attributes, verb=st.sampled_from("abc"), path=st.sampled_from(["/a", "/a/b", "/b", "/c"]))


@given(_rules, _rules, _asked)
def test_who_lacks_nothing_of_a_role_could_do_all_of_it(
    owned: list[PolicyRule], wanted: list[PolicyRule], asked: Attributes
) -> None:
    if not missing(owned, wanted) and any(one.allows(asked) for one in wanted):
        assert any(one.allows(asked) for one in owned)


@given(_rules)
def test_everybody_covers_what_they_hold(rules: list[PolicyRule]) -> None:
    assert missing(rules, rules) == []


@given(_rules, _asked)
def test_atoms_allow_together_what_the_rule_allows(rules: list[PolicyRule], asked: Attributes) -> None:
    assert any(one.allows(asked) for one in atoms(rules)) == any(one.allows(asked) for one in rules)


@pytest.mark.parametrize(
    ("pattern", "path", "covers"),
    [
        ("*", "", True), ("/a", "/a", True), ("/a", "/a/", False), ("/a/*", "/a", False),
        ("/a/*", "/a/b/c", True),
        ("/a*", "/ab", True), ("/a**", "/ab", True), ("/*/b", "/a/b", False), ("", "", True),
    ],
)  # fmt: skip
def test_only_a_trailing_star_is_a_wildcard(pattern: str, path: str, covers: bool) -> None:
    assert path_covers(pattern, path) == covers


def _policy(subject: str, *rules: dict[str, Any], namespace: str = "ns") -> RbacPolicy:
    local = ([role("r", *rules, namespace=namespace)], [binding("b", "Role/r", subject, namespace=namespace)])
    return compile_policy(((), ()), namespace, local)


def test_a_role_counts_in_its_namespace_and_names_its_source() -> None:
    policy = _policy("ServiceAccount/sa", rule("get", "pods", resourceNames=["p"]))
    user = User("system:serviceaccount:ns:sa")
    decision = allowed(user, Attributes("get", resource="pods", namespace="ns", name="p"), policy)
    assert decision == (True, 'RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "sa/ns"')
    assert not allowed(user, Attributes("get", resource="pods", namespace="ns", name="q"), policy).allowed
    assert not allowed(User("sa"), Attributes("get", resource="pods", name="p"), policy).allowed
    assert not allowed(user, Attributes("get", resource="pods", name="p"), RbacPolicy(policy.cluster)).allowed


def test_an_account_without_namespace_in_the_cluster_is_nobody() -> None:
    cluster = compile_cluster(
        [role("r", rule("*", "*", "*"))], [binding("b", "ClusterRole/r", "ServiceAccount/sa")]
    )
    for name in ("system:serviceaccount::sa", "sa", ""):
        assert not RbacPolicy(cluster).held(User(name)).grants


def test_a_user_is_not_a_group_of_the_same_name() -> None:
    cluster = compile_cluster([role("r", rule("*", "*", "*"))], [binding("b", "ClusterRole/r", "Group/x")])
    assert not RbacPolicy(cluster).held(User("x")).grants
    assert RbacPolicy(cluster).held(User("y", ("x",))).grants


def test_broken_bindings_are_reported_once() -> None:
    broken = [binding(name, "ClusterRole/gone", "User/u") for name in ("a", "b")]
    policy = compile_policy(((), [*broken, binding("c", "Role/gone", "User/u")]))
    reason = allowed(User("u"), Attributes("get", resource="pods"), policy).reason
    where = "rbac.authorization.k8s.io"
    assert reason == f'RBAC: [clusterrole.{where} "gone" not found, role.{where} "gone" not found]'


def test_masters_need_no_rule() -> None:
    assert allowed(
        User("u", ("system:masters",)), Attributes("x", path="/"), compile_policy(((), ()))
    ).allowed


def _labelled(name: str, label: str, *selects: str) -> dict[str, Any]:
    selectors = [{"matchLabels": {"to": one}} for one in selects]
    return role(
        name, rule("get", name), labels={"to": label}, aggregationRule={"clusterRoleSelectors": selectors}
    )


def test_aggregation_gathers_through_levels_and_survives_circles() -> None:
    roles = [
        _labelled("top", "none", "mid"),
        _labelled("mid", "mid", "leaf", "top"),
        role("leaf", rule("get", "x"), labels={"to": "leaf"}),
    ]
    by_name = {one["metadata"]["name"]: one for one in roles}
    assert aggregated(by_name) == {"top": [rule("get", "x")], "mid": [rule("get", "x")]}
    by_name["top"]["metadata"]["labels"]["to"] = "top"
    assert aggregated(by_name) == {"top": [rule("get", "x")], "mid": [rule("get", "x")]}


def test_many_roles_that_select_each_other_come_to_an_end() -> None:
    everything: dict[str, Any] = {"clusterRoleSelectors": [{}, {}]}
    roles = {f"r{number}": role(f"r{number}", aggregationRule=everything) for number in range(60)}
    roles["leaf"] = role("leaf", rule("get", "x"))
    assert aggregated(roles) == {name: [rule("get", "x")] for name in roles if name != "leaf"}


def test_rules_that_multiply_are_not_spelled_out() -> None:
    many = tuple(f"x{number}" for number in range(1000))
    text = escalation(User("u"), [PolicyRule(many, many, many, many)], compile_policy(((), ())), "roles")
    assert text == "cannot check rules that spell out more than 10000 permissions: use wildcards"


def test_an_unreadable_selector_selects_nothing() -> None:
    odd = role("odd", aggregationRule={"clusterRoleSelectors": [{"matchLabels": 5}]})
    assert aggregated({"odd": odd, "x": role("x", rule("*", "*"))}) == {"odd": []}


def test_the_default_roles_build_on_each_other() -> None:
    cluster = compile_cluster(default_roles.cluster_roles(), default_roles.cluster_role_bindings())
    view, edit, admin = (cluster.roles[name] for name in ("view", "edit", "admin"))
    assert missing(edit, view) == missing(admin, edit) == []
    assert missing(view, edit)
    assert missing(edit, admin)
    secrets = Attributes("get", resource="secrets", namespace="n")
    assert not any(one.allows(secrets) for one in view)
    assert any(one.allows(secrets) for one in edit)


def test_strangers_see_health_and_version_only() -> None:
    policy = compile_policy((default_roles.cluster_roles(), default_roles.cluster_role_bindings()))
    stranger = User("system:anonymous", ("system:unauthenticated",))
    seen = {
        path
        for path in ("/healthz", "/version", "/api", "/metrics", "/openid/v1/jwks")
        if allowed(stranger, Attributes("get", path=path), policy).allowed
    }
    assert seen == {"/healthz", "/version"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["User", "ClusterRole", "u", "*"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["kind", "name", "namespace", "verbs", "matchLabels", "labels"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(_json, _json, _json, _json, _json)
def test_no_object_that_is_out_of_shape_stops_decisions(
    rules: Any, subjects: Any, ref: Any, gathers: Any, labels: Any
) -> None:
    odd = {"metadata": {"name": "r", "labels": labels}, "rules": rules, "aggregationRule": gathers}
    other = {"metadata": {"name": "s"}, "aggregationRule": {"clusterRoleSelectors": gathers}}
    bad = {"metadata": {"name": "b"}, "subjects": subjects, "roleRef": ref}
    good = binding("g", "ClusterRole/mine", "User/u")
    policy = compile_policy(
        ([odd, other, role("mine", rule("get", "pods"))], [bad, good]), "ns", ([odd], [bad])
    )
    assert allowed(User("u"), Attributes("get", resource="pods", namespace="ns"), policy).allowed
    assert not allowed(User("x"), Attributes("get", resource="pods", namespace="ns"), policy).allowed


def test_the_text_of_an_escalation() -> None:
    wanted = [
        PolicyRule(("get", "list"), ("", "apps"), ("pods",)),
        PolicyRule(("get",), paths=("/x",)),
        PolicyRule(("get",), ("",), ("secrets",), ("a",)),
    ]
    text = escalation(User('d"o', ("g1", "g2")), wanted, compile_policy(((), ())), "roles")
    assert text == (
        'user "d\\"o" (groups=["g1" "g2"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}\n'
        '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{NonResourceURLs:["/x"], Verbs:["get"]}'
    )
