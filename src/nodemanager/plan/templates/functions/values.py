"""Conversions between the values of a template, as gomplate does them."""

from __future__ import annotations

import re
from typing import Any

from nodemanager.plan.templates.budget import AbsentEntry
from nodemanager.plan.templates.errors import FunctionError

_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|[1-9][0-9_]*|0)\Z")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\Z")
_KINDS = ((bool, "bool"), (int, "int"), (float, "float64"), (str, "string"), (dict, "map"), (list, "slice"))


def kind(value: Any) -> str:
    """Return what Go calls the type of a value."""
    if isinstance(value, bytes):
        return "slice"
    if isinstance(value, AbsentEntry):
        return "invalid"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "invalid")


def text(value: Any) -> str:
    """Return a value as text: what Go prints, and `nil` for nothing, as gomplate has it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return as_text(value)
    return printed(value)


def printed(*values: Any) -> str:
    """Return what Go's `print` makes of values."""
    from gotpl.runtime.gofmt import sprintf

    return sprintf(" ".join(["%v"] * len(values)), *values)


def raw(value: Any) -> bytes:
    """Return the bytes of a value."""
    return value if isinstance(value, bytes) else as_bytes(text(value))


def as_text(data: bytes) -> str:
    """Return bytes as the text that stands for them: what is no UTF-8 in them is written as it was."""
    return data.decode(errors="surrogateescape")


def as_bytes(written: str) -> bytes:
    """Return the bytes that a text stands for."""
    return written.encode(errors="surrogateescape")


def integer(value: Any, what: str = "the argument") -> int:
    """Return a value as a whole number, from text in any of Go's notations."""
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, float):
        return _truncated(value, what)
    if not isinstance(value, str):
        raise FunctionError(f"{what} must be a number, not {kind(value)}")
    digits = value.replace(",", "")
    if len(digits) > 64:
        raise FunctionError(f"{what} is not a number")
    if _INTEGER.match(digits):
        return _parsed_integer(digits)
    if _FLOAT.match(digits):
        return _truncated(float(digits), what)
    raise FunctionError(f"{what} is not a number")


def _truncated(value: float, what: str) -> int:
    if value != value or abs(value) >= 2**63:
        raise FunctionError(f"{what} is no whole number of 64 bits")
    return int(value)


def _parsed_integer(digits: str) -> int:
    sign = -1 if digits.startswith("-") else 1
    bare = digits.lstrip("+-").replace("_", "")
    if len(bare) > 1 and bare[0] == "0" and bare[1] in "01234567":
        return sign * int(bare, 8)
    return sign * int(bare, 0)


def number(value: Any, what: str = "the argument") -> float:
    """Return a value as a number that may have a fraction."""
    if isinstance(value, float):
        return value
    if isinstance(value, str) and len(value) <= 64 and _FLOAT.match(value.replace(",", "")):
        digits = value.replace(",", "")
        return float(_parsed_integer(digits)) if _INTEGER.match(digits) else float(digits)
    return float(integer(value, what))


def is_float(value: Any) -> bool:
    """Tell whether gomplate would calculate with fractions."""
    if isinstance(value, str):
        digits = value.replace(",", "")
        return not _INTEGER.match(digits) and bool(_FLOAT.match(digits))
    return isinstance(value, float)


def boolean(value: Any) -> bool:
    """Return whether a value says yes: true, 1, "1", "t", "true" and "yes" do."""
    if isinstance(value, str):
        if value.lower() in ("1", "t", "true", "yes"):
            return True
        try:
            return number(value) == 1
        except FunctionError:
            return False
    return isinstance(value, (bool, int, float)) and value == 1


def items(value: Any, what: str = "the argument") -> list[Any]:
    """Return a list, or refuse what is none."""
    if not isinstance(value, list):
        raise FunctionError(f"{what} must be a list, not {kind(value)}")
    return value


def entries(value: Any, what: str = "the argument") -> dict[str, Any]:
    """Return a map, or refuse what is none."""
    if not isinstance(value, dict):
        raise FunctionError(f"{what} must be a map, not {kind(value)}")
    return value
