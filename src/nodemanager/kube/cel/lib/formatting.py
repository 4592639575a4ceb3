"""`format` of the strings extension: "%d of %s".format([1, "x"])."""

from __future__ import annotations

import json
import math
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from nodemanager.kube.cel import times
from nodemanager.kube.cel.conversions import format_double
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import TypeValue, keys_of, kind_of, type_of

LIBRARY = Library()
MAX_PRECISION = 1000
_CLAUSE = re.compile(r"%(?:%|(?:\.(?P<precision>[0-9]+))?(?P<verb>.?))", re.DOTALL)
_WIDE = Context(prec=MAX_PRECISION + 400)
_RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}


@LIBRARY.add("format", "string.(list<dyn>) -> string")
def _format(text: str, args: list[Any]) -> str:
    left = list(reversed(args))

    def one(found: re.Match[str]) -> str:
        if found.group() == "%%":
            return "%"
        if not left:
            raise CelError(f"index {len(args)} out of range")
        precision = int(found["precision"]) if found["precision"] else None
        if precision is not None and precision > MAX_PRECISION:
            raise CelError(f"cannot format: a precision above {MAX_PRECISION} is not served")
        return _clause(found["verb"], left.pop(), precision)

    return _CLAUSE.sub(one, text)


_TAKES = {
    "d": ("decimal clause can only be used on integers", {"int", "uint", "double"}),
    "f": ("fixed-point clause can only be used on doubles", {"double", "string"}),
    "e": ("scientific clause can only be used on doubles", {"double", "string"}),
    "b": ("only integers and bools can be formatted as binary", {"int", "uint", "bool"}),
    "o": ("octal clause can only be used on integers", {"int", "uint"}),
    "x": (
        "only integers, byte buffers, and strings can be formatted as hex",
        {"int", "uint", "string", "bytes"},
    ),
}


def check_literal(text: str, kinds: list[str]) -> str:
    """Return what is wrong with a format whose arguments have these types, or nothing."""
    left = list(reversed(kinds))
    for found in _CLAUSE.finditer(text):
        verb = found["verb"]
        if found.group() == "%%":
            continue
        if not left:
            return f"index {len(kinds)} out of range"
        kind = left.pop()
        if verb != "s" and verb.lower() not in _TAKES:
            return f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
        if verb != "s" and kind != "dyn" and kind not in _TAKES[verb.lower()][1]:
            return f"error during formatting: {_TAKES[verb.lower()][0]}, was given {kind}"
    return ""


def _clause(verb: str, value: Any, precision: int | None) -> str:
    kind = kind_of(value)
    match verb:
        case "s":
            return _string(value)
        case "d" if kind in ("int", "uint"):
            return str(int(value))
        case "f" if kind == "double":
            return _fixed(value, 6 if precision is None else precision)
        case "e" if kind == "double":
            return _scientific(value)
        case "b" if kind in ("int", "uint", "bool"):
            return f"{int(value):b}"
        case "o" if kind in ("int", "uint"):
            return f"{int(value):o}"
        case "x" | "X" if kind in ("int", "uint", "string", "bytes"):
            return _hexadecimal(value, upper=verb == "X")
    if verb == "d" and kind == "double" and not math.isfinite(value):
        return _special(value)
    if verb not in ("d", "f", "e", "b", "o", "x", "X"):
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    raise CelError(f"error during formatting: {_TAKES[verb.lower()][0]}, was given {type_of(value).name}")


def _special(value: float) -> str:
    return _NAMES.get(value, "NaN")


def _fixed(value: float, precision: int) -> str:
    if not math.isfinite(value):
        return _special(value)
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-precision), ROUND_HALF_EVEN, _WIDE)
    return f"{rounded:,f}"


def _scientific(value: float) -> str:
    if not math.isfinite(value):
        return _special(value)
    mantissa, _, exponent = f"{value:.6e}".partition("e")  # cel-go takes the precision for a width
    # Powers of ten look the way they do in the locale library of cel-go.
    return f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_RAISED)}"


def _hexadecimal(value: Any, *, upper: bool) -> str:
    if isinstance(value, str):
        text = value.encode().hex()
    else:
        text = value.hex() if isinstance(value, bytes) else f"{int(value):x}"
    return text.upper() if upper else text


def _string(value: Any) -> str:
    kind = kind_of(value)
    match kind:
        case "string":
            return str(value)
        case "bool" | "null" | "int" | "uint":
            return json.dumps(value)
        case "double":
            return format_double(value) if math.isfinite(value) else _special(value)
        case "bytes":
            return str(value.decode("utf-8", "replace"))
        case "timestamp" | "duration":
            return times.format_timestamp(value) if kind == "timestamp" else times.format_duration(value)
        case "list":
            return "[" + ", ".join(map(_member, value)) + "]"
        case "map":
            pairs = zip(map(_member, keys_of(value)), map(_member, value.values()), strict=True)
            return "{" + ", ".join(f"{key}:{item}" for key, item in sorted(pairs)) + "}"
        case "type" if isinstance(value, TypeValue):
            return value.name
    raise CelError(f"error during formatting: string clause can only be used on strings, not {kind}")


def _member(value: Any) -> str:
    """Return a value inside a list or map, where texts are quoted and times named."""
    kind = kind_of(value)
    match kind:
        case "string":
            return json.dumps(value, ensure_ascii=False)
        case "bytes":
            return "b" + json.dumps(_string(value), ensure_ascii=False)
        case "double":
            return f"{value:.6f}" if math.isfinite(value) else f'"{_special(value)}"'
        case "timestamp" | "duration":
            return f'{kind}("{_string(value)}")'
    return _string(value)
