from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.errors import BadRequest, Forbidden
from nodemanager.kube.rbac import identity
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.access.impersonation import impersonate, wanted_user
from support import rbac_objects as rbac

ASKED = Attributes("list", resource="configmaps", namespace="ns")
ME = User("me", ("system:authenticated",))
AUTH = "authentication.k8s.io"


def allowing(*rules: dict[str, Any], user: str = "me") -> Authorizer:
    return rbac.authorizer([rbac.role("r", *rules)], [rbac.binding("b", "ClusterRole/r", f"User/{user}")])


def test_nothing_wanted() -> None:
    assert wanted_user([("Accept", "x"), ("Impersonate-User", "")]) is None


def test_headers_in_any_case_and_number() -> None:
    wanted = wanted_user(
        [
            ("IMPERSONATE-USER", "bob"), ("impersonate-user", "eve"), ("Impersonate-Group", "a"),
            ("Impersonate-group", "b"), ("Impersonate-Uid", "1"), ("Impersonate-Extra-Acme.io%2FRole", "x"),
            ("impersonate-extra-acme.io%2frole", "y"), ("Impersonate-Extra-50%", "z"),
        ]
    )  # fmt: skip
    assert wanted == User("bob", ("a", "b"), "1", {"50%": ("z",), "acme.io/role": ("x", "y")})


def test_a_group_alone_makes_no_sense() -> None:
    with pytest.raises(BadRequest) as refusal:
        wanted_user([("Impersonate-Group", 'g"'), ("Impersonate-Extra-b", "2"), ("Impersonate-Extra-a", "1")])
    assert str(refusal.value) == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g\\""}, Extra:map[string][]string{'
        '"a":[]string{"1"}, "b":[]string{"2"}}} without impersonating a user name'
    )


_texts = st.text(max_size=8)


@given(
    st.lists(st.tuples(st.sampled_from(["Impersonate-Group", "Impersonate-Extra-%zz", "x"]) | _texts, _texts))
)
def test_no_headers_break_the_parser(headers: list[tuple[str, str]]) -> None:
    wanted = wanted_user([("Impersonate-User", "u"), *headers])
    assert wanted is not None
    assert wanted.name == "u"


WANTED = {
    "a user": User("bob"),
    "a group": User("bob", ("g",)),
    "a uid": User("bob", uid="1"),
    "an extra": User("bob", extra={"acme.io/k": ("v",)}),
    "an account": User("system:serviceaccount:ns:sa"),
    "a node": User("system:node:n"),
}


@pytest.mark.parametrize("name", WANTED)
def test_without_rights_nobody_is_somebody_else(name: str) -> None:
    with pytest.raises(
        Forbidden, match=r'User "me" cannot impersonate-on:[a-z-]+:list resource "configmaps"'
    ):
        impersonate(allowing(rbac.rule("get list", "*", "*")), ME, WANTED[name], ASKED)


LEGACY = [
    ("users", "", "bob"), ("groups", "", "g"), ("uids", AUTH, "1"), ("userextras/acme.io/k", AUTH, "v"),
]  # fmt: skip
EVERYTHING = User("bob", ("g",), "1", {"acme.io/k": ("v",)})


def test_the_old_verb_is_needed_for_each_part() -> None:
    rules = [
        rbac.rule("impersonate", resource, group, resourceNames=[name]) for resource, group, name in LEGACY
    ]
    actual = impersonate(allowing(*rules), ME, EVERYTHING, ASKED)
    assert actual == dataclasses.replace(EVERYTHING, groups=("g", "system:authenticated"))
    for missing in range(len(rules)):
        with pytest.raises(Forbidden):
            impersonate(allowing(*rules[:missing], *rules[missing + 1 :]), ME, EVERYTHING, ASKED)


def test_constrained_rights_are_for_one_verb_on_one_resource() -> None:
    on = rbac.rule("impersonate-on:user-info:list", "configmaps")
    be = rbac.rule("impersonate:user-info", "users", AUTH)
    assert impersonate(allowing(on, be), ME, User("bob"), ASKED).groups == ("system:authenticated",)
    for asked in (dataclasses.replace(ASKED, verb="get"), dataclasses.replace(ASKED, resource="secrets")):
        with pytest.raises(Forbidden):
            impersonate(allowing(on, be), ME, User("bob"), asked)
    for rules in ([on], [be]):
        with pytest.raises(Forbidden):
            impersonate(allowing(*rules), ME, User("bob"), ASKED)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (User("bob", ("system:masters",)), "impersonating the system:masters group is not allowed"),
        (User("bob", ("",)), "the empty string group is not allowed"),
        (User("bob", extra={"": ("v",)}), "the empty string key in extra is not allowed"),
        (User("bob", extra={"k": ("v",)}), 'extra.key: Invalid value: "k": must be a domain-prefixed path'),
        (User("bob", extra={"acme.io/K": ("v",)}), "a non-lowercase key in extra is not allowed"),
        (User("bob", extra={"acme.io/k": ("",)}), "the empty string value in extra is not allowed"),
    ],
)
def test_constrained_rights_never_reach_far(wanted: User, text: str) -> None:
    rules = [
        rbac.rule("impersonate-on:user-info:list", "*", "*"),
        rbac.rule("impersonate:user-info", "*", "*"),
    ]
    with pytest.raises(Forbidden) as refusal:
        impersonate(allowing(*rules), ME, wanted, ASKED)
    assert text in str(refusal.value)


def test_many_groups_can_be_allowed_by_a_star() -> None:
    rules = [
        rbac.rule("impersonate-on:user-info:list", "configmaps"),
        rbac.rule("impersonate:user-info", "users", AUTH),
    ]
    star = rbac.rule("impersonate:user-info", "groups", AUTH, resourceNames=["*"])
    four, three = User("bob", ("a", "b", "c", "d")), User("bob", ("a", "b", "c"))
    assert impersonate(allowing(*rules, star), ME, four, ASKED).groups[:4] == four.groups
    with pytest.raises(Forbidden):
        impersonate(allowing(*rules, star), ME, three, ASKED)


def test_an_account_brings_its_groups() -> None:
    rule = rbac.rule("impersonate", "serviceaccounts", resourceNames=["sa"])
    actual = impersonate(allowing(rule), ME, User("system:serviceaccount:ns:sa"), ASKED)
    assert actual.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")


def test_an_agent_may_be_its_own_node_only() -> None:
    agent = User("system:serviceaccount:ns:agent", extra={identity.NODE_NAME: ("n1",)})
    rules = [
        rbac.rule("impersonate-on:associated-node:list", "configmaps"),
        rbac.rule("impersonate:associated-node", "nodes", AUTH),
    ]
    authorizer = allowing(*rules, user=agent.name)
    assert impersonate(authorizer, agent, User("system:node:n1"), ASKED).groups == (
        "system:nodes",
        "system:authenticated",
    )
    with pytest.raises(Forbidden):
        impersonate(authorizer, agent, User("system:node:n2"), ASKED)


def test_anonymous_stays_unauthenticated() -> None:
    rule = rbac.rule("impersonate", "users groups")
    actual = impersonate(allowing(rule), ME, User("system:anonymous"), ASKED)
    assert actual.groups == ("system:unauthenticated",)
    other = impersonate(allowing(rule), ME, User("x", ("system:unauthenticated",)), ASKED)
    assert other.groups == ("system:unauthenticated",)
