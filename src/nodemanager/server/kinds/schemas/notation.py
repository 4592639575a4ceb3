"""A short notation for the schemas of built-in kinds, and what it stands for in OpenAPI v3.

A file has packages; each begins with a line that has the prefix of its definitions and the API group of its
kinds. A definition is a line that starts at the margin, its fields are the indented lines below:

    = io.k8s.api.core.v1
    Container | One program of a pod, with its image.
      name! string | Name, unique within the pod.
      ports [ContainerPort] map=containerPort,protocol patch=merge:containerPort | Ports it listens on.

`!` means required; `[T]` is a list, `{T}` a map; a capital letter starts the name of another
definition, of the same package or of one listed in `SHARED`. After the type come marks: `atomic`,
`set`, `map=KEYS` (list type), `patch=STRATEGY:KEY`, `default=V`, `enum=A,B` (of a list: its items).
Marks of a definition: `kind` (has apiVersion, kind and metadata), `list` (there is a List of it),
`typed` (has a kind, but no metadata), `atomic` (replaced as a whole). What follows ` | ` describes.
A backslash at its end continues a line; what comes before the first package is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Schema = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
CORE = "io.k8s.api.core.v1"
REF = "#/components/schemas/"
SHARED = {
    "Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "RawExtension": "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    **{
        name: f"{META}.{name}"
        for name in ("Condition", "DeleteOptions", "FieldSelectorRequirement", "LabelSelector", "ListMeta")
    },
    **{name: f"{META}.{name}" for name in ("LabelSelectorRequirement", "MicroTime", "ObjectMeta", "Time")},
}
"""Definitions that every package may use by their short names."""

_SCALARS: dict[str, Schema] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_FIELD = re.compile(r"(?P<name>[\w$-]+)(?P<required>!?) (?P<type>\S+)(?P<marks>( \S+)*)")


class SchemaPackage(NamedTuple):
    """Definitions that share a prefix, and the group and version of the kinds among them."""

    prefix: str
    group: str
    text: str
    version: str = "v1"


def read(text: str) -> Iterator[SchemaPackage]:
    """Yield the packages of a file."""
    for part in text.replace("\\\n", "").split("\n= ")[1:]:
        head, _, definitions = part.partition("\n")
        prefix, _, group = head.partition(" ")
        yield SchemaPackage(prefix, group, definitions)


def expand(package: SchemaPackage) -> dict[str, Schema]:
    """Return the definitions of a package by their full names."""
    found: dict[str, Schema] = {}
    for header, fields in _blocks(package.text):
        head, _, description = header.partition(" | ")
        name, *marks = head.split()
        schema = _definition(package, fields, description)
        if "atomic" in marks:
            schema["x-kubernetes-map-type"] = "atomic"
        if "kind" in marks:
            schema["properties"] = {**_standard("ObjectMeta"), **schema.get("properties", {})}
        if "kind" in marks or "typed" in marks:
            schema["x-kubernetes-group-version-kind"] = [gvk(package.group, package.version, name)]
        found[f"{package.prefix}.{name}"] = schema
        if "list" in marks:
            found[f"{package.prefix}.{name}List"] = list_schema(
                f"{package.prefix}.{name}", gvk(package.group, package.version, f"{name}List")
            )
    return found


def gvk(group: str, version: str, kind: str) -> dict[str, str]:
    """Return a kind's full name, as the documents write it."""
    return {"group": group, "kind": kind, "version": version}


def described_ref(name: str, description: str) -> Schema:
    """Return a reference that has a description of its own."""
    return {"description": description, "allOf": [{"$ref": REF + name}]}


def list_schema(item: str, names: dict[str, str]) -> Schema:
    """Return the schema of a list of objects."""
    items: Schema = {"description": "The objects.", "type": "array", "items": {"$ref": REF + item}}
    return {
        "description": f"A list of objects of the kind {item.rpartition('.')[2]}.",
        "type": "object",
        "required": ["items"],
        "properties": {**_standard("ListMeta"), "items": items},
        "x-kubernetes-group-version-kind": [names],
    }


def type_properties() -> dict[str, Schema]:
    """Return the fields that say what an object is."""
    return {
        "apiVersion": {"description": "Version of the schema this object is written in.", "type": "string"},
        "kind": {"description": "Kind of this object.", "type": "string"},
    }


def metadata_property() -> Schema:
    """Return the metadata field of an object."""
    return described_ref(SHARED["ObjectMeta"], "Standard metadata of an object.")


def _standard(metadata: str) -> dict[str, Schema]:
    if metadata == "ObjectMeta":
        return {**type_properties(), "metadata": metadata_property()}
    return {
        **type_properties(),
        "metadata": described_ref(SHARED[metadata], "Standard metadata of a list."),
    }


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    header, fields = "", list[str]()
    for line in filter(str.strip, text.splitlines()):
        if line.startswith(" "):
            fields.append(line.strip())
            continue
        if header:
            yield header, fields
        header, fields = line, []
    if header:
        yield header, fields


def _definition(package: SchemaPackage, lines: list[str], description: str) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for line in lines:
        field, _, meaning = line.partition(" | ")
        match = _FIELD.fullmatch(field)
        if match is None:
            raise ValueError(f"cannot read the field {field!r} of {package.prefix}: no name and type")
        properties[match["name"]] = _field(package, match, meaning)
        if match["required"]:
            required.append(match["name"])
    schema: Schema = {"description": description, "type": "object"}
    if required:
        schema["required"] = required
    if properties:
        schema["properties"] = properties
    return schema


def _field(package: SchemaPackage, match: re.Match[str], meaning: str) -> Schema:
    schema = _type(package, match["type"])
    if "$ref" in schema and (meaning or match["marks"]):
        schema = {"allOf": [schema]}  # nothing may stand beside a reference
    if meaning:
        schema = {"description": meaning, **schema}
    for mark in match["marks"].split():
        name, _, value = mark.partition("=")
        target = schema["items"] if name == "enum" and "items" in schema else schema
        target.update(_mark(name, value, is_map="additionalProperties" in schema))
    return schema


def _type(package: SchemaPackage, name: str) -> Schema:
    if name.startswith("["):
        return {"type": "array", "items": _type(package, name[1:-1])}
    if name.startswith("{"):
        return {"type": "object", "additionalProperties": _type(package, name[1:-1])}
    if name in _SCALARS:
        return dict(_SCALARS[name])
    if name.startswith("core."):
        return {"$ref": f"{REF}{CORE}.{name.removeprefix('core.')}"}
    return {"$ref": REF + SHARED.get(name, f"{package.prefix}.{name}")}


def _mark(name: str, value: str, *, is_map: bool) -> Schema:
    match name:
        case "map":
            keys = value.split(",")
            return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
        case "atomic" if is_map:
            return {"x-kubernetes-map-type": name}
        case "atomic" | "set":
            return {"x-kubernetes-list-type": name}
        case "patch":
            strategy, _, key = value.partition(":")
            merge: Schema = {"x-kubernetes-patch-strategy": strategy}
            return {**merge, "x-kubernetes-patch-merge-key": key} if key else merge
        case "default":
            return {"default": value}
        case "enum":
            return {"enum": value.split(",")}
    raise ValueError(f"cannot read the mark {name!r}: there is no such mark")
