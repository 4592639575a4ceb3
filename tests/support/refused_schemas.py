"""Schemas that a kube-apiserver refuses to install, each for a reason of its own."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_STRING: Schema = {"type": "string"}
_ITEM: Schema = {"type": "object", "required": ["key"], "properties": {"key": _STRING}}


def _list(**extra: Any) -> Schema:
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"], **extra}


PARTS: dict[str, Schema] = {
    "no type": {},
    "no item type": {"type": "array", "items": {}},
    "no items": {"type": "array"},
    "unknown type": {"type": "text"},
    "type null": {"type": "null"},
    "type in anyOf": {"type": "string", "anyOf": [{"type": "string"}]},
    "default in oneOf": {"type": "string", "oneOf": [{"default": "x"}]},
    "description in not": {"type": "string", "not": {"description": "x", "title": "y", "nullable": True}},
    "extensions in allOf": {
        "type": "array",
        "items": _STRING,
        "allOf": [
            {
                "x-kubernetes-list-type": "set",
                "x-kubernetes-list-map-keys": ["a"],
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-int-or-string": True,
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        ],
    },
    "additionalProperties in anyOf": {
        "type": "object",
        "anyOf": [{"additionalProperties": {"minLength": 1}}],
    },
    "metadata in junctor": {
        "type": "object",
        "properties": {"metadata": {"type": "object"}},
        "allOf": [{"properties": {"metadata": {"minProperties": 1}}}],
    },
    "pattern: bracket": {"type": "string", "pattern": "[a"},
    "pattern: group": {"type": "string", "pattern": "(a"},
    "pattern: close": {"type": "string", "pattern": "a)"},
    "pattern: star": {"type": "string", "pattern": "*a"},
    "pattern: nested star": {"type": "string", "pattern": "a**"},
    "pattern: look-ahead": {"type": "string", "pattern": "a(?=b)"},
    "pattern: look-behind": {"type": "string", "pattern": "(?<!a)b"},
    "pattern: back-reference": {"type": "string", "pattern": r"(a)\1"},
    "pattern: range": {"type": "string", "pattern": "[z-a]"},
    "pattern: count": {"type": "string", "pattern": "a{1001}"},
    "pattern: backslash": {"type": "string", "pattern": "a\\"},
    "pattern: escape": {"type": "string", "pattern": r"\Za"},
    "pattern: class": {"type": "string", "pattern": "[[:word1:]]"},
    "pattern in junctor": {"type": "string", "allOf": [{"pattern": "["}]},
    "default of wrong type": {"type": "string", "default": 1},
    "default out of bounds": {"type": "integer", "minimum": 5, "default": 1},
    "default with unknown field": {"type": "object", "properties": {"a": _STRING}, "default": {"b": 1}},
    "default lacks field": {"type": "object", "required": ["a"], "properties": {"a": _STRING}, "default": {}},
    "default in items": {"type": "array", "items": {"type": "string", "enum": ["a", "b"], "default": "c"}},
    "map without keys": {"type": "array", "items": _ITEM, "x-kubernetes-list-type": "map"},
    "map without items": _list(),
    "map of scalars": _list(items=_STRING),
    "map key missing": _list(items={"type": "object", "properties": {"other": _STRING}}),
    "map key optional": _list(items={"type": "object", "properties": {"key": _STRING}}),
    "map key nullable": _list(
        items={"type": "object", "required": ["key"], "properties": {"key": {**_STRING, "nullable": True}}}
    ),
    "map key twice": {**_list(items=_ITEM), "x-kubernetes-list-map-keys": ["key", "key"]},
    "map key compound": _list(
        items={"type": "object", "required": ["key"], "properties": {"key": {"type": "object"}}}
    ),
    "map items nullable": _list(items={**_ITEM, "nullable": True}),
    "keys without map": {"type": "array", "items": _ITEM, "x-kubernetes-list-map-keys": ["key"]},
    "keys of set": {**_list(items=_STRING), "x-kubernetes-list-type": "set"},
    "set of maps": {"type": "array", "items": _ITEM, "x-kubernetes-list-type": "set"},
    "set of sets": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "atomic"},
        "nullable": True,
        "minItems": 1,
        "default": 1,
    },
    "set items nullable": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "nullable": True},
    },
    "unknown list type": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "bag"},
    "list type of string": {"type": "string", "x-kubernetes-list-type": "set"},
    "list type of nothing": {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-list-type": "set"},
    "unknown map type": {"type": "object", "x-kubernetes-map-type": "loose"},
    "map type of string": {"type": "string", "x-kubernetes-map-type": "atomic"},
    "unique items": {"type": "array", "items": _STRING, "uniqueItems": True},
    "both kinds of properties": {
        "type": "object",
        "properties": {"a": _STRING},
        "additionalProperties": _STRING,
    },
    "preserve false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "int-or-string and preserve": {
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "embedded without type": {
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "embedded string": {
        "type": "string",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "embedded and closed": {"type": "object", "x-kubernetes-embedded-resource": True},
    "embedded map": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "additionalProperties": _STRING,
    },
    "embedded kind": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"kind": {"type": "integer"}, "metadata": {"type": "string"}},
    },
    "definitions": {"type": "object", "definitions": {"a": _STRING}},
    "pattern properties": {"type": "object", "patternProperties": {"a": _STRING}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"]}},
    "reference": {"type": "object", "$ref": "#/definitions/a"},
    "id": {"type": "object", "id": "x"},
    "list of items": {"type": "array", "items": [_STRING]},
    "additional items": {"type": "array", "items": _STRING, "additionalItems": False},
}
"""Refused as the schema of one field."""

ROOTS: dict[str, Schema] = {
    "root of no type": {},
    "root string": {"type": "string"},
    "root map": {"type": "object", "additionalProperties": {"type": "string"}},
    "root nullable": {"type": "object", "nullable": True},
    "root metadata": {
        "type": "object",
        "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
    },
    "root metadata string": {"type": "object", "properties": {"metadata": {"type": "string"}}},
    "root kind": {"type": "object", "properties": {"kind": {"type": "integer"}}},
    "root default": {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}
        },
    },
    "unspecified property": {"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]},
    "unspecified items": {"type": "object", "not": {"items": {"minLength": 1}}},
    "unspecified deep": {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": _STRING}}},
        "allOf": [{"oneOf": [{"properties": {"a": {"properties": {"c": {"minLength": 1}}}}}]}],
    },
    "root schema": {"type": "object", "$schema": "http://json-schema.org/schema#"},
}
"""Refused as the schema of a whole object."""


def refused_schemas() -> dict[str, Schema]:
    """Return all of them, as schemas of whole objects."""
    fields = {name: {"type": "object", "properties": {"field": part}} for name, part in PARTS.items()}
    return {**fields, **ROOTS}
