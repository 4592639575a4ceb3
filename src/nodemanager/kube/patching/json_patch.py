"""RFC 6902, with the limits and the leniencies of kube-apiserver.

Negative indices count from the end, `replace` of a missing key adds it, `copy` of a missing key gives
null, and `test` takes a missing key for null. Whatever fails, nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nodemanager.kube import errors, json_values
from nodemanager.kube.json_values import ABSENT, copy_of

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024
"""How many bytes of JSON all `copy` operations of a patch may add."""
REJECTED = "the server rejected our request due to an error in our request"

_INDEX = re.compile(r"[+-]?[0-9]{1,9}")
_TEXTS = ("op", "path", "from")


class _Failed(Exception):
    """An operation does not apply; the server says only that one of them did not."""


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Return the document with all operations applied, one after the other."""
    _check(operations)
    patch = _Patch(copy_of(document))
    try:
        for operation in operations or []:
            patch.apply(operation)
    except _Failed as error:
        raise errors.Invalid(REJECTED) from error
    return patch.document


def _check(operations: Any) -> None:
    if operations is None:
        return
    if not isinstance(operations, list):
        raise _malformed(operations, "value of type []handlers.jsonPatchOp")
    for operation in operations:
        if operation is not None and not isinstance(operation, Mapping):
            raise _malformed(operation, "value of type handlers.jsonPatchOp")
        for name in _TEXTS:
            value = (operation or {}).get(name)
            if value is not None and not isinstance(value, str):
                raise _malformed(value, f"struct field jsonPatchOp.{name} of type string")
    if len(operations) > MAX_OPERATIONS:
        raise errors.TooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}"
        )


def _malformed(value: Any, wanted: str) -> errors.BadRequest:
    return errors.BadRequest(
        f"error decoding patch: json: cannot unmarshal {json_values.json_type(value)} into Go {wanted}"
    )


class _Patch:
    """A document while it is being changed; no other code uses it."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied = 0

    def apply(self, operation: Mapping[str, Any] | None) -> None:
        """Do one operation, or raise `_Failed`."""
        found = operation or {}
        path, start, value = found.get("path"), found.get("from"), found.get("value")
        if path is None:
            raise _Failed("no path")
        match found.get("op"):
            case "add":
                _add(*self._find(path), copy_of(value))
            case "remove":
                _remove(*self._find(path))
            case "replace":
                self._replace(path, copy_of(value))
            case "test":
                self._test(path, value)
            case "move":
                self._move(start, path)
            case "copy":
                self._copy(start, path)
            case _:
                raise _Failed("no such operation")

    def _find(self, path: str | None) -> tuple[Any, str]:
        """Return the map or list that a path leads into, and the key in it."""
        # What stands in front of the first slash is not looked at.
        parts = [part.replace("~1", "/").replace("~0", "~") for part in (path or "").split("/")[1:]]
        if not parts:
            raise _Failed("not inside the document")
        place = self.document
        for part in parts[:-1]:
            place = _get(place, part)
        if not isinstance(place, dict | list):
            raise _Failed("the path does not exist")
        return place, parts[-1]

    def _replace(self, path: str, value: Any) -> None:
        if path == "":
            if not isinstance(value, dict | list):
                raise _Failed("a document is a map or a list")
            self.document = value
            return
        place, key = self._find(path)
        _get(place, key)
        if isinstance(place, list):
            place[_index(key)] = value
        else:
            place[key] = value

    def _test(self, path: str, value: Any) -> None:
        found = self.document if path == "" else _get(*self._find(path))
        if not _identical(None if found is ABSENT else found, value):
            raise _Failed("the test failed")

    def _move(self, start: str | None, path: str) -> None:
        place, key = self._find(start)
        value = _get(place, key)
        _remove(place, key)
        _add(*self._find(path), value)

    def _copy(self, start: str | None, path: str) -> None:
        found = _get(*self._find(start))
        value = None if found is ABSENT else copy_of(found)
        self._copied += len(json_values.compact(value).encode()) if value is not None else 0
        if self._copied > MAX_COPIED:
            raise _Failed("too much is copied")
        _add(*self._find(path), value)


def _index(key: str) -> int:
    if not _INDEX.fullmatch(key):
        raise _Failed("not an index")
    return int(key)


def _get(place: Any, key: str) -> Any:
    """Return what is at a key: absent in a map, but an error outside of a list."""
    if isinstance(place, dict):
        return place.get(key, ABSENT)
    if not isinstance(place, list):
        raise _Failed("the path does not exist")
    index = _index(key)
    if not -len(place) <= index < len(place):
        raise _Failed("outside of the list")
    return place[index]


def _add(place: Any, key: str, value: Any) -> None:
    if isinstance(place, dict):
        place[key] = value
        return
    if key == "-":
        place.append(value)
        return
    index, places = _index(key), len(place) + 1
    if not -places <= index < places:
        raise _Failed("outside of the list")
    place.insert(index if index >= 0 else index + places, value)


def _remove(place: Any, key: str) -> None:
    if _get(place, key) is ABSENT:
        raise _Failed("nothing to remove")
    del place[key if isinstance(place, dict) else _index(key)]


def _identical(one: Any, other: Any) -> bool:
    """Compare as JSON text would: 1 is not 1.0, and the order of keys does not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_identical(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_identical, one, other))
    return type(one) is type(other) and bool(one == other)
