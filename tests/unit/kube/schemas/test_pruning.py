"""Unknown fields."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube.schemas.pruning import prune, prune_value
from nodemanager.kube.schemas.structural import compile_schema
from support.random_schemas import Maker

STRING = {"type": "string"}
FREE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def spec_of(schema: dict[str, Any], spec: Any) -> tuple[Any, list[str]]:
    root = compile_schema({"type": "object", "properties": {"spec": schema}})
    obj = {"spec": copy.deepcopy(spec)}
    paths = prune(obj, root)
    return obj["spec"], paths


@pytest.mark.parametrize(
    ("schema", "spec", "kept", "paths"),
    [
        (
            {"type": "object", "properties": {"a": STRING}},
            {"a": "x", "b": {"c": 1}, "B": 2},
            {"a": "x"},
            ["spec.B", "spec.b"],
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": STRING}}},
            [{"a": "x"}, {"x": 1}],
            [{"a": "x"}, {}],
            ["spec[1].x"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": STRING}}},
            {"k": {"a": "x", "b": 1}},
            {"k": {"a": "x"}},
            ["spec.k.b"],
        ),
        ({"type": "object", "additionalProperties": True}, {"k": {"a": 1}}, {"k": {}}, ["spec.k.a"]),
        ({"type": "object"}, {"metadata": {}, "kind": "x"}, {}, ["spec.kind", "spec.metadata"]),
        (FREE, {"a": {"b": [1]}}, {"a": {"b": [1]}}, []),
        (
            {**FREE, "properties": {"a": {"type": "object"}}},
            {"a": {"b": 1}, "c": {"d": 1}},
            {"a": {}, "c": {"d": 1}},
            ["spec.a.b"],
        ),
        (STRING, {"a": 1}, {}, ["spec.a"]),
        (STRING, [[{"a": 1}]], [[{}]], ["spec[0][0].a"]),
    ],
)
def test_fields(schema: dict[str, Any], spec: Any, kept: Any, paths: list[str]) -> None:
    assert spec_of(schema, spec) == (kept, paths)


def test_every_resource_has_type_and_metadata() -> None:
    obj = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "other": 1}
    assert prune(obj, compile_schema({"type": "object"})) == ["other"]
    assert obj == {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}}


def test_metadata_keeps_what_it_has_everywhere() -> None:
    owner = {"apiVersion": "v1", "kind": "A", "name": "x", "uid": "1", "odd": 1}
    obj = {"metadata": {"name": "x", "odd": 1, "labels": {}, "ownerReferences": [owner]}}
    paths = prune(obj, compile_schema({"type": "object"}))
    assert paths == ["metadata.odd", "metadata.ownerReferences[0].odd"]
    owner.pop("odd", None)
    assert obj == {"metadata": {"name": "x", "ownerReferences": [owner]}}


def test_embedded_resources_keep_their_type_and_lose_odd_metadata() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"a": STRING}}
    schema = {"type": "object", "properties": {"one": embedded, "many": {"type": "array", "items": embedded}}}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "odd": 1},
        "a": "x",
        "b": 1,
    }
    kept = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "a": "x"}
    spec, paths = spec_of(schema, {"one": pod, "many": [dict(pod, metadata={**pod["metadata"]})]})
    assert spec == {"one": kept, "many": [kept]}
    assert paths == ["spec.many[0].b", "spec.one.b", "spec.many[0].metadata.odd", "spec.one.metadata.odd"]


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_pruning_twice_is_pruning_once(seed: int) -> None:
    maker = Maker(Random(seed))
    schema = maker.root()
    node = compile_schema(schema)
    value = maker.value(schema, 0, wild=0.3)
    prune_value(value, node)
    once = copy.deepcopy(value)
    assert prune_value(value, node) == []
    assert value == once
