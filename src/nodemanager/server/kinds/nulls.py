"""Null in the built-in kinds: Kubernetes' own types read it as the value that is not there.

Clients in Go write null for every empty list and every time that is not set, so a server that refuses
null refuses what such a client has just read.
"""

from __future__ import annotations

from typing import Any

from nodemanager.kube.schemas.structural import Structural


def leave_out(value: Any, node: Structural) -> None:
    """Remove fields that are null in place; a null text in a map becomes the empty text."""
    if isinstance(value, dict):
        _leave_out_fields(value, node)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            leave_out(item, node.items)


def _leave_out_fields(value: dict[str, Any], node: Structural) -> None:
    for key in list(value):
        part = node.properties.get(key)
        if part is None and node.additional is not None:
            if value[key] is None and node.additional.type == "string":
                value[key] = ""
            part = node.additional
        elif part is not None and value[key] is None:
            del value[key]
            continue
        if part is not None:
            leave_out(value[key], part)
