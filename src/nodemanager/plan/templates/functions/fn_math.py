"""math.*: whole numbers of 64 bits, or fractions as soon as one argument has one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nodemanager.plan.templates.errors import FunctionError
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import integer, is_float, number

_SIGN = 1 << 63


def _int64(value: int) -> int:
    """Return the number as Go keeps it: beyond 64 bits it wraps around."""
    return (value + _SIGN) % (1 << 64) - _SIGN


def _folded(values: tuple[Any, ...], start: int, step: Callable[[Any, Any], Any]) -> int | float:
    if any(map(is_float, values)):
        total = float(start)
        for each in values:
            total = step(total, number(each))
        return total
    whole = start
    for each in values:
        whole = _int64(step(whole, integer(each)))
    return whole


@add("math.Add", "add")
def _add(*values: Any) -> int | float:
    return _folded(values, 0, lambda left, right: left + right)


@add("math.Mul", "mul")
def _mul(*values: Any) -> int | float:
    return _folded(values, 1, lambda left, right: left * right)


@add("math.Sub", "sub")
def _sub(left: Any, right: Any) -> int | float:
    if is_float(left) or is_float(right):
        return number(left) - number(right)
    return _int64(integer(left) - integer(right))


@add("math.Div", "div")
def _div(left: Any, right: Any) -> float:
    divisor = number(right)
    if divisor == 0:
        raise FunctionError("division by 0")
    return number(left) / divisor


@add("math.Rem", "rem")
def _rem(left: Any, right: Any) -> int:
    dividend, divisor = integer(left), integer(right)
    if divisor == 0:
        raise FunctionError("division by 0")
    return int(math.copysign(abs(dividend) % abs(divisor), dividend))


@add("math.Pow", "pow")
def _pow(base: Any, exponent: Any) -> int | float:
    if not is_float(base) and not is_float(exponent) and 0 <= integer(exponent) <= 64:
        return integer(integer(base) ** integer(exponent))
    result = math.pow(number(base), number(exponent))
    return result if is_float(base) else integer(result)


@add("math.Seq", "seq")
def _seq(*bounds: Any) -> list[int]:
    match [integer(each) for each in bounds]:
        case [end]:
            start, step = 1, 1
        case [start, end]:
            step = 1
        case [start, end, step]:
            pass
        case _:
            raise FunctionError("it takes an end, a start and an end, or these and a step")
    step = abs(step) if end >= start else -abs(step)
    if step == 0:
        return []
    numbers = range(start, end + (1 if step > 0 else -1), step)
    checked_size(len(numbers))
    return list(numbers)


@add("math.Max")
def _max(*values: Any) -> int | float:
    return max(map(number, values)) if any(map(is_float, values)) else max(map(integer, values))


@add("math.Min")
def _min(*values: Any) -> int | float:
    return min(map(number, values)) if any(map(is_float, values)) else min(map(integer, values))


@add("math.Abs")
def _abs(value: Any) -> int | float:
    return abs(number(value)) if is_float(value) else abs(integer(value))


@add("math.Ceil")
def _ceil(value: Any) -> float:
    return float(math.ceil(number(value)))


@add("math.Floor")
def _floor(value: Any) -> float:
    return float(math.floor(number(value)))


@add("math.Round")
def _round(value: Any) -> float:
    """Round half away from zero, as Go does."""
    return math.copysign(math.floor(abs(number(value)) + 0.5), number(value))


@add("math.IsInt")
def _is_int(value: Any) -> bool:
    return _is_number(value) and not is_float(value)


@add("math.IsFloat")
def _is_float(value: Any) -> bool:
    return is_float(value)


@add("math.IsNum")
def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        number(value)
    except FunctionError:
        return False
    return True
