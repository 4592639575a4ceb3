"""What a plain YAML word means to kubectl.

PyYAML follows YAML 1.1 to the letter; kubectl converts to JSON by rules of its own: `y` is
true, `1e3` is 1000, `1:30` and `2020-01-01` are text, `1.0` is 1. The same file must mean the
same to both.
"""

from __future__ import annotations

import math
import re

Scalar = None | bool | int | float | str

_BOOLS = {
    word: value
    for value, words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")))
    for each in words
    for word in (each, each.capitalize(), each.upper())
}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_PREFIXED = re.compile(r"[-+]?0([xX][0-9a-fA-F]+|[bB][01]+|[oO][0-7]+)")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_INT64 = range(-(2**63), 2**63)
_UINT64_END = 2**64
_LONGEST_INTEGER = 20


def plain(text: str) -> Scalar:
    """Return what an unquoted, untagged word stands for; raise ValueError if JSON has no such value."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _NOT_JSON.fullmatch(text):
        raise ValueError(f"{text} cannot be written in JSON: quote it if it is text")
    if text[0] in "+-.0123456789":
        return _number(text)
    return text


def is_text(text: str) -> bool:
    """Tell whether a text stays what it is when it is written without quotes."""
    try:
        return isinstance(plain(text), str)
    except ValueError:
        return False


def _number(text: str) -> int | float | str:
    digits = text.replace("_", "")
    if _PREFIXED.fullmatch(digits):
        return _integer(int(digits, 0), text)
    if _OCTAL.fullmatch(digits):
        return _integer(int(digits, 8), text)
    if _DECIMAL.fullmatch(digits) and len(digits) <= _LONGEST_INTEGER:
        return _integer(int(digits), float(digits))
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        return text if math.isinf(value) else from_float(value)
    return text


def _integer(value: int, too_large: float | str) -> int | float | str:
    if value in _INT64:
        return value
    return float(value) if 0 <= value < _UINT64_END else too_large


def from_float(value: float) -> int | float:
    """Return a number as it comes out of JSON: whole ones are integers."""
    return int(value) if value.is_integer() and int(value) in _INT64 else value
