"""Resources inside resources: each must say what it is, and have metadata of the right shape.

A wrong shape is found when the request is decoded, and answered with 400; a wrong content is found
by validation, and answered with 422.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nodemanager.kube import object_names
from nodemanager.kube.errors import Cause
from nodemanager.kube.go import text as gotext
from nodemanager.kube.schemas.faults import invalid, required
from nodemanager.kube.schemas.structural import Structural

_LABEL = re.compile(object_names.LABEL_1035)
_MAX_LABEL = 63
_META_TYPES = {
    **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "resourceVersion"), "string"),
    "uid": "types.UID",
    **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), "int64"),
    **dict.fromkeys(("labels", "annotations"), "map[string]string"),
    "finalizers": "[]string",
}
_GO_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, ""),
    "types.UID": (str, ""),
    "int64": (int, ""),
    "map[string]string": (dict, "string"),
    "[]string": (list, "string"),
}


def embedded_malformed(value: Any, node: Structural) -> list[Cause]:
    """Return which embedded resources cannot be decoded; to be asked before pruning.

    Kubernetes stops at the first that it meets, in no particular order.
    """
    return list(_malformed(value, node, ""))


def _malformed(value: Any, node: Structural | None, path: str) -> Iterator[Cause]:
    if node is None or not node.embeds:
        return
    if type(value) is dict:
        prefix = f"{path}." if path else ""
        if node.embedded:
            yield from _shape_faults(value, node, prefix)
        for name, item in value.items():
            if name in node.properties:
                yield from _malformed(item, node.properties[name], prefix + name)
            else:
                yield from _malformed(item, node.additional, f"{path}[{name}]")
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _malformed(item, node.items, f"{path}[{index}]")


def _shape_faults(value: dict[str, Any], node: Structural, prefix: str) -> Iterator[Cause]:
    for name in ("apiVersion", "kind"):
        dropped = value.get(name) is None and name in node.properties
        if name in value and not isinstance(value[name], str) and not dropped:
            yield invalid(prefix + name, value[name], "must be a string")
    if why := metadata_fault(value.get("metadata")):
        yield invalid(f"{prefix}metadata", value["metadata"], why)


def metadata_fault(meta: Any) -> str:
    """Return why an ObjectMeta cannot be decoded, in the words of Go's decoder, or nothing."""
    if meta is None:
        return ""
    if not isinstance(meta, dict):
        return f"json: cannot unmarshal {_json_kind(meta)} into Go value of type v1.ObjectMeta"
    for name, go_type in _META_TYPES.items():
        wrong = _mismatch(meta.get(name), go_type)
        if wrong:
            what, into = wrong
            return f"json: cannot unmarshal {what} into Go struct field ObjectMeta.{name} of type {into}"
    return ""


def _mismatch(value: Any, go_type: str) -> tuple[str, str] | None:
    """Return what was found and what Go wanted instead, if they differ."""
    if value is None:
        return None
    outer, expected = _GO_TYPES[go_type]
    if go_type == "int64" and isinstance(value, int | float) and not isinstance(value, bool):
        whole = int(value) == value and gotext.is_integer(int(value))
        return None if whole else (f"number {gotext.json_number(value)}", go_type)
    if isinstance(value, bool) or not isinstance(value, outer):
        return _json_kind(value), go_type
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in below:
        if wrong := _mismatch(item, expected):
            return wrong
    return None


def _json_kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
    return "array" if isinstance(value, list) else "object"


def embedded_faults(value: Any, node: Structural, at: str = "") -> list[Cause]:
    """Return what is wrong with the type of every resource that is embedded in a value."""
    return list(_faults(value, node, at))


def _faults(value: Any, node: Structural | None, path: str) -> Iterator[Cause]:
    if node is None or not node.embeds:
        return
    if type(value) is dict:
        prefix = f"{path}." if path else ""
        if node.embedded:
            yield from _type_faults(value, prefix)
        for name, item in value.items():
            if name in node.properties:
                yield from _faults(item, node.properties[name], prefix + name)
            elif node.additional is not None:
                yield from _faults(item, node.additional, f"{path}[{name}]")
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _faults(item, node.items, f"{path}[{index}]")


def _type_faults(value: dict[str, Any], prefix: str) -> Iterator[Cause]:
    for name in ("apiVersion", "kind"):
        field, text = prefix + name, value.get(name)
        if name not in value:
            yield required(field)
        elif not isinstance(text, str):
            yield invalid(field, text, "must be a string")
        elif not text:
            yield invalid(field, text, "must not be empty")
        elif detail := (_version_fault(text) if name == "apiVersion" else _kind_fault(text)):
            yield invalid(field, text, detail)


def _version_fault(version: str) -> str:
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def _kind_fault(kind: str) -> str:
    faults = []
    if len(kind) > _MAX_LABEL:
        faults.append(f"must be no more than {_MAX_LABEL} bytes")
    if not _LABEL.fullmatch(kind.lower()):
        faults.append(object_names.LABEL_1035_WORDS)
    return "may have mixed case, but should otherwise match: " + ",".join(faults) if faults else ""
