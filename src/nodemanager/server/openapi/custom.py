"""The schema of a custom resource, as it is published.

A CustomResourceDefinition leaves metadata to the server, and OpenAPI v2 has no words for some of what
a structural schema can say. kubectl refuses what it does not understand, so those parts are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from nodemanager.server.kinds.schemas.notation import Schema, metadata_property, type_properties

_KEEPS_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_NOT_IN_V2 = ("allOf", "anyOf", "oneOf", "not")


def for_v3(schema: Mapping[str, Any] | None) -> Schema:
    """Return the definition for OpenAPI v3."""
    if schema is None:
        return {"type": "object"}
    published = copy.deepcopy(dict(schema))
    _visit(published, _add_embedded)
    return _as_object(published)


def for_v2(schema: Mapping[str, Any] | None) -> Schema:
    """Return the definition for OpenAPI v2: anything goes where kubectl would be too strict."""
    if schema is None or schema.get(_KEEPS_UNKNOWN):
        return {"type": "object"}
    published = copy.deepcopy(dict(schema))
    _visit(published, _simplify)
    _visit(published, _add_embedded_v2)
    return _as_object(published)


def _as_object(schema: Schema) -> Schema:
    properties = {**schema.get("properties", {}), **type_properties(), "metadata": metadata_property()}
    return {**schema, "properties": properties}


def _visit(schema: Schema, change: Callable[[Schema], None]) -> None:
    change(schema)
    for part in schema.get("properties", {}).values():
        _visit(part, change)
    for name in ("items", "additionalProperties"):
        part = schema.get(name)
        if isinstance(part, dict):
            _visit(part, change)


def _add_embedded(schema: Schema) -> None:
    if not schema.get(_EMBEDDED):
        return
    properties = schema.setdefault("properties", {})
    properties.update(type_properties(), metadata=metadata_property())
    required = schema.setdefault("required", [])
    required.extend(name for name in ("kind", "apiVersion") if name not in required)


def _add_embedded_v2(schema: Schema) -> None:
    if not schema.get(_KEEPS_UNKNOWN):
        _add_embedded(schema)


def _simplify(schema: Schema) -> None:
    for name in _NOT_IN_V2:
        schema.pop(name, None)
    _forget_nullable_fields(schema)
    if schema.pop("nullable", False):
        for name in ("type", "items", "properties"):
            schema.pop(name, None)
    if schema.get(_KEEPS_UNKNOWN):
        for name in ("items", "properties"):
            schema.pop(name, None)
        if schema.get("type") == "object":
            del schema["type"]
    if schema.get("type") == "array" and "items" not in schema:
        del schema["type"]


def _forget_nullable_fields(schema: Schema) -> None:
    """A field that may be null cannot be required in v2, which has no null."""
    parts = schema.get("properties", {})
    required = [name for name in schema.get("required", ()) if not parts.get(name, {}).get("nullable")]
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and values.get("nullable"):
        required = []
    if required:
        schema["required"] = required
    else:
        schema.pop("required", None)
