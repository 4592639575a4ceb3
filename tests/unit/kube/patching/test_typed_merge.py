"""Values through their schema: fields, comparison, merging and taking out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube.patching import typed_merge
from nodemanager.kube.patching.field_sets import FieldSet, text
from nodemanager.kube.patching.merge_types import MergeType, object_type
from nodemanager.kube.patching.schema_changes import reconcile
from nodemanager.kube.patching.typed_compare import compare
from nodemanager.kube.patching.typed_values import SchemaError, fields_of, validate

STRING = {"type": "string"}
SET = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}


def of(**properties: Any) -> MergeType:
    return MergeType({"type": "object", "properties": properties})


def paths(fields: FieldSet) -> list[str]:
    return sorted(map(text, fields))


def test_without_hints_lists_are_whole_and_maps_are_not() -> None:
    free = MergeType({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    value = {"a": {"b": [1, {"c": 2}], "d": {}}}
    assert paths(fields_of(value, free)) == [".a", ".a.b", ".a.d"]
    changed = compare(value, {"a": {"b": [1], "e": 1}}, free)
    assert (paths(changed.modified), paths(changed.added), paths(changed.removed)) == (
        [".a.b"],
        [".a.e"],
        [".a.d"],
    )


def test_a_value_may_change_its_form() -> None:
    free = MergeType({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    changed = compare({"a": {"b": 1}}, {"a": 1}, free)
    assert (paths(changed.modified), paths(changed.removed)) == ([".a"], [".a.b"])
    assert typed_merge.merge({"a": {"b": 1}}, {"a": 1}, free) == {"a": 1}
    assert typed_merge.merge({"a": 1}, {"a": {"b": 1}}, free) == {"a": {"b": 1}}


def test_null_and_empty_are_not_the_same() -> None:
    kind = of(m={"type": "object", "additionalProperties": STRING}, s=SET)
    assert paths(compare({"m": None, "s": []}, {"m": {}, "s": None}, kind).modified) == [".m", ".s"]
    assert paths(fields_of({"m": {}, "s": []}, kind)) == [".m"]


def test_duplicates_are_one_whole() -> None:
    kind = of(s=SET)
    assert paths(fields_of({"s": ["a", "a", "b"]}, kind)) == ['.s[="a"]', '.s[="b"]']
    assert not any(compare({"s": ["a", "a"]}, {"s": ["a", "a"]}, kind).modified)
    assert paths(compare({"s": ["a", "a"]}, {"s": ["a"]}, kind).removed) == ['.s[="a"]']
    assert paths(compare({"s": ["a"]}, {"s": ["a", "a"]}, kind).added) == ['.s[="a"]']
    assert paths(compare({"s": ["a", "a"]}, {"s": ["a", "a", "a"]}, kind).modified) == ['.s[="a"]']
    with pytest.raises(SchemaError, match=r'\.s: duplicate entries for key \[="a"\]'):
        validate({"s": ["a", "a"]}, kind)
    validate({"s": ["a", "a"]}, kind, duplicates=True)
    assert typed_merge.merge({"s": ["a", "b", "a"]}, {"s": ["a"]}, kind) == {"s": ["a", "b"]}


def test_keys_have_defaults() -> None:
    port = {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "proto": {**STRING, "default": "TCP"}},
    }
    hints = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "proto"]}
    kind = of(ports={"type": "array", "items": port, **hints})
    merged = typed_merge.merge({"ports": [{"port": 1, "proto": "TCP"}]}, {"ports": [{"port": 1}]}, kind)
    assert merged == {"ports": [{"port": 1, "proto": "TCP"}]}


def test_references_and_patch_strategies_are_followed() -> None:
    definitions: dict[str, dict[str, Any]] = {
        "x.Item": {"type": "object", "properties": {"name": STRING}},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": STRING,
        "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
    }
    items = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/x.Item"},
        "x-kubernetes-patch-strategy": "merge,retainKeys",
        "x-kubernetes-patch-merge-key": "name",
    }
    schema = {
        "type": "object",
        "properties": {
            "items": items,
            "whole": {"allOf": [{"$ref": "#/x.Item"}], "x-kubernetes-map-type": "atomic", "default": {}},
            "size": {"$ref": "#/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "raw": {"$ref": "#/io.k8s.apimachinery.pkg.runtime.RawExtension"},
        },
    }
    kind = object_type(schema, definitions)
    value = {"items": [{"name": "a"}], "whole": {"name": "b"}, "size": 1, "raw": {"a": 1}}
    validate(value, kind)
    assert paths(fields_of(value, kind)) == [
        '.items[name="a"]',
        '.items[name="a"].name',
        ".raw",
        ".size",
        ".whole",
    ]
    assert kind.zero() == {"whole": {}}


def test_objects_inside_have_metadata_too() -> None:
    kind = of(inner={"type": "object", "x-kubernetes-embedded-resource": True})
    validate({"inner": {"apiVersion": "v1", "metadata": {"labels": {"a": "b"}}}}, kind)
    with pytest.raises(SchemaError, match=r"\.inner\.metadata\.labels\.a: expected string"):
        validate({"inner": {"metadata": {"labels": {"a": 1}}}}, kind)


def test_ownership_follows_a_schema_that_became_atomic() -> None:
    fields = FieldSet.of(("f:m", "f:a"), ("f:m", "f:b"), ("f:s", 'v:"x"'), ("f:s",), ("f:other",))
    atomic = of(
        m={"type": "object", "additionalProperties": STRING, "x-kubernetes-map-type": "atomic"},
        s={"type": "array", "items": STRING},
        other=STRING,
    )
    assert paths(reconcile(fields, atomic)) == [".m", ".other", ".s"]
    granular = of(m={"type": "object", "additionalProperties": STRING}, s=SET, other=STRING)
    assert reconcile(fields, granular) is fields


def test_what_becomes_empty_becomes_null() -> None:
    kind = of(s=SET, m={"type": "object", "additionalProperties": STRING})
    gone = FieldSet.of(("f:s", 'v:"a"'), ("f:m", "f:x"))
    assert typed_merge.remove({"s": ["a"], "m": {"x": "1"}}, gone, kind) == {"s": None, "m": None}
    assert typed_merge.remove({"s": ["a", "b"]}, gone, kind) == {"s": ["b"]}


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@settings(deadline=None)
@given(NAMES, NAMES)
def test_a_merged_set_has_both_in_the_order_of_what_was_applied(live: list[str], new: list[str]) -> None:
    merged = typed_merge.merge({"s": live}, {"s": new}, of(s=SET))["s"] or []
    assert sorted(merged) == sorted({*live, *new})
    assert [name for name in merged if name in new] == new
    assert [name for name in merged if name not in new] == [name for name in live if name not in new]
