"""Defaults of a schema, and the nulls that stand in for them.

Runs after pruning. A null where null is not allowed counts as absent: it is dropped, and replaced
by the default if there is one. Defaults are filled in from the outside to the inside, so that a
default may itself be completed.
"""

from __future__ import annotations

from typing import Any

from nodemanager.api.json_values import copy_of
from nodemanager.api.structural import Structural


def apply_defaults(value: Any, node: Structural | None) -> None:
    """Drop nulls that are not allowed and fill in defaults, in place."""
    if node is None:
        return
    if type(value) is dict:
        _complete(value, node)
        for name, item in value.items():
            if type(item) is dict or type(item) is list:
                apply_defaults(item, node.properties.get(name, node.additional))
    elif type(value) is list:
        _complete_items(value, node.items)


def _complete(value: dict[str, Any], node: Structural) -> None:
    for name in [name for name, item in value.items() if item is None]:
        known = node.properties.get(name, node.additional)
        if known is None or known.nullable:
            continue
        if known.default is None:
            del value[name]
        else:
            value[name] = copy_of(known.default)
    for name, default in node.defaulted:
        if name not in value:
            value[name] = copy_of(default)


def _complete_items(value: list[Any], node: Structural | None) -> None:
    if node is None:
        return
    for index, item in enumerate(value):
        if item is None and not node.nullable and node.default is not None:
            value[index] = copy_of(node.default)
        apply_defaults(value[index], node)
