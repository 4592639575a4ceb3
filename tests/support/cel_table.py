"""Expressions for the comparison with kube-apiserver, and the object they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TEXT = {"type": "string", "maxLength": 40}
SPEC_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": _TEXT,
        "absent": _TEXT,
        "num": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "span": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte", "maxLength": 40},
        "mixed": {"x-kubernetes-int-or-string": True, "maxLength": 20},
        "nothing": {"type": "string", "nullable": True, "maxLength": 20},
        "items": {"type": "array", "maxItems": 5, "items": _TEXT},
        "numbers": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "set": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": _TEXT},
        "named": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _TEXT, "value": {"type": "integer"}},
            },
        },
        "labels": {"type": "object", "maxProperties": 5, "additionalProperties": _TEXT},
        "odd": {
            "type": "object",
            "properties": {
                "a-b": _TEXT,
                "a.b": _TEXT,
                "a/b": _TEXT,
                "a__b": _TEXT,
                "if": _TEXT,
                "int": _TEXT,
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
SPEC: dict[str, Any] = {
    "text": "h\u00e9llo w\u00f6rld",
    "num": 7,
    "ratio": 2.5,
    "flag": True,
    "when": "2024-02-29T12:34:56.789Z",
    "day": "2024-03-01",
    "span": "90m",
    "data": "aGk=",
    "mixed": "50%",
    "nothing": None,
    "items": ["b", "a", "c"],
    "numbers": [3, 1, 2],
    "set": ["x", "y"],
    "named": [{"name": "one", "value": 1}, {"name": "two", "value": 2}],
    "labels": {"app": "web", "a__dash__b": "kept"},
    "odd": {"a-b": "dash", "a.b": "dot", "a/b": "slash", "a__b": "under", "if": "kw", "int": "type"},
    "free": {"any": 1},
}

_FILE = Path(__file__).resolve().parent.parent / "cases" / "cel" / "expressions.txt"
EXPRESSIONS = _FILE.read_text(encoding="utf-8").splitlines()
"""One expression per line; results, errors and refusals are compared."""
