"""Values of CEL: which Python object stands for which type, equality, order and conversion of keys.

    null None    bool bool    int int    uint UInt    double float    string str    bytes bytes
    list list    map dict     timestamp Timestamp     duration CelDuration    optional Optional
    type TypeValue            the types of Kubernetes (IP, URL, ...): their own classes

A map holds a bool key as a tuple of one, because to Python `True` and `1` are the same key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nodemanager.kube.cel.errors import CelError, no_such_overload

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
UINT_MAX = (1 << 64) - 1


class UInt(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class SchemaObject(dict[str, Any]):
    """An object with the fields of a schema, by their escaped names.

    `rest` has the fields that the schema does not name; expressions see them in comparisons only.
    """

    __slots__ = ("rest",)

    def __init__(self, rest: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.rest = rest or {}


class SetList(list[Any]):
    """A list of `x-kubernetes-list-type: set`: its order means nothing, `+` is the union."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of `x-kubernetes-list-type: map`: items are found by their keys, `+` merges."""

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[Any] = (), keys: tuple[str, ...] = ()) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[Any, ...]:
        """Return what tells an item from the others."""
        if not isinstance(item, dict):
            raise CelError("unexpected data format for element of array with x-kubernetes-list-type=map")
        found = tuple(item.get(key) for key in self.keys)
        if not all(isinstance(each, str | int | float | None) for each in found):
            raise CelError("unexpected key of an array with x-kubernetes-list-type=map: it is not a scalar")
        return found


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970, and the offset in seconds it was written with."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class CelDuration:
    """A span of time in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    present: bool
    value: Any = None


NONE = Optional(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What `type(x)` returns, and what names such as `int` stand for."""

    name: str


class CelExtension:
    """Base of the types that Kubernetes adds; `TYPE` is their name in CEL."""

    TYPE: ClassVar[str] = ""
    __slots__ = ()

    def field(self, name: str) -> Any:
        """Return a field; most of these types have functions only."""
        raise CelError(f"no such key: {name}")


_KINDS: dict[type, str] = {
    type(None): "null", bool: "bool", int: "int", UInt: "uint", float: "double", str: "string",
    bytes: "bytes", list: "list", SetList: "list", MapList: "list", dict: "map", SchemaObject: "map",
    Timestamp: "timestamp", CelDuration: "duration", Optional: "optional_type", TypeValue: "type",
}  # fmt: skip
_TYPE_NAMES = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}
_NUMBERS = frozenset({"int", "uint", "double"})


def kind_of(value: Any) -> str:
    """Return the name of the type of a value, as signatures write it."""
    found = _KINDS.get(type(value))
    if found is None:
        found = value.TYPE if isinstance(value, CelExtension) else "unknown"
    return found


def type_of(value: Any) -> TypeValue:
    """Return what `type(value)` is."""
    return named_type(kind_of(value))


def named_type(kind: str) -> TypeValue:
    """Return the value that the name of a type stands for."""
    return TypeValue(_TYPE_NAMES.get(kind, kind))


def checked_int(value: int) -> int:
    """Return an integer, or fail as 64 bits do."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def checked_uint(value: int) -> UInt:
    """Return an unsigned integer, or fail as 64 bits do."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise CelError("unsigned integer overflow")


def equal(left: Any, right: Any) -> bool:
    """Tell whether two values are equal; values of unlike types are not, numbers compare by value."""
    kind, other = kind_of(left), kind_of(right)
    if kind != other:
        return kind in _NUMBERS and other in _NUMBERS and bool(left == right)
    if kind == "list":
        return _equal_lists(left, right)
    if kind == "map":
        if isinstance(left, SchemaObject) and isinstance(right, SchemaObject) and left.rest != right.rest:
            return False
        return len(left) == len(right) and all(
            key in right and equal(value, right[key]) for key, value in left.items()
        )
    if kind == "optional_type":
        return left.present == right.present and equal(left.value, right.value)
    return bool(left == right)


def _equal_lists(left: list[Any], right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, SetList):
        return all(contains(right, item) for item in left)
    if isinstance(left, MapList):
        items = {left.key_of(item): item for item in left}
        return all((key := left.key_of(item)) in items and equal(items[key], item) for item in right)
    return all(equal(mine, theirs) for mine, theirs in zip(left, right, strict=True))


def contains(items: Iterable[Any], wanted: Any) -> bool:
    """Tell whether a list has an item equal to the one wanted."""
    return any(equal(item, wanted) for item in items)


def concatenate(left: list[Any], right: list[Any]) -> list[Any]:
    """Return the sum of two lists, which for sets and maps is their union."""
    if isinstance(left, SetList):
        return SetList([*left, *(item for item in right if not contains(left, item))])
    if not isinstance(left, MapList):
        return [*left, *right]
    merged = {left.key_of(item): item for item in left}
    merged.update({left.key_of(item): item for item in right})
    return MapList(merged.values(), left.keys)


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; fail for values that have no order."""
    kind, other = kind_of(left), kind_of(right)
    if kind != other and not (kind in _NUMBERS and other in _NUMBERS):
        raise no_such_overload()
    if kind not in _ORDERED:
        raise no_such_overload()
    if left == right:
        return 0
    if (isinstance(left, float) and math.isnan(left)) or (isinstance(right, float) and math.isnan(right)):
        raise CelError("NaN values cannot be ordered")
    return -1 if left < right else 1


_ORDERED = _NUMBERS | {"bool", "string", "bytes", "timestamp", "duration"}


def to_key(value: Any) -> Any:
    """Return a value as a Python key of a map; fail for what CEL does not take as a key."""
    kind = kind_of(value)
    if kind == "bool":
        return (value,)
    if kind == "double":
        return int(value) if value.is_integer() else value
    if kind in ("int", "uint", "string"):
        return value
    raise CelError(f"unsupported key type: {type_of(value).name}")


def keys_of(mapping: dict[Any, Any]) -> Iterator[Any]:
    """Return the keys of a map as values of CEL."""
    return (key[0] if type(key) is tuple else key for key in mapping)
