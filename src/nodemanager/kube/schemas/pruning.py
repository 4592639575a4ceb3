"""Removing what a schema does not know, the way Kubernetes does before it looks any further.

Pruning never refuses. A caller that was asked for strict field validation refuses by the paths
returned here, one that was asked to warn writes a warning for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nodemanager.kube.schemas.structural import Structural

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
OBJECT_META_FIELDS = frozenset(
    {
        "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
        "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences",
        "resourceVersion", "selfLink", "uid",
    }
)  # fmt: skip
_NESTED_META_FIELDS = {
    "ownerReferences": frozenset({"apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"}),
    "managedFields": frozenset(
        {"apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"}
    ),
}


def prune(value: dict[str, Any], node: Structural) -> list[str]:
    """Remove unknown fields of a resource in place, and return their paths in Kubernetes' order.

    `apiVersion`, `kind` and `metadata` are known to every resource, at the root and embedded;
    `metadata` is reduced to what an ObjectMeta has.
    """
    meta = value.get("metadata")
    # An empty list of managedFields is a request: it is kept for the code that settles the owners.
    requested = meta.get("managedFields") if type(meta) is dict else None
    unknown = sorted(_meta(meta, "metadata"))
    if requested == [] and type(meta) is dict:
        meta["managedFields"] = requested
    found: list[str] = []
    (_keep if node.preserve_unknown else _prune)(value, node, "", found, True)
    unknown += sorted(found)
    return unknown + reduce_embedded(value, node)


def reduce_embedded(value: Any, node: Structural) -> list[str]:
    """Reduce the metadata of embedded resources in place, and return the paths of what was removed."""
    return sorted(_embedded(value, node, "")) if node.embeds else []


def prune_value(value: Any, node: Structural) -> list[str]:
    """Remove unknown fields of a part of a resource, a default for example, in place."""
    found: list[str] = []
    _visit(value, node, "", found)
    return sorted(found)


def _visit(value: Any, node: Structural | None, path: str, found: list[str]) -> None:
    kind = type(value)
    if kind is dict:
        if node is not None and node.preserve_unknown:
            _keep(value, node, path, found, node.embedded)
        else:
            _prune(value, node, path, found, node is not None and node.embedded)
    elif kind is list:
        items = None if node is None else node.items
        if node is not None and node.preserve_unknown:
            _keep_items(value, items, path, found)
            return
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _visit(item, items, f"{path}[{index}]", found)


def _prune(value: Any, node: Structural | None, path: str, found: list[str], resource: bool) -> None:
    removed = []
    for name, item in value.items():
        if resource and name in META_FIELDS:
            continue
        if node is not None and (known := node.properties.get(name, node.additional)) is not None:
            if type(item) is dict or type(item) is list:
                _visit(item, known, f"{path}.{name}" if path else name, found)
        elif node is not None and node.open is not None:
            _visit(item, None, f"{path}.{name}" if path else name, found)
        else:
            removed.append(name)
    for name in removed:
        del value[name]
        if path or name not in META_FIELDS:
            found.append(f"{path}.{name}" if path else name)


def _keep(value: Any, node: Structural, path: str, found: list[str], resource: bool) -> None:
    """Leave unknown fields alone, but prune below the fields that are specified after all."""
    for name, item in value.items():
        if resource and name in META_FIELDS:
            continue
        below = f"{path}.{name}" if path else name
        if (known := node.properties.get(name, node.additional)) is not None:
            _visit(item, known, below, found)
        elif node.open is not None:
            _visit(item, None, below, found)


def _keep_items(value: list[Any], node: Structural | None, path: str, found: list[str]) -> None:
    if node is None:
        return
    for index, item in enumerate(value):
        if type(item) is dict:
            _keep(item, node, f"{path}[{index}]", found, node.embedded)
        elif type(item) is list:
            _keep_items(item, node.items, f"{path}[{index}]", found)


def _embedded(value: Any, node: Structural | None, path: str) -> Iterator[str]:
    """Reduce the metadata of embedded resources, and yield the paths of what was not known."""
    if node is None or not node.embeds:
        return
    if type(value) is dict:
        if node.embedded and "metadata" in value:
            if value["metadata"] is None and "metadata" not in node.properties:
                value["metadata"] = {}
            yield from _meta(value["metadata"], f"{path}.metadata" if path else "metadata")
        for name, item in value.items():
            if name in node.properties:
                yield from _embedded(item, node.properties[name], f"{path}.{name}" if path else name)
            else:
                yield from _embedded(item, node.additional, f"{path}[{name}]")
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _embedded(item, node.items, f"{path}[{index}]")


def _meta(meta: Any, path: str) -> Iterator[str]:
    if type(meta) is not dict:
        return
    for name in list(meta):
        if name not in OBJECT_META_FIELDS:
            del meta[name]
            yield f"{path}.{name}"
        elif meta[name] is None or meta[name] in ("", {}, []):
            # An ObjectMeta leaves empty fields out when it is written.
            del meta[name]
        elif name in ("labels", "annotations") and type(meta[name]) is dict:
            meta[name] = {key: "" if item is None else item for key, item in meta[name].items()}
        elif name == "finalizers" and type(meta[name]) is list:
            meta[name] = ["" if item is None else item for item in meta[name]]
        elif name in _NESTED_META_FIELDS and type(meta[name]) is list:
            yield from _meta_items(meta[name], f"{path}.{name}", _NESTED_META_FIELDS[name])


def _meta_items(items: list[Any], path: str, known: frozenset[str]) -> Iterator[str]:
    for index, item in enumerate(items):
        if type(item) is not dict:
            continue
        for name in [name for name, value in item.items() if name not in known or value is None]:
            del item[name]
            if name not in known:
                yield f"{path}[{index}].{name}"
