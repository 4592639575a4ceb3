"""OpenAPI v3 schemas -> types of CEL, and JSON values -> values of those types."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from nodemanager.kube.cel import times, types
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.parser import RESERVED
from nodemanager.kube.cel.values import MapList, SchemaObject, SetList

Schema = Mapping[str, Any]
Convert = Callable[[Any], Any]

_RESERVED = RESERVED | {"true", "false", "null", "in"}
_EXPANDED = re.compile(r"__|[-./]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_SCALARS = {"boolean": types.BOOL, "number": types.DOUBLE, "integer": types.INT}
_FORMATS = {
    "byte": types.BYTES,
    "duration": types.DURATION,
    "date": types.TIMESTAMP,
    "date-time": types.TIMESTAMP,
}
_STRING = {"type": "string"}
_META = {
    "kind": _STRING,
    "apiVersion": _STRING,
    "metadata": {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}},
}


def escape(name: str) -> str | None:
    """Return the name of a field as expressions write it, or None if they cannot."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _EXPANDED.sub(lambda found: _ESCAPES[found.group()], name)


def as_resource(schema: Schema) -> Schema:
    """Return the schema of a whole resource: of its metadata, rules see the name only."""
    return {**schema, "properties": {**schema.get("properties", {}), **_META}}


def _prepared(schema: Schema) -> Schema:
    return as_resource(schema) if schema.get("x-kubernetes-embedded-resource") else schema


def type_of_schema(schema: Schema, name: str = "object") -> types.Type | None:
    """Return the type of values of a schema, or None where expressions cannot reach them."""
    schema = _prepared(schema)
    if schema.get("x-kubernetes-int-or-string"):
        return types.DYN
    match schema.get("type"):
        case "array":
            item = type_of_schema(schema.get("items") or {}, f"{name}.@idx")
            return types.list_of(item) if item is not None else None
        case "object":
            return _object_type(schema, name)
        case "string":
            return _FORMATS.get(schema.get("format", ""), types.STRING)
    return _SCALARS.get(str(schema.get("type")))


def _object_type(schema: Schema, name: str) -> types.Type | None:
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        value = type_of_schema(values, f"{name}.@elem")
        return types.map_of(types.STRING, value) if value is not None else None
    fields: dict[str, types.Type] = {}
    for key, property_schema in schema.get("properties", {}).items():
        field_name = escape(key)
        field_type = type_of_schema(property_schema, f"{name}.{key}")
        if field_name is not None and field_type is not None:
            fields[field_name] = field_type
            if key in _RESERVED:  # Kubernetes takes a keyword after a dot as it is, too
                fields[key] = field_type
    return types.Type(name, fields=fields)


def converter(schema: Schema) -> Convert:
    """Return what turns JSON of a schema into values of CEL."""
    schema = _prepared(schema)
    if schema.get("x-kubernetes-int-or-string"):
        return _same
    match schema.get("type"):
        case "array":
            return _list_converter(schema)
        case "object":
            return _object_converter(schema)
        case "string":
            return _STRINGS.get(schema.get("format", ""), _same)
        case "number":
            return _number
    return _same


def _same(value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _list_converter(schema: Schema) -> Convert:
    item = converter(schema.get("items") or {})
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return lambda value: SetList(map(item, value)) if isinstance(value, list) else value
        case "map":
            keys = tuple(escape(key) or key for key in schema.get("x-kubernetes-list-map-keys", ()))
            return lambda value: MapList(map(item, value), keys) if isinstance(value, list) else value
    if item is _same:
        return _same
    return lambda value: [item(each) for each in value] if isinstance(value, list) else value


def _object_converter(schema: Schema) -> Convert:
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping) and not schema.get("properties"):
        item = converter(values)
        if item is _same:
            return _same
        return lambda value: (
            {key: item(each) for key, each in value.items()} if isinstance(value, dict) else value
        )
    fields = {
        key: (field_name, converter(property_schema))
        for key, property_schema in schema.get("properties", {}).items()
        if (field_name := escape(key)) is not None
    }

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        record = SchemaObject({key: each for key, each in value.items() if key not in fields})
        for key, each in value.items():
            if key in fields:
                field_name, item = fields[key]
                record[field_name] = item(each)
                if key in _RESERVED:
                    record[key] = record[field_name]
        return record

    return convert


def _text(read: Callable[[str], Any]) -> Convert:
    return lambda value: read(value) if isinstance(value, str) else value


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise CelError(f"Invalid byte formatted string {text[:100]}") from None


_STRINGS: dict[str, Convert] = {
    "byte": _text(_bytes),
    "duration": _text(times.parse_duration),
    "date": _text(times.parse_date),
    "date-time": _text(times.parse_timestamp),
}
