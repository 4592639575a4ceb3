"""JSON values as Kubernetes compares, orders and prints them."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.kube import json_values


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ({"a": [1]}, {"a": [1.0]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([1, 2], [2, 1], False),
        ([], None, False),
        ("1", 1, False),
        ([True], [1], False),
    ],
)
def test_equality_is_that_of_json(one: Any, other: Any, equal: bool) -> None:
    assert json_values.same(one, other) == equal
    assert json_values.same(other, one) == equal


def test_copies_share_nothing() -> None:
    value = {"a": [{"b": 1}]}
    copied = json_values.copy_of(value)
    copied["a"][0]["b"] = 2
    assert value == {"a": [{"b": 1}]}


def test_texts_are_those_of_go() -> None:
    value = {"b": [1, "x", True, None, 1.5], "a": {"c": 2.0}}
    assert json_values.go_text(value) == "map[a:map[c:2] b:[1 x true <nil> 1.5]]"
    expected = 'map[string]interface {}{"b":[]interface {}{1, "x", true, interface {}(nil)}}'
    assert json_values.go_literal({"b": [1, "x", True, None]}) == expected
    go_types: list[tuple[Any, str]] = [
        ({}, "map[string]interface {}"), ([], "[]interface {}"), ("", "string"), (True, "bool"), (1, "int64"),
        (1.5, "float64"),
    ]  # fmt: skip
    assert all(json_values.go_type(value) == name for value, name in go_types)
    json_types: list[tuple[Any, str]] = [
        ({}, "object"), ([], "array"), ("", "string"), (True, "bool"), (1.5, "number"), (None, "null"),
    ]  # fmt: skip
    assert all(json_values.json_type(value) == name for value, name in json_types)
    assert json_values.compact("<&>\u2028é") == '"\\u003c\\u0026\\u003e\\u2028é"'
    assert repr(json_values.ABSENT) == "ABSENT"


def test_values_have_one_order() -> None:
    ordered = [-1, 0.5, 2, "", "a", False, True, [], [1], {"a": 1}, None]
    backwards = ordered[::-1]
    backwards.sort(key=json_values.order)
    assert backwards == ordered
