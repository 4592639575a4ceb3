"""How the schema of a custom resource is published, in v3 and in v2."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from nodemanager.server.kinds.schemas.notation import metadata_property, type_properties
from nodemanager.server.openapi import custom

STANDARD = {**type_properties(), "metadata": metadata_property()}
KEEPS = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


def whole(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec}, **more}


def published(spec: dict[str, Any], *, v2: bool) -> dict[str, Any]:
    """Return what becomes of the schema of a field."""
    convert = custom.for_v2 if v2 else custom.for_v3
    result = convert(whole(spec))
    assert {name: result["properties"][name] for name in STANDARD} == STANDARD
    found = result["properties"]["spec"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("convert", [custom.for_v2, custom.for_v3])
def test_no_schema_promises_nothing(convert: Any) -> None:
    assert convert(None) == {"type": "object"}


def test_what_keeps_everything_promises_nothing_in_v2() -> None:
    schema = whole({"type": "string"}, **{KEEPS: True})
    assert custom.for_v2(schema) == {"type": "object"}
    assert custom.for_v3(schema)[KEEPS] is True


@pytest.mark.parametrize(
    ("spec", "v2"),
    [
        pytest.param({"type": "string", "nullable": True}, {}, id="nullable"),
        pytest.param(
            {"type": "array", "nullable": True, "items": {"type": "string"}, "maxItems": 3},
            {"maxItems": 3},
            id="nullable-list",
        ),
        pytest.param(
            {"type": "object", KEEPS: True, "properties": {"a": {"type": "string"}}},
            {KEEPS: True},
            id="keeps",
        ),
        pytest.param(
            {"type": "array", KEEPS: True, "items": {"type": "string"}}, {KEEPS: True}, id="keeps-list"
        ),
        pytest.param(
            {"type": "object", "oneOf": [{}], "anyOf": [{}], "allOf": [{}], "not": {}},
            {"type": "object"},
            id="junctors",
        ),
        pytest.param(
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
            },
            {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}},
            id="required-nullable",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "object", KEEPS: True}},
            {"type": "array", "items": {KEEPS: True}},
            id="items",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer", "nullable": True}},
            {"type": "object", "additionalProperties": {}},
            id="values",
        ),
    ],
)
def test_v3_says_it_all_and_v2_what_kubectl_understands(spec: dict[str, Any], v2: dict[str, Any]) -> None:
    before = copy.deepcopy(spec)
    assert published(spec, v2=False) == before
    assert published(spec, v2=True) == v2
    assert spec == before, "the schema of the definition itself must not change"


def test_embedded_objects_get_their_standard_fields() -> None:
    spec = {
        "type": "object",
        EMBEDDED: True,
        "required": ["kind"],
        "properties": {"spec": {"type": "object"}},
    }
    for v2 in (False, True):
        found = published(spec, v2=v2)
        assert found["properties"] == {"spec": {"type": "object"}, **STANDARD}
        assert found["required"] == ["kind", "apiVersion"]


def test_embedded_objects_that_keep_everything_get_none_in_v2() -> None:
    spec = {"type": "object", EMBEDDED: True, KEEPS: True}
    assert published(spec, v2=True) == {EMBEDDED: True, KEEPS: True}
    assert set(published(spec, v2=False)["properties"]) == set(STANDARD)
