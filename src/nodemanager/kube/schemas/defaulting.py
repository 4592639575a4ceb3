"""Defaults of a schema, and the nulls that stand in for them.

Runs after pruning. A null where null is not allowed counts as absent: it is dropped, and replaced
by the default if there is one. Defaults are filled in from the outside to the inside, so that a
default may itself be completed; what is null in one stays, and is refused where null is not allowed.
"""

from __future__ import annotations

from typing import Any

from nodemanager.kube.json_values import copy_of
from nodemanager.kube.schemas.structural import Structural


def apply_defaults(value: Any, node: Structural | None, *, keep_nulls: bool = False) -> None:
    """Drop nulls that are not allowed and fill in defaults, in place.

    `keep_nulls` is for what was applied: Kubernetes leaves nulls without a default there, and refuses them.
    """
    if node is None:
        return
    if type(value) is dict:
        filled = _complete(value, node, keep_nulls)
        for name, item in value.items():
            if type(item) is dict or type(item) is list:
                keep = keep_nulls or name in filled
                apply_defaults(item, node.properties.get(name, node.additional), keep_nulls=keep)
    elif type(value) is list:
        _complete_items(value, node.items, keep_nulls)


def _complete(value: dict[str, Any], node: Structural, keep_nulls: bool) -> list[str]:
    """Return the names of the fields that were filled in."""
    filled = []
    for name in [name for name, item in value.items() if item is None]:
        known = node.properties.get(name, node.additional)
        if known is None or known.nullable:
            continue
        if known.default is not None:
            value[name] = copy_of(known.default)
            filled.append(name)
        elif not keep_nulls:
            del value[name]
    for name, default in node.defaulted:
        if name not in value:
            value[name] = copy_of(default)
            filled.append(name)
    return filled


def _complete_items(value: list[Any], node: Structural | None, keep_nulls: bool) -> None:
    if node is None:
        return
    for index, item in enumerate(value):
        keep = keep_nulls
        if item is None and not node.nullable and node.default is not None:
            value[index], keep = copy_of(node.default), True
        apply_defaults(value[index], node, keep_nulls=keep)
