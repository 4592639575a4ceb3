"""The operators and functions of the CEL language itself."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from nodemanager.kube.cel import regexes, times
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import (
    NONE,
    CelDuration,
    Optional,
    Timestamp,
    UInt,
    checked_int,
    checked_uint,
    concatenate,
    type_of,
)  # fmt: skip

LIBRARY = Library()
_add = LIBRARY.add


def _arithmetic(name: str, operate: Callable[[Any, Any], Any]) -> None:
    """Offer an operator on numbers of one type, within the bounds of that type."""
    _add(name, "(int, int) -> int")(lambda left, right: checked_int(operate(left, right)))
    _add(name, "(uint, uint) -> uint")(lambda left, right: checked_uint(operate(left, right)))
    _add(name, "(double, double) -> double")(operate)


for _symbol, _operator in (("_+_", operator.add), ("_-_", operator.sub), ("_*_", operator.mul)):
    _arithmetic(_symbol, _operator)


@_add("_/_", "(int, int) -> int")
def _div_int(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


@_add("_%_", "(int, int) -> int")
def _mod_int(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    if right == -1 and left == -(1 << 63):
        raise CelError("integer overflow")
    return left - right * int(_div_int(left, right))


@_add("_/_", "(uint, uint) -> uint")
def _div_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise CelError("division by zero")
    return UInt(int(left) // int(right))


@_add("_%_", "(uint, uint) -> uint")
def _mod_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise CelError("modulus by zero")
    return UInt(int(left) % int(right))


@_add("_/_", "(double, double) -> double")
def _div_double(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


_add("_+_", "(string, string) -> string", "(bytes, bytes) -> bytes")(operator.add)
_add("_+_", "(list<A>, list<A>) -> list<A>")(concatenate)


@_add("_+_", "(timestamp, duration) -> timestamp", "(duration, timestamp) -> timestamp")
def _add_time(left: Timestamp | CelDuration, right: Timestamp | CelDuration) -> Timestamp:
    offset = left.offset if isinstance(left, Timestamp) else getattr(right, "offset", 0)
    return times.timestamp(left.nanos + right.nanos, offset)


@_add("_+_", "(duration, duration) -> duration")
def _add_duration(left: CelDuration, right: CelDuration) -> CelDuration:
    return times.duration(left.nanos + right.nanos)


@_add("_-_", "(timestamp, timestamp) -> duration", "(duration, duration) -> duration")
def _sub_time(left: Timestamp | CelDuration, right: Timestamp | CelDuration) -> CelDuration:
    return times.duration(left.nanos - right.nanos)


@_add("_-_", "(timestamp, duration) -> timestamp")
def _sub_from_time(left: Timestamp, right: CelDuration) -> Timestamp:
    return times.timestamp(left.nanos - right.nanos, left.offset)


_add("-_", "(int) -> int")(lambda value: checked_int(-value))
_add("-_", "(double) -> double")(operator.neg)
_add("!_", "(bool) -> bool")(operator.not_)

_SIZED = ("string", "bytes", "list<A>", "map<A, B>")
_add("size", *(f"({each}) -> int" for each in _SIZED), *(f"{each}.() -> int" for each in _SIZED))(len)
_add("contains", "string.(string) -> bool")(operator.contains)
_add("startsWith", "string.(string) -> bool")(str.startswith)
_add("endsWith", "string.(string) -> bool")(str.endswith)


@_add("matches", "string.(string) -> bool", "(string, string) -> bool")
def _matches(text: str, pattern: str) -> bool:
    return regexes.use(pattern, lambda compiled: compiled.search(text))


_add("type", "(A) -> type<A>")(type_of)
_add("dyn", "(A) -> dyn")(lambda value: value)


def _date_part(name: str) -> None:
    def with_zone(value: Timestamp, zone: str = "UTC") -> int:
        return times.date_part(name, value, zone)

    _add(name, "timestamp.() -> int", "timestamp.(string) -> int")(with_zone)


def _duration_part(name: str, size: int) -> None:
    def part(value: CelDuration) -> int:
        count = abs(value.nanos) // size
        return count if value.nanos >= 0 else -count

    _add(name, "duration.() -> int")(part)


for _name in times.DATE_PARTS:
    _date_part(_name)
for _name, _unit in (("getHours", 3600), ("getMinutes", 60), ("getSeconds", 1)):
    _duration_part(_name, _unit * times.SECOND)
_duration_part("getMilliseconds", 10**6)


@_add("getMilliseconds", "timestamp.() -> int", "timestamp.(string) -> int")
def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    times.zone(zone)
    return value.nanos % times.SECOND // 10**6


_add("optional.of", "(A) -> optional_type<A>")(lambda value: Optional(True, value))


@_add("optional.ofNonZeroValue", "(A) -> optional_type<A>")
def _optional_of_non_zero(value: Any) -> Optional:
    is_zero = value in (None, False, 0, "", b"") if not isinstance(value, list | dict) else not value
    if isinstance(value, CelDuration):
        is_zero = value.nanos == 0
    return NONE if is_zero else Optional(True, value)


_add("optional.none", "() -> optional_type<dyn>")(lambda: NONE)
_add("hasValue", "optional_type<A>.() -> bool")(lambda value: value.present)


@_add("value", "optional_type<A>.() -> A")
def _value(value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


@_add("optional.unwrap", "(list<optional_type<A>>) -> list<A>")
@_add("unwrapOpt", "list<optional_type<A>>.() -> list<A>")
def _unwrap(values: list[Any]) -> list[Any]:
    return [each.value for each in values if isinstance(each, Optional) and each.present]
