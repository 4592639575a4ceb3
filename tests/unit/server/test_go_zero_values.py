"""What null, empty and missing come to in built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.kinds import go_zero_values
from nodemanager.server.kinds.go_zero_values import NormalForm

RBAC, CRDS = "rbac.authorization.k8s.io", "apiextensions.k8s.io"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(("", "x", "eA==")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


def form(kind: str, group: str = "") -> go_zero_values.GoType:
    found = go_zero_values.go_type(group, "v1", kind)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "sent", "written"),
    [
        pytest.param("ConfigMap", {"data": None}, {}, id="null is not given"),
        pytest.param("ConfigMap", {"data": {}}, {}, id="empty maps are left out"),
        pytest.param("ConfigMap", {"data": {"a": None}}, {"data": {"a": ""}}, id="null in a map is empty"),
        pytest.param("ConfigMap", {"immutable": False}, {"immutable": False}, id="pointers keep false"),
        pytest.param("Secret", {"type": ""}, {}, id="empty texts are left out"),
        pytest.param("Namespace", {}, {"spec": {}, "status": {}}, id="structures are always there"),
        pytest.param("ConfigMap", {"data": "odd"}, {"data": "odd"}, id="wrong types are left alone"),
    ],
)
def test_objects_are_written_as_their_structures(kind: str, sent: Any, written: Any) -> None:
    assert form(kind).normalised(sent) == written


def test_an_empty_list_that_is_always_written_is_stored_as_none() -> None:
    role = form("Role", RBAC)
    assert role.normalised({"rules": []}) == {"rules": []}
    assert role.normalised({"rules": []}, NormalForm.STORED) == {"rules": None}
    assert role.normalised({}) == {"rules": None}


def test_what_is_empty_in_a_whole_list_is_there_until_owners_are_told() -> None:
    role = form("Role", RBAC)
    sent = {"rules": [{"verbs": ["get"], "resourceNames": []}]}
    assert role.normalised(sent, NormalForm.SENT) == sent
    assert (
        role.normalised(sent) == role.normalised(sent, NormalForm.STORED) == {"rules": [{"verbs": ["get"]}]}
    )
    account: dict[str, Any] = {"secrets": [], "imagePullSecrets": []}
    assert form("ServiceAccount").normalised(account, NormalForm.SENT) == {}


def test_definitions_are_kept_as_they_were_sent() -> None:
    assert go_zero_values.go_type(CRDS, "v1", "CustomResourceDefinition") is None


@pytest.mark.parametrize(
    ("kind", "group", "sent", "fault"),
    [
        ("ConfigMap", "", {"binaryData": {"b": {}}}, "binaryData.b: cannot read a object as bytes"),
        ("ConfigMap", "", {"binaryData": {"b": "?"}}, "binaryData.b: cannot read a string as bytes"),
        ("ConfigMap", "", {"immutable": 1}, "immutable: cannot read a number as flag"),
        ("Lease", "coordination.k8s.io", {"spec": {"renewTime": []}}, "spec.renewTime: cannot read a array"),
        ("Role", RBAC, {"rules": [{"verbs": [True]}]}, "rules[0].verbs[0]: cannot read a bool as text"),
        ("Node", "", {"status": {"capacity": {"cpu": "much"}}}, "status.capacity.cpu: cannot read"),
        ("Node", "", {"status": {"capacity": {"cpu": "1500m", "memory": 5}}, "unknown": 1}, ""),
    ],
)
def test_what_cannot_be_read_is_told(kind: str, group: str, sent: Any, fault: str) -> None:
    found = form(kind, group).misfit(sent)
    assert found.startswith(fault)
    assert bool(found) is bool(fault)


@given(st.dictionaries(st.sampled_from(("spec", "status", "data", "rules", "type")), JSON))
def test_writing_twice_changes_nothing(sent: dict[str, Any]) -> None:
    for kind, group in (("Secret", ""), ("Node", ""), ("Role", RBAC)):
        once = form(kind, group).normalised(sent)
        assert form(kind, group).normalised(once) == once
