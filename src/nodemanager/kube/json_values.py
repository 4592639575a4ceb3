"""Plain JSON values the way Kubernetes compares, orders and prints them."""

from __future__ import annotations

import json
import re
from typing import Any, Final


class Absent:
    """The type of `ABSENT`: no value at all, which is not the same as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_EXPONENT = 1e21
"""From here on, Go writes numbers with an exponent."""
_ESCAPED = re.compile("[<>&\u2028\u2029]")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON: 1 is 1.0, but true is not 1 although Python says so."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def identical(one: Any, other: Any) -> bool:
    """Whether two values are equal as Go's decoder reads them: 1 is neither 1.0 nor true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            identical(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(identical, one, other))
    return bool(one == other)


def copy_of(value: Any) -> Any:
    """Return a copy that shares no list and no map with the original."""
    if isinstance(value, dict):
        return {name: copy_of(item) for name, item in value.items()}
    return [copy_of(item) for item in value] if isinstance(value, list) else value


def without_nulls(value: Any) -> Any:
    """Return a copy in which no map has a null; in lists they stay."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def compact(value: Any) -> str:
    """Return the JSON text that Go's encoder would write."""
    text = _ENCODER.encode(_whole(value))
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if _ESCAPED.search(text) else text


def whole_numbers(value: Any) -> Any:
    """Return a value as it comes back from Go's JSON: 1.0 as 1."""
    if isinstance(value, dict):
        return {name: whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    return _whole(value)


def _whole(value: Any) -> Any:
    """Go writes 1.0 as 1, so that equal numbers have equal texts."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXPONENT:
        return int(value)
    return value


def order(value: Any) -> tuple[Any, ...]:
    """Return a sort key: numbers, strings, booleans, lists, maps, null."""
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case list():
            return (3, [order(item) for item in value])
        case dict():
            return (4, [(name, order(item)) for name, item in sorted(value.items())])
    return (5,)


def go_text(value: Any) -> str:
    """Return a value as Go's `%v` prints it: messages of Kubernetes contain such texts."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case list():
            return "[" + " ".join(map(go_text, value)) + "]"
        case dict():
            return "map[" + " ".join(f"{name}:{go_text(value[name])}" for name in sorted(value)) + "]"
    return str(_whole(value))


def json_type(value: Any) -> str:
    """Return what Go's decoder calls a JSON value."""
    names = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")


def go_type(value: Any) -> str:
    """Return the name of the Go type that a decoded JSON value has."""
    names = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool"}
    names[type(None)] = "%!s(<nil>)"
    return names.get(type(value), "int64" if isinstance(value, int) else "float64")


def go_literal(value: Any) -> str:
    """Return a value as Go's `%#v` prints it."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[]interface {}{" + ", ".join(map(go_literal, value)) + "}"
        case dict():
            inner = ", ".join(f"{json.dumps(name)}:{go_literal(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
    return go_text(value)
