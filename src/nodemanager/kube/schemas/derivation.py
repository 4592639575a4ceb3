"""Typed objects -> the structural OpenAPI v3 schema that a CustomResourceDefinition needs.

The Python type says what a value is; the hints of `api.hints` say what else must hold; the
docstring of a Struct describes it where its field does not.
"""

from __future__ import annotations

import copy
import inspect as stdlib_inspect
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import inspect

from nodemanager.kube.hints import REQUIRED, validation

Schema = dict[str, Any]

_STANDARD: dict[str, Schema] = {
    "apiVersion": {"description": "Version of the schema this object is written in.", "type": "string"},
    "kind": {"description": "Kind of this object.", "type": "string"},
    "metadata": {"type": "object"},
}


def of_kind(kind: type[msgspec.Struct]) -> Schema:
    """Return the schema of a whole object; `metadata` is the API server's own business."""
    return of_kinds([kind])[0]


def of_kinds(kinds: Iterable[type[msgspec.Struct]]) -> list[Schema]:
    """Return the schemas of whole objects; what several of them have in common is looked at once."""
    listed = list(kinds)
    return [_whole(*each) for each in zip(listed, inspect.multi_type_info(listed), strict=True)]


def _whole(kind: type[msgspec.Struct], node: inspect.Type) -> Schema:
    schema = _convert(node)
    _refuse_defaults(schema, kind.__name__)
    properties = {name: value for name, value in schema["properties"].items() if name != "metadata"}
    return {**schema, "properties": {**copy.deepcopy(_STANDARD), **properties}}


def _refuse_defaults(schema: Schema, path: str, *, in_list: bool = False) -> None:
    """Raise for a default inside a list item: clients that merge take lists as a whole.

    To `kubectl apply` and GitOps tools the object would differ from its manifest for ever.
    """
    if in_list and "default" in schema:
        raise TypeError(
            f"cannot make a schema of {path}: it has a default inside a list item; leave that to the default "
            "of the Python type, and say so in its description"
        )
    for name, inner in schema.get("properties", {}).items():
        _refuse_defaults(inner, f"{path}.{name}", in_list=in_list)
    if "items" in schema:
        _refuse_defaults(schema["items"], f"{path}[]", in_list=True)
    if "additionalProperties" in schema:
        _refuse_defaults(schema["additionalProperties"], f"{path}[*]", in_list=in_list)


def _convert(node: inspect.Type) -> Schema:
    match node:
        case inspect.Metadata():
            return _with_hints(_convert(node.type), node.extra_json_schema or {})
        case inspect.StructType():
            return _struct(node)
        case inspect.ListType():
            return {"type": "array", "items": _without_required(_convert(node.item_type))}
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _without_required(_convert(node.value_type))}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", "format": "int64"}
        case inspect.UnionType():
            return _optional(node)
    raise TypeError(f"cannot make a schema of {node!r}: the API has no such values")


def _optional(node: inspect.UnionType) -> Schema:
    # None stands for "not given". A value that may be null on the wire says so with nullable=True.
    given = [member for member in node.types if not isinstance(member, inspect.NoneType)]
    if {type(member) for member in given} == {inspect.IntType, inspect.StrType}:
        return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    if len(given) != 1:
        raise TypeError(f"cannot make a schema of {node!r}: a structural schema has one type per field")
    return _convert(given[0])


def _struct(node: inspect.StructType) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for field in node.fields:
        schema = _convert(field.type)
        if schema.pop(REQUIRED, False):
            required.append(field.encode_name)
        properties[field.encode_name] = schema
    result: Schema = {"description": _summary(node.cls), "type": "object", "properties": properties}
    if required:
        result["required"] = required
    rules = getattr(node.cls, "RULES", ())
    if rules:
        result["x-kubernetes-validations"] = [validation(rule) for rule in rules]
    return result


def _summary(cls: type) -> str:
    text = stdlib_inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
    return " ".join(text.split())


def _with_hints(schema: Schema, hints: Schema) -> Schema:
    """Return the schema with the hints of the field, which know better than those of the type."""
    rules = [*schema.get("x-kubernetes-validations", []), *hints.get("x-kubernetes-validations", [])]
    merged = {"description": hints.get("description", ""), **schema, **hints}
    if rules:
        merged["x-kubernetes-validations"] = rules
    return merged


def _without_required(schema: Schema) -> Schema:
    schema.pop(REQUIRED, None)  # an item cannot be required, though its type may be marked so for fields
    return schema
