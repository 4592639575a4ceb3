"""Tables: what `kubectl get` prints, computed here so that every client prints the same."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.kinds.resources import PrinterColumn, ServedKind
from nodemanager.server.verbs import jsonpath, printers, stored
from nodemanager.server.verbs.printers import Heading

_NAME = Heading("Name", format="name", description="Name of the object, unique within its namespace.")
_CREATED = PrinterColumn("Age", "date", ".metadata.creationTimestamp", "When the object was created.")
_INCLUDES = ("", "Metadata", "Object", "None")


def table(kind: ServedKind, body: Untyped, include: str, now: datetime) -> Untyped:
    """Return an object or a list as a Table."""
    if include not in _INCLUDES:
        raise errors.BadRequest(f'unrecognized includeObject value: "{include}"')
    is_list = "items" in body and body.get("kind") != kind.kind
    version = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
    meta = stored.list_meta(body) if is_list else version
    items = body["items"] if is_list else [body]
    headings, rows = _print(kind, items, now)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [heading.as_json() for heading in headings],
        "rows": [
            {"cells": cells, **_object(kind, item, include)} for item, cells in zip(items, rows, strict=True)
        ],
    }


def _object(kind: ServedKind, item: Untyped, include: str) -> Untyped:
    if include == "None":
        return {"object": None}
    if include == "Object":  # items of a list do not say what they are, rows of a Table do
        return {"object": {"kind": kind.kind, "apiVersion": kind.api_version, **item}}
    return {"object": stored.metadata_of(item)}


def _print(kind: ServedKind, items: list[Untyped], now: datetime) -> tuple[list[Heading], list[list[Any]]]:
    printer = None if kind.custom else printers.PRINTERS.get(kind.plural)
    if printer is not None:
        return list(printer.headings), [printer.cells(item, now) for item in items]
    if not kind.custom:
        created = Heading("Created At", "date", description=_CREATED.description)
        rows = [[_name(item), item["metadata"].get("creationTimestamp")] for item in items]
        return [_NAME, created], rows
    columns = kind.columns or (_CREATED,)
    headings = [_NAME, *(_heading(column) for column in columns)]
    return headings, [[_name(item), *(cell(item, column, now) for column in columns)] for item in items]


def _name(item: Untyped) -> str:
    return str(item["metadata"].get("name", ""))


def _heading(column: PrinterColumn) -> Heading:
    text = column.description or f"Custom resource definition column (in JSONPath format): {column.path}"
    return Heading(column.name, column.type, column.format, column.priority, text)


def cell(item: Untyped, column: PrinterColumn, now: datetime) -> Any:
    """Return what a custom column shows of an object; None where there is nothing to show."""
    try:
        found = jsonpath.find(item, column.path)
    except jsonpath.PathError:
        return None
    if not found or found[0] is None:
        return None
    if column.type == "string":
        return " ".join(_text(value) for value in found)
    value = found[0]
    match column.type:
        case "integer" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return printers.age(value, now)
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
