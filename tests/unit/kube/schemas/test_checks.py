"""Which schemas are refused; the texts are compared with a kube-apiserver in the contract tests."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.api import crds
from nodemanager.kube.schemas import restrictions
from nodemanager.kube.schemas.checks import check_schema
from nodemanager.kube.schemas.structural import compile_schema
from support.random_schemas import Maker
from support.refused_schemas import refused_schemas

AT = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize("name", list(refused_schemas()))
def test_refused(name: str) -> None:
    assert check_schema(refused_schemas()[name])


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        (
            "no type",
            ".properties[field].type",
            "Required value: must not be empty for specified object fields",
        ),
        ("type in anyOf", ".properties[field].anyOf[0].type", "Forbidden: must be empty to be structural"),
        (
            "default of wrong type",
            ".properties[field].default",
            'Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            "map key optional",
            ".properties[field].items.properties[key].default",
            f"Required value: {restrictions.MAP_KEY_RULE}",
        ),
        ("root nullable", ".nullable", "Forbidden: nullable cannot be true at the root"),
    ],
)
def test_reasons(name: str, field: str, message: str) -> None:
    (cause,) = check_schema(refused_schemas()[name])
    assert (cause.field, cause.message) == (AT + field, message)


def test_our_own_schemas_are_accepted() -> None:
    for crd in crds.all_crds():
        assert check_schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["object"]},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 1}},
        {"type": "object", "anyOf": {}},
        {"type": "object", "not": []},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": 1, "maxLength": "2"}}},
        {"type": "object", "additionalProperties": 1},
    ],
)
def test_what_is_no_schema_is_refused_and_not_fallen_over(schema: dict[str, Any]) -> None:
    assert check_schema(schema)


def test_endless_nesting_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(restrictions.MAX_DEPTH + 1):
        schema = {"type": "object", "properties": {"a": schema}}
    (cause,) = check_schema(schema)
    assert "must not nest so deeply" in cause.message


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_accepted_compiles(seed: int) -> None:
    schema = Maker(Random(seed)).root()
    if not check_schema(schema):
        assert compile_schema(schema).type == "object"
