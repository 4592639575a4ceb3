"""The field reference of a kind, in Markdown, from the schema of its CRD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_HEADER = "<!-- Generated from the types in src/nodemanager/api, do not edit: make generate -->"
_LIMITS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} entries"),
)


def page(crd: Schema) -> str:
    """Return the page of one kind."""
    spec = crd["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    lines = [
        _HEADER,
        f"# {names['kind']}",
        schema["description"],
        f"`apiVersion: {spec['group']}/{version['name']}`, `kind: {names['kind']}`, {spec['scope'].lower()}.",
        f"Short names: {', '.join(f'`{name}`' for name in names['shortNames'])}.",
    ]
    for name in [each for each in ("spec", "status") if each in schema["properties"]]:
        lines += _section(name, schema["properties"][name])
    lines += ["## Columns of kubectl get", *_columns(version["additionalPrinterColumns"])]
    return "\n\n".join(lines) + "\n"


def _section(path: str, schema: Schema) -> Iterator[str]:
    """Yield the table of an object, then the sections of the objects inside it."""
    yield f"## {path}"
    yield schema["description"]
    inner = _object_in(schema)
    if inner is not schema and inner.get("description"):
        yield inner["description"]
    rules = [each["message"] for each in inner.get("x-kubernetes-validations", [])]
    required = inner.get("required", [])
    rows = ["| Field | Type | Description |", "|---|---|---|"]
    rows += [_row(name, field, name in required) for name, field in inner["properties"].items()]
    yield "\n".join(rows)
    if rules:
        yield "\n".join(f"- Refused otherwise: {message}." for message in rules)
    for name, field in inner["properties"].items():
        if "properties" in _object_in(field):
            yield from _section(f"{path}.{name}{_suffix(field)}", field)


def _row(name: str, field: Schema, required: bool) -> str:
    description = field["description"] + _details(field)
    cells = (f"`{name}`" + (" (required)" if required else ""), _type(field), description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _details(field: Schema) -> str:
    parts = []
    if "enum" in field:
        parts.append("One of " + ", ".join(f"`{value or chr(34) * 2}`" for value in field["enum"]))
    if "x-kubernetes-list-map-keys" in field:
        keys = " and ".join(f"`{key}`" for key in field["x-kubernetes-list-map-keys"])
        parts.append(f"No two items with the same {keys}")
    if field.get("default", "") != "" and "efault" not in field["description"]:
        parts.append(f"Default `{field['default']}`")
    parts += [
        each["message"][0].upper() + each["message"][1:] for each in field.get("x-kubernetes-validations", [])
    ]
    limits = [text.format(field[key]) for key, text in _LIMITS if key in field]
    if limits:
        parts.append(", ".join(limits).capitalize())
    return "".join(f"<br>{part}." for part in parts)


def _type(field: Schema) -> str:
    if "x-kubernetes-int-or-string" in field:
        return "integer or string"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    return "time" if field.get("format") == "date-time" else str(field["type"])


def _object_in(field: Schema) -> Schema:
    """Return the object that a field, or each item of it, is."""
    inner: Schema = field.get("items") or field.get("additionalProperties") or field
    return inner


def _suffix(field: Schema) -> str:
    return "[]" if field.get("type") == "array" else ".*" if "additionalProperties" in field else ""


def _columns(columns: list[Schema]) -> Iterator[str]:
    rows = ["| Column | Shows | Only with `-o wide` |", "|---|---|---|"]
    rows += [
        f"| {each['name']} | {each['description']} | {'yes' if each.get('priority') else ''} |"
        for each in columns
    ]
    yield "\n".join(rows)
