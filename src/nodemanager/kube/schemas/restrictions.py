"""What a CustomResourceDefinition's schema may not say, apart from being structural."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nodemanager.kube.errors import Cause
from nodemanager.kube.schemas.faults import forbidden, invalid, not_supported, required

Schema = Mapping[str, Any]

MAX_DEPTH = 100
"""Deeper schemas are refused; Kubernetes' own decoder stops at a depth of the same order."""
TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_SHAPES: dict[str, Any] = {
    **dict.fromkeys(("properties", "patternProperties", "definitions", "dependencies", "not"), dict),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "enum", "required", "x-kubernetes-list-map-keys"), list),
    **dict.fromkeys(("x-kubernetes-validations",), list),
    **dict.fromkeys(("type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type"), str),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties"), int),
    **dict.fromkeys(("maxProperties",), int),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), int | float),
    "items": dict | list,
    "additionalProperties": dict | bool,
}
_LISTS = ("allOf", "anyOf", "oneOf")
_META_FIELDS = ("apiVersion", "kind", "metadata")
_LIST_TYPES = ["atomic", "set", "map"]
_MAP_TYPES = ["atomic", "granular"]
_SET_ITEM_RULE = "must be atomic as item of a list with x-kubernetes-list-type=set"
MAP_KEY_RULE = (
    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
)


class _Place(NamedTuple):
    """What the position of a schema forbids."""

    no_defaults: str = ""
    inside_meta: bool = False


def malformed(schema: object, path: str, depth: int = 0) -> Iterator[Cause]:
    """Yield a cause for everything that is not even of the JSON type that a schema has there."""
    if depth > MAX_DEPTH:
        yield invalid(path, "", "must not nest so deeply")
    elif not isinstance(schema, Mapping):
        yield invalid(path, "", "must be an object")
    else:
        wrong = [name for name, kinds in _SHAPES.items() if not isinstance(schema.get(name), kinds | None)]
        for name in wrong:
            yield invalid(f"{path}.{name}", "", "must be of another type")
        if not wrong:
            for step, sub in subschemas(schema):
                yield from malformed(sub, path + step, depth + 1)


def subschemas(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield every schema directly inside a schema, with the rest of its path."""
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield ".additionalProperties", schema["additionalProperties"]
    for name, sub in (schema.get("properties") or {}).items():
        yield f".properties[{name}]", sub
    if schema.get("not") is not None:
        yield ".not", schema["not"]
    for junctor in _LISTS:
        for index, sub in enumerate(schema.get(junctor) or []):
            yield f".{junctor}[{index}]", sub
    if isinstance(schema.get("items"), Mapping):
        yield ".items", schema["items"]


def is_unsupported(schema: Schema) -> bool:
    """Tell whether a schema uses what cannot even be looked at as a structural schema."""
    if any(schema.get(name) for name in (*_UNSUPPORTED, "$schema")) or isinstance(schema.get("items"), list):
        return True
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return True
    return any(is_unsupported(sub) for _, sub in subschemas(schema))


def rule_faults(schema: Schema, path: str) -> list[Cause]:
    """Return everything in a schema, and below, that is not allowed."""
    return list(_faults(schema, path, _Place(), root=True))


def _faults(schema: Schema, path: str, place: _Place, *, root: bool = False) -> Iterator[Cause]:
    yield from _field_faults(schema, path, place)
    resource = root or bool(schema.get("x-kubernetes-embedded-resource"))
    for step, sub in subschemas(schema):
        below = place
        name = step.removeprefix(".properties[").removesuffix("]")
        if step == ".additionalProperties" and place.inside_meta:
            below = place._replace(no_defaults=" inside additionalProperties applying to object metadata")
        elif step.startswith(".properties[") and resource and name in _META_FIELDS:
            below = _Place(f" in top-level {name}" if root else place.no_defaults, inside_meta=True)
        yield from _faults(sub, path + step, below)
    yield from _extension_faults(schema, path)
    yield from _list_faults(schema, path)


def _field_faults(schema: Schema, path: str, place: _Place) -> Iterator[Cause]:
    written = schema.get("type") or ""
    if written and written not in TYPES:
        yield not_supported(f"{path}.type", written, TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set{place.no_defaults}")
    for name in _UNSUPPORTED:
        if schema.get(name) or (name in ("additionalItems", "dependencies") and schema.get(name) is not None):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if written == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        rule = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", rule)
    additional = schema.get("additionalProperties")
    if schema.get("properties") and additional is not None and additional is not True:
        rule = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", rule)


def _extension_faults(schema: Schema, path: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    kinds = (
        ("x-kubernetes-map-type", "object", _MAP_TYPES),
        ("x-kubernetes-list-type", "array", _LIST_TYPES),
    )
    for name, expected, allowed in kinds:
        value, written = schema.get(name), schema.get("type") or ""
        if value is None:
            continue
        if written != expected:
            rule = f"must be {expected} if {name} is specified"
            yield invalid(f"{path}.type", written, rule) if written else required(f"{path}.type", rule)
        if value not in allowed:
            yield not_supported(f"{path}.{name}", value, allowed)


def _list_faults(schema: Schema, path: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    if keys and list_type != "map":
        rule = "must be map if x-kubernetes-list-map-keys is non-empty"
        field = f"{path}.x-kubernetes-list-type"
        yield required(field, rule) if list_type is None else invalid(field, list_type, rule)
    if list_type == "set" and schema.get("type") == "array" and isinstance(items, Mapping):
        yield from _set_faults(items, path)
    if list_type == "map":
        if not keys:
            rule = "must not be empty if x-kubernetes-list-type is map"
            yield required(f"{path}.x-kubernetes-list-map-keys", rule)
        if items is None:
            yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        elif isinstance(items, Mapping):
            yield from _map_faults(items, keys, path)
    if list_type in ("set", "map") and isinstance(items, Mapping):
        yield from _key_faults(items, keys if list_type == "map" else [], list_type, path)


def _set_faults(items: Schema, path: str) -> Iterator[Cause]:
    if items.get("type") == "array" and items.get("x-kubernetes-list-type") not in (None, "atomic"):
        field = f"{path}.items.x-kubernetes-list-type"
        yield invalid(field, items["x-kubernetes-list-type"], _SET_ITEM_RULE)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        field = f"{path}.items.x-kubernetes-map-type"
        yield invalid(field, items.get("x-kubernetes-list-type"), _SET_ITEM_RULE)


def _map_faults(items: Schema, keys: list[str], path: str) -> Iterator[Cause]:
    if items.get("type") != "object":
        rule = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", rule)
        return
    properties = items.get("properties") or {}
    field = f"{path}.x-kubernetes-list-map-keys"
    for index, key in enumerate(keys):
        if key not in properties:
            yield invalid(field, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            rule = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", "object", rule)
        if key in keys[:index]:
            yield invalid(field, keys, "must not contain duplicate entries")


def _key_faults(items: Schema, keys: list[str], list_type: str, path: str) -> Iterator[Cause]:
    if items.get("nullable"):
        rule = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield forbidden(f"{path}.items.nullable", rule)
    properties = items.get("properties") or {}
    for key in keys:
        field = f"{path}.items.properties[{key}]"
        if key not in properties:
            continue
        if key not in (items.get("required") or []) and properties[key].get("default") is None:
            yield required(f"{field}.default", MAP_KEY_RULE)
        if properties[key].get("nullable"):
            rule = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{field}.nullable", rule)
