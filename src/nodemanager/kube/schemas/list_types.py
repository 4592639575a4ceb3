"""Lists that are sets or maps by their schema: no item and no key may occur twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nodemanager.kube.errors import Cause
from nodemanager.kube.schemas.faults import duplicate, invalid
from nodemanager.kube.schemas.ratcheting import repeated
from nodemanager.kube.schemas.structural import Structural


def duplicates(value: Any, node: Structural | None, path: str = "") -> Iterator[Cause]:
    """Yield a cause for every item that occurs twice where the schema says that it must not."""
    if node is None or not node.keyed:
        return
    if type(value) is dict:
        for name, item in value.items():
            if node.additional is not None:
                yield from duplicates(item, node.additional, f"{path}[{name}]")
            elif name in node.properties:
                yield from duplicates(item, node.properties[name], f"{path}.{name}" if path else name)
    elif type(value) is list:
        yield from _in_list(value, node, path)
        for index, item in enumerate(value):
            yield from duplicates(item, node.items, f"{path}[{index}]")


def _in_list(value: list[Any], node: Structural, path: str) -> Iterator[Cause]:
    if node.list_type == "set":
        for index in repeated(value):
            yield duplicate(f"{path}[{index}]", value[index])
    elif node.list_type == "map":
        for index, item in enumerate(value):
            if item is not None and type(item) is not dict:
                yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
                return
        keys = [_key(item, node.list_keys) for item in value]
        for index in repeated([_identity(key) for key in keys]):
            yield duplicate(f"{path}[{index}]", keys[index])


def _identity(key: dict[str, Any]) -> Any:
    """Return something cheaper to compare than a map, if all values are scalars."""
    if any(isinstance(value, dict | list) for value in key.values()):
        return key
    return tuple((name, type(value), value) for name, value in key.items())


def _key(item: dict[str, Any] | None, names: tuple[str, ...]) -> dict[str, Any]:
    return {} if item is None else {name: item[name] for name in names if name in item}
