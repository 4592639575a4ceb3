"""Defaults, and nulls in their place."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube.schemas.defaulting import apply_defaults
from nodemanager.kube.schemas.structural import compile_schema
from support.random_schemas import Maker

FIVE: dict[str, Any] = {"type": "integer", "default": 5}


def one(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "value", "completed"),
    [
        (one(FIVE), {}, {"a": 5}),
        (one(FIVE), {"a": 1}, {"a": 1}),
        (one(FIVE), {"a": None}, {"a": 5}),
        (one({**FIVE, "nullable": True}), {"a": None}, {"a": None}),
        (one({**FIVE, "nullable": True}), {}, {"a": 5}),
        (one({"type": "integer"}), {"a": None}, {}),
        (one({"type": "integer", "nullable": True}), {"a": None}, {"a": None}),
        (one({"type": "boolean", "default": False}), {}, {"a": False}),
        (one(one(FIVE)), {}, {}),
        (one({**one(FIVE), "default": {}}), {}, {"a": {"a": 5}}),
        (one(one(FIVE)), {"a": {}}, {"a": {"a": 5}}),
        ({"type": "array", "items": one(FIVE)}, [{}, {"a": 1}], [{"a": 5}, {"a": 1}]),
        ({"type": "array", "items": FIVE}, [None, 1], [5, 1]),
        ({"type": "array", "items": {"type": "integer"}}, [None], [None]),
        ({"type": "array", "items": {"type": "array", "items": FIVE}}, [[None]], [[5]]),
        ({"type": "object", "additionalProperties": FIVE}, {"k": None, "l": 1}, {"k": 5, "l": 1}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": None}, {}),
        ({"type": "object"}, {"unknown": None}, {"unknown": None}),
        (one({**one({"type": "integer"}), "default": {"a": None}}), {}, {"a": {"a": None}}),
        (one({**one({"type": "integer"}), "default": {"a": None}}), {"a": None}, {"a": {"a": None}}),
        (one({**one({"type": "integer"}), "default": {"a": None}}), {"a": {"a": None}}, {"a": {}}),
        (one({**one(FIVE), "default": {"a": None}}), {}, {"a": {"a": 5}}),
        ({"type": "array", "items": {**one({}), "default": {"a": None}}}, [None], [{"a": None}]),
        (one(FIVE), "not an object", "not an object"),
    ],
)
def test_defaults(schema: dict[str, Any], value: Any, completed: Any) -> None:
    value = copy.deepcopy(value)
    apply_defaults(value, compile_schema(schema))
    assert value == completed


def test_defaults_are_not_shared_between_objects() -> None:
    node = compile_schema(one({"type": "array", "items": {"type": "integer"}, "default": [1]}))
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    apply_defaults(first, node)
    first["a"].append(2)
    apply_defaults(second, node)
    assert second == {"a": [1]}


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_completing_twice_is_completing_once(seed: int) -> None:
    maker = Maker(Random(seed))
    schema = maker.root()
    node = compile_schema(schema)
    value = maker.value(schema, 0)
    apply_defaults(value, node)
    once = copy.deepcopy(value)
    apply_defaults(value, node, keep_nulls=True)  # which a default may have brought
    assert value == once
