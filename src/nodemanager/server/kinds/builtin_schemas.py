"""The schemas of built-in kinds, gathered: as definitions that refer to each other, or as one tree."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from nodemanager.kube.patching import merge_types, strategies
from nodemanager.kube.patching.strategies import Strategy
from nodemanager.server.kinds import schemas
from nodemanager.server.kinds.schemas.notation import META, REF, Schema, expand, read

_GVK = "x-kubernetes-group-version-kind"
_FILES = ("meta", "core", "pod", "pod_parts", "volumes", "groups", "extension", "reviews")
_MACHINERY = "io.k8s.apimachinery.pkg"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_TIME: Schema = {"type": "string", "format": "date-time"}
_VALUES: dict[str, Schema] = {
    f"{META}.Time": {"description": "A time in RFC 3339.", **_TIME},
    f"{META}.MicroTime": {"description": "A time in RFC 3339 with microseconds.", **_TIME},
    f"{META}.FieldsV1": {"description": "A set of fields, as a tree.", "type": "object"},
    f"{META}.Patch": {"description": "A change, in the format its Content-Type names.", "type": "object"},
    f"{_MACHINERY}.runtime.RawExtension": {"description": "Any object.", "type": "object"},
    f"{_MACHINERY}.api.resource.Quantity": {
        "description": "An amount with an optional unit, such as 100m, 1.5 or 64Mi.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    f"{_MACHINERY}.util.intstr.IntOrString": {
        "description": "A number, or text such as a percentage or the name of a port.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    f"{_EXTENSIONS}.JSON": {"description": "Any value."},
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": {"description": "A schema, or a list of them."},
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": {"description": "A schema, or true or false."},
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": {"description": "A schema, or a list of names."},
}
"""Single values that are definitions of their own."""


@cache
def definitions() -> Mapping[str, Schema]:
    """Return every definition by its full name; all callers share it, so it must not be changed."""
    found = dict(_VALUES)
    for name in _FILES:
        text = (resources.files(schemas) / f"{name}.schema").read_text(encoding="utf-8")
        for package in read(text):
            found.update(expand(package))
    return found


@cache
def _names() -> Mapping[tuple[str, str, str], str]:
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in definitions().items()
        for kind in schema.get(_GVK, ())
    }


def definition_name(group: str, version: str, kind: str) -> str | None:
    """Return the definition of a built-in kind, or None when there is none."""
    return _names().get((group, version, kind))


def structural(group: str, version: str, kind: str) -> Schema | None:
    """Return the schema of a built-in kind as one tree without references, or None when there is none.

    A definition that contains itself ends in a part that keeps unknown fields. Nothing is nullable here:
    built-in kinds take null for "not given", so callers leave nulls out before they validate with this.
    """
    name = definition_name(group, version, kind)
    return None if name is None else _inlined({"$ref": REF + name}, ())


@cache
def strategy(group: str, version: str, kind: str) -> Strategy:
    """Return how a strategic merge patch changes a built-in kind."""
    return strategies.of_schema(structural(group, version, kind) or {})


def references(schema: Any) -> Iterator[str]:
    """Yield the names of all definitions that a part of a document refers to."""
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str):
            yield target.rpartition("/")[2]
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def _inlined(schema: Schema, above: tuple[str, ...]) -> Schema:
    target = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), None)
    if target is None:
        return _inlined_parts(schema, above)
    name = str(target).rpartition("/")[2]
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    definition = definitions()[name]
    if name in above:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **own}
    if "type" not in definition:
        return {**_untyped(definition), **own}
    if definition["type"] == "object" and "properties" not in definition:
        return {**definition, "x-kubernetes-preserve-unknown-fields": True, **own}
    return {**_inlined_parts(definition, (*above, name)), **own}


def _untyped(definition: Schema) -> Schema:
    """Return a schema for a value of several types, in the words of structural schemas."""
    marks = {"x-kubernetes-int-or-string": True}
    if definition.get("format") != "int-or-string":  # a quantity may be a fraction, too
        marks = {"x-kubernetes-preserve-unknown-fields": True, merge_types.SCALAR: True}
    return {**marks, "description": definition["description"]}


def _inlined_parts(schema: Schema, above: tuple[str, ...]) -> Schema:
    parts = {key: copy.copy(value) for key, value in schema.items() if key != _GVK}
    if "properties" in schema:
        parts["properties"] = {key: _inlined(value, above) for key, value in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            parts[key] = _inlined(schema[key], above)
    return parts
