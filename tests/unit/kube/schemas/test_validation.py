"""Objects against their schemas, in the words of kube-apiserver."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nodemanager.kube.schemas.checks import check_schema
from nodemanager.kube.schemas.defaulting import apply_defaults
from nodemanager.kube.schemas.pruning import prune
from nodemanager.kube.schemas.structural import compile_schema
from nodemanager.kube.schemas.validation import validate
from support.random_schemas import Maker

STRING = {"type": "string"}
IN_BODY = "spec in body"


def spec_faults(schema: dict[str, Any], spec: Any) -> list[tuple[str, str, str]]:
    root = compile_schema({"type": "object", "properties": {"spec": schema}})
    return [(c.field, c.reason, c.message) for c in validate({"spec": spec}, root)]


@pytest.mark.parametrize(
    ("schema", "spec", "reason", "message"),
    [
        (
            STRING,
            1,
            "TypeInvalid",
            f'Invalid value: "integer": {IN_BODY} must be of type string: "integer"',
        ),
        (STRING, None, "TypeInvalid", f'Invalid value: "null": {IN_BODY} must be of type string: "null"'),
        (
            {"type": "integer", "format": "int32"},
            True,
            "TypeInvalid",
            f'Invalid value: "": {IN_BODY} must be of type int32: ""',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            "TypeInvalid",
            f'Invalid value: "boolean": {IN_BODY} must be of type integer,string: "boolean"',
        ),
        (
            {"type": "string", "format": "ipv4"},
            "x",
            "TypeInvalid",
            f'Invalid value: "x": {IN_BODY} must be of type ipv4: "x"',
        ),
        ({"type": "string", "maxLength": 2}, "abc", "TooLong", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "maxLength": 1}, "ab", "TooLong", "Too long: may not be more than 1 byte"),
        (
            {"type": "string", "minLength": 2},
            "ü",
            "Invalid",
            f'Invalid value: "ü": {IN_BODY} should be at least 2 chars long',
        ),
        (
            {"type": "string", "pattern": "^a$"},
            "b",
            "Invalid",
            f"Invalid value: \"b\": {IN_BODY} should match '^a$'",
        ),
        (
            {"type": "string", "enum": ["a", "b"]},
            "c",
            "NotSupported",
            'Unsupported value: "c": supported values: "a", "b"',
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            3,
            "NotSupported",
            'Unsupported value: 3: supported values: "1", "2"',
        ),
        (
            {"type": "integer", "minimum": 5},
            4,
            "Invalid",
            f"Invalid value: 4: {IN_BODY} should be greater than or equal to 5",
        ),
        (
            {"type": "integer", "maximum": 5, "exclusiveMaximum": True},
            5,
            "Invalid",
            f"Invalid value: 5: {IN_BODY} should be less than 5",
        ),
        (
            {"type": "number", "multipleOf": 0.5},
            0.75,
            "Invalid",
            f"Invalid value: 0.75: {IN_BODY} should be a multiple of 0.5",
        ),
        (
            {"type": "array", "items": STRING, "minItems": 1},
            [],
            "Invalid",
            f"Invalid value: 0: {IN_BODY} should have at least 1 items",
        ),
        (
            {"type": "array", "items": STRING, "maxItems": 1},
            ["a", "b"],
            "TooMany",
            "Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "array", "items": STRING, "uniqueItems": True},
            ["a", "a"],
            "Invalid",
            f'Invalid value: "": {IN_BODY} shouldn\'t contain duplicates',
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"a": 1},
            "Invalid",
            'Invalid value: "a": spec.a in body is a forbidden property',
        ),
        (
            {"type": "object", "maxProperties": 0, "additionalProperties": STRING},
            {"a": "b"},
            "TooMany",
            "Too many: 1: must have at most 0 items",
        ),
    ],
)
def test_one_fault(schema: dict[str, Any], spec: Any, reason: str, message: str) -> None:
    assert spec_faults(schema, spec) == [("spec", f"FieldValue{reason}", message)]


@pytest.mark.parametrize(
    ("schema", "spec"),
    [
        ({"type": "integer"}, 2.0),
        ({"type": "number"}, 2),
        ({"type": "string", "nullable": True}, None),
        ({"type": "integer", "format": "int32"}, 2**31 - 1),
        ({"x-kubernetes-int-or-string": True}, "80%"),
        ({"type": "number", "enum": [1]}, 1.0),
        ({"type": "string", "format": "unknown"}, "anything"),
        ({"x-kubernetes-preserve-unknown-fields": True}, [{"a": None}]),
        ({"type": "string", "oneOf": [{"minLength": 2}, {"maxLength": 1}]}, "a"),
    ],
)
def test_no_fault(schema: dict[str, Any], spec: Any) -> None:
    assert spec_faults(schema, spec) == []


def test_what_is_missing() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": STRING}}
    assert spec_faults(schema, {}) == [("spec.a", "FieldValueRequired", "Required value")]


@pytest.mark.parametrize(
    ("junctors", "spec", "messages"),
    [
        (
            {"anyOf": [{"minimum": 5}, {"multipleOf": 2, "minimum": 7}]},
            1,
            [
                '"spec" must validate at least one schema (anyOf)',
                f"{IN_BODY} should be greater than or equal to 5",
            ],
        ),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            5,
            ['"spec" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
        ),
        (
            {"allOf": [{"minimum": 5}, {"minimum": 1}]},
            2,
            [
                f"{IN_BODY} should be greater than or equal to 5",
                '"spec" must validate all the schemas (allOf)',
            ],
        ),
        ({"not": {"minimum": 5}}, 6, ['"spec" must not validate the schema (not)']),
    ],
)
def test_alternatives(junctors: dict[str, Any], spec: Any, messages: list[str]) -> None:
    found = [message for _, _, message in spec_faults({"type": "integer", **junctors}, spec)]
    assert [message.split(": ", 2)[2] for message in found] == messages


@pytest.mark.parametrize(
    ("kind", "items", "value", "field", "message"),
    [
        ({"x-kubernetes-list-type": "set"}, STRING, ["a", "b", "a", "a"], "spec[2]", 'Duplicate value: "a"'),
        (
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            {"type": "object", "properties": {"k": STRING, "v": STRING}},
            [{"k": "a", "v": "1"}, {"k": "a", "v": "2"}],
            "spec[1]",
            'Duplicate value: {"k":"a"}',
        ),
    ],
)
def test_lists_with_identity(kind: Any, items: Any, value: Any, field: str, message: str) -> None:
    schema = {"type": "array", "items": items, **kind}
    assert spec_faults(schema, value) == [(field, "FieldValueDuplicate", message)]


def test_embedded_resources_say_what_they_are() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert spec_faults(schema, {"apiVersion": "v1", "kind": "Pod"}) == []
    assert [(field, reason) for field, reason, _ in spec_faults(schema, {"kind": ""})] == [
        ("spec.apiVersion", "FieldValueRequired"),
        ("spec.kind", "FieldValueInvalid"),
    ]
    (fault,) = spec_faults(schema, {"apiVersion": "a/b/c", "kind": "Pod"})
    assert fault[2] == 'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'


KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": STRING, "n": {"type": "integer", "minimum": 5}}},
}


@pytest.mark.parametrize(
    ("schema", "old", "new", "fields"),
    [
        ({"type": "integer", "minimum": 5}, 1, 1, []),
        ({"type": "integer", "minimum": 5}, 1, 2, ["spec"]),
        ({"type": "integer", "minimum": 5}, 1, 1.0, ["spec"]),
        (KEYED, [{"k": "a", "n": 1}], [{"k": "b", "n": 9}, {"k": "a", "n": 1}], []),
        (KEYED, [{"k": "a", "n": 1}], [{"k": "a", "n": 2}], ["spec[0].n"]),
        ({"type": "array", "items": {"type": "integer", "minimum": 5}}, [1], [1, 9], ["spec[0]"]),
        ({"type": "array", "items": {"type": "integer", "minimum": 5}}, [1], [1], []),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": STRING},
                "not": {"properties": {"a": {"minimum": 5}}},
            },
            {"a": 1, "b": "1"},
            {"a": 1, "b": "2"},
            [],
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": STRING},
                "allOf": [{"properties": {"a": {"minimum": 5}}}],
            },
            {"a": 1, "b": "1"},
            {"a": 1, "b": "2"},
            ["spec.a", "<nil>"],
        ),
        ({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}, ["a", "a"], ["b", "b"], []),
        ({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}, ["a"], ["b", "b"], ["spec[1]"]),
        ({"type": "object", "required": ["a"], "properties": {"a": STRING, "b": STRING}}, {}, {}, []),
        (
            {"type": "object", "required": ["a"], "properties": {"a": STRING, "b": STRING}},
            {"b": "1"},
            {"b": "2"},
            ["spec.a"],
        ),
    ],
)
def test_updates_forgive_what_did_not_change(
    schema: dict[str, Any], old: Any, new: Any, fields: list[str]
) -> None:
    root = compile_schema({"type": "object", "properties": {"spec": schema, "other": STRING}})
    causes = validate({"spec": new, "other": "new"}, root, old={"spec": old, "other": "old"})
    assert [cause.field for cause in causes] == fields


def test_a_part_of_an_object_is_told_by_its_place() -> None:
    node = compile_schema({"type": "object", "required": ["b"], "properties": {"a": STRING, "b": STRING}})
    found = validate({"a": 1}, node, at="status")
    assert [(cause.field, cause.message) for cause in found] == [
        ("status.a", 'Invalid value: "integer": a in body must be of type string: "integer"'),
        ("status.b", "Required value"),
    ]


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_can_be_wrong_with_no_change(seed: int) -> None:
    maker = Maker(Random(seed))
    schema = maker.root()
    schema["properties"]["spec"].pop("x-kubernetes-preserve-unknown-fields", None)
    assume(not check_schema(schema))  # no such default comes into an object
    node = compile_schema(schema)
    obj = {"spec": maker.value(schema["properties"]["spec"], 0, wild=0.3)}
    prune(obj, node)
    apply_defaults(obj, node)
    if not node.embeds and not node.keyed and not _is_open(schema):
        assert validate(obj, node, old=copy.deepcopy(obj)) == []


def _is_open(schema: Any) -> bool:
    """Kubernetes does not recognise unknown fields, and items without a key, as unchanged."""
    if isinstance(schema, list):
        return any(map(_is_open, schema))
    if not isinstance(schema, dict):
        return False
    unknown = schema.get("x-kubernetes-preserve-unknown-fields") or isinstance(
        schema.get("additionalProperties"), bool
    )
    return bool(unknown) or any(map(_is_open, schema.values()))
