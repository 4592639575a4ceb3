"""The definitions of built-in kinds: complete in themselves, and as one tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.server.kinds import builtin_schemas as builtin

KINDS = [
    ("", "v1", "Namespace"), ("", "v1", "Secret"), ("", "v1", "ConfigMap"), ("", "v1", "ServiceAccount"),
    ("", "v1", "Event"), ("", "v1", "Node"), ("", "v1", "Pod"), ("events.k8s.io", "v1", "Event"),
    ("policy", "v1", "PodDisruptionBudget"), ("policy", "v1", "Eviction"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"), ("", "v1", "Status"), ("", "v1", "PodList"),
]  # fmt: skip
ALLOWED = {
    "description", "type", "format", "properties", "required", "items", "additionalProperties", "enum",
    "default", "oneOf", "allOf", "$ref", "x-kubernetes-group-version-kind", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    yield schema
    for part in schema.get("properties", {}).values():
        yield from parts(part)
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from parts(schema[name])


def test_references_resolve() -> None:
    known = builtin.definitions()
    missing = {name for schema in known.values() for name in builtin.references(schema)} - set(known)
    assert missing == set()


@pytest.mark.parametrize("name", sorted(builtin.definitions()))
def test_definition_is_in_the_subset_and_described(name: str) -> None:
    schema = builtin.definitions()[name]
    assert schema["description"].endswith(".")
    assert all(part.get("description", "").endswith(".") for part in schema.get("properties", {}).values())
    for part in parts(schema):
        assert set(part) <= ALLOWED
        assert set(part.get("required", ())) <= set(part.get("properties", {}))
        keys = part.get("x-kubernetes-list-map-keys", ())
        item = part.get("items", {})
        target = builtin.definitions()[next(builtin.references(item))] if keys else {}
        assert set(keys) <= set(target.get("properties", {}))


@pytest.mark.parametrize("kind", KINDS)
def test_tree_of_a_kind_has_no_references(kind: tuple[str, str, str]) -> None:
    tree = builtin.structural(*kind)
    assert tree is not None
    assert list(builtin.references(tree)) == []
    for part in parts(tree):
        typed = {"type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}
        assert typed & set(part), part
        assert not {"oneOf", "allOf", "x-kubernetes-group-version-kind"} & set(part)


def at(tree: dict[str, Any] | None, *path: str) -> dict[str, Any]:
    assert tree is not None
    for name in path:
        tree = tree["items"] if name == "*" else tree["properties"][name]
        assert tree is not None
    return tree


def test_tree_keeps_the_marks_of_lists() -> None:
    ports = at(builtin.structural("", "v1", "Pod"), "spec", "containers", "*", "ports")
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert at(ports, "*", "protocol")["default"] == "TCP"


def test_values_of_several_types() -> None:
    budget = builtin.structural("policy", "v1", "PodDisruptionBudget")
    assert at(budget, "spec", "minAvailable")["x-kubernetes-int-or-string"] is True
    limits = at(builtin.structural("", "v1", "Pod"), "spec", "resources", "limits")
    assert limits["additionalProperties"]["x-kubernetes-preserve-unknown-fields"] is True


def test_schema_in_a_schema_keeps_what_it_does_not_know() -> None:
    definition = builtin.structural("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    schema = at(definition, "spec", "versions", "*", "schema", "openAPIV3Schema")
    inner = schema["properties"]["not"]
    assert inner["x-kubernetes-preserve-unknown-fields"] is True
    assert "properties" not in inner


def test_unknown_kinds_have_nothing() -> None:
    assert builtin.definition_name("", "v1", "Service") is None
    assert builtin.structural("apps", "v1", "Deployment") is None


def test_trees_do_not_share_with_the_definitions() -> None:
    tree = builtin.structural("", "v1", "ConfigMap")
    assert tree is not None
    tree["properties"]["data"]["type"] = "spoiled"
    assert at(builtin.structural("", "v1", "ConfigMap"), "data")["type"] == "object"
