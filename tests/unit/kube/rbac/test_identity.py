from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.rbac import identity
from nodemanager.kube.rbac.identity import Attributes, User


@given(
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
    st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True).filter(
        lambda name: ".." not in name and ".-" not in name and "-." not in name
    ),
)
def test_the_user_name_of_an_account_can_be_split_again(namespace: str, name: str) -> None:
    assert identity.split_service_account(identity.service_account_user(namespace, name)) == (namespace, name)


@pytest.mark.parametrize(
    "name",
    [
        "bob", "system:serviceaccount:", "system:serviceaccount:ns", "system:serviceaccount:ns:", "x:system:",
        "system:serviceaccount:NS:name", "system:serviceaccount:ns:name:more", "system:serviceaccount::name",
        "system:serviceaccount:a.b:name", f"system:serviceaccount:ns:{'a' * 254}", "system:node:n",
    ],
)  # fmt: skip
def test_other_names_are_no_accounts(name: str) -> None:
    assert identity.split_service_account(name) is None


@pytest.mark.parametrize(
    ("name", "node"),
    [("system:node:a.b", "a.b"), ("system:node:", None), ("system:node:A", None), ("a", None)],
)
def test_node_names(name: str, node: str | None) -> None:
    assert identity.split_node(name) == node


def test_a_group_is_added_once() -> None:
    user = User("u", ("a",))
    assert user.with_group("a") is user
    assert user.with_group("b").groups == ("a", "b")


def test_info_leaves_out_what_is_empty() -> None:
    assert User("u").info() == {"username": "u"}
    full = User("u", ("g",), "1", {"b": ("x", "y"), "a": ("z",)}).info()
    assert full == {"username": "u", "uid": "1", "groups": ["g"], "extra": {"a": ["z"], "b": ["x", "y"]}}


def test_a_question_is_about_a_path_or_about_a_resource() -> None:
    assert Attributes("get", path="/x").about_path
    assert Attributes("get", bare_path=True).about_path
    assert not Attributes("get").about_path
    assert Attributes("get", resource="pods", subresource="log").full_resource == "pods/log"


@pytest.mark.parametrize(
    ("key", "good"),
    [("acme.io/a", True), ("acme/a/b", True), ("a", False), ("/a", False), ("a/", False), ("A/a", False)],
)
def test_domain_paths(key: str, good: bool) -> None:
    assert identity.is_domain_path(key) == good
