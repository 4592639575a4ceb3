"""Conversions between types: int("1"), string(2.5), timestamp("...") and the like."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

from nodemanager.kube.cel import times
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import INT_MAX, INT_MIN, UINT_MAX, CelDuration, Timestamp, UInt

LIBRARY = Library()
_add = LIBRARY.add
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_MAX_DIGITS = 400
MAX_PLAIN = 6
"""From which power of ten on a double is written with an exponent."""


@_add("int", "(int) -> int")
@_add("uint", "(uint) -> uint")
@_add("double", "(double) -> double")
@_add("string", "(string) -> string")
@_add("bytes", "(bytes) -> bytes")
@_add("bool", "(bool) -> bool")
@_add("timestamp", "(timestamp) -> timestamp")
@_add("duration", "(duration) -> duration")
def _same(value: Any) -> Any:
    return value


@_add("int", "(uint) -> int")
def _int_of_uint(value: int) -> int:
    if value > INT_MAX:
        raise CelError("integer overflow")
    return int(value)


@_add("int", "(double) -> int")
def _int_of_double(value: float) -> int:
    # The bounds are excluded, as in cel-go: the double 2**63 has no integer, and -2**63 is left out too.
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


@_add("int", "(string) -> int")
def _int_of_string(text: str) -> int:
    value = int(text) if _INTEGER.fullmatch(text) and len(text) < _MAX_DIGITS else INT_MAX + 1
    if not INT_MIN <= value <= INT_MAX:
        raise _not_a("int")
    return value


def _not_a(kind: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{kind}'")


_add("int", "(timestamp) -> int")(lambda value: value.nanos // times.SECOND)
_add("int", "(duration) -> int")(lambda value: value.nanos)


@_add("uint", "(int) -> uint")
def _uint_of_int(value: int) -> UInt:
    if value < 0:
        raise CelError("unsigned integer overflow")
    return UInt(value)


@_add("uint", "(double) -> uint")
def _uint_of_double(value: float) -> UInt:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise CelError("unsigned integer overflow")
    return UInt(int(value))


@_add("uint", "(string) -> uint")
def _uint_of_string(text: str) -> UInt:
    in_form = text.isascii() and text.isdecimal()
    if not in_form or len(text) > _MAX_DIGITS or int(text) > UINT_MAX:
        raise _not_a("uint")
    return UInt(int(text))


_add("double", "(int) -> double", "(uint) -> double")(float)


@_add("double", "(string) -> double")
def _double_of_string(text: str) -> float:
    if not _FLOAT.fullmatch(text) or len(text) > _MAX_DIGITS:
        raise _not_a("double")
    value = float(text)
    if math.isinf(value) and text.lower().lstrip("+-")[:1] != "i":
        raise _not_a("double")
    return value


_add("string", "(int) -> string", "(uint) -> string")(lambda value: str(int(value)))


@_add("string", "(double) -> string")
def format_double(value: float) -> str:
    """Return the shortest text of a double, as Go's %g writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent) if value else 1  # where the decimal point is, counted in digits
    mark = "-" if sign else ""
    if value and not -4 <= point - 1 < MAX_PLAIN:
        rest = f".{text[1:]}" if len(text) > 1 else ""
        return f"{mark}{text[0]}{rest}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    if point <= 0:
        return f"{mark}0.{'0' * -point}{text}"
    whole, fraction = text[:point].ljust(point, "0"), text[point:]
    return f"{mark}{whole}.{fraction}" if fraction else f"{mark}{whole}"


_add("string", "(bool) -> string")(lambda value: "true" if value else "false")


@_add("string", "(bytes) -> string")
def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


_add("string", "(timestamp) -> string")(times.format_timestamp)
_add("string", "(duration) -> string")(times.format_duration)


@_add("timestamp", "(string) -> timestamp")
def _timestamp_of_string(text: str) -> Timestamp:
    try:
        return times.parse_timestamp(text)
    except CelError:
        raise _not_a("google.protobuf.Timestamp") from None


@_add("duration", "(string) -> duration")
def _duration_of_string(text: str) -> CelDuration:
    try:
        return times.parse_duration(text)
    except CelError:
        raise _not_a("google.protobuf.Duration") from None


_add("timestamp", "(int) -> timestamp")(lambda value: times.timestamp(value * times.SECOND))
_add("duration", "(int) -> duration")(CelDuration)


_add("bytes", "(string) -> bytes")(lambda value: value.encode("utf-8", "surrogatepass"))


@_add("bool", "(string) -> bool")
def _bool_of_string(text: str) -> bool:
    if text not in _TRUE and text not in _FALSE:
        raise _not_a("bool")
    return text in _TRUE
