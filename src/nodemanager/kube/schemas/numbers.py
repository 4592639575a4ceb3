"""Bounds and ranges of numbers, including what Go's conversions do to them."""

from __future__ import annotations

from typing import Any

from nodemanager.kube.go import text as gotext
from nodemanager.kube.schemas.faults import FaultReport, Path, render
from nodemanager.kube.schemas.structural import Structural

_EPSILON = 1e-9
_MAX_EXACT = 2.0**53 - 1
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
_INT32 = range(-(2**31), 2**31)


def is_whole(value: float) -> bool:
    """Tell whether a float is taken for an integer: within 2^53, and exact to nine digits."""
    if not -_MAX_EXACT <= value <= _MAX_EXACT:
        return False
    whole = float(int(value))
    if value == whole:
        return True
    if value < 0 or whole == 0:
        return False
    return abs(value - whole) / (value + whole) < _EPSILON


def check_number(value: Any, node: Structural, path: Path, report: FaultReport) -> None:
    """Report every rule that a number breaks."""
    type_name = node.types[0] if len(node.types) == 1 and node.types[0] in ("integer", "number") else ""
    in_range = _Range(type_name, node.format, path, report)
    in_range.holds(value, "Checked")
    if node.numbers is not None:
        _check_bounds(value, node, path, report, in_range)


def _check_bounds(given: Any, node: Structural, path: Path, report: FaultReport, in_range: _Range) -> None:
    rules = node.numbers
    if rules is None:
        return
    if (factor := rules.multiple_of) is not None:
        value, factor = _native(given, factor, in_range.holds(factor, "MultipleOf"))
        _check_multiple(value, factor, path, report)
    if (bound := rules.minimum) is not None:
        value, bound = _native(given, bound, in_range.holds(bound, "Minimum boundary"))
        if value < bound or (rules.exclusive_minimum and value <= bound):
            relation = "greater than" if rules.exclusive_minimum else "greater than or equal to"
            report.invalid(path, value, f"should be {relation} {gotext.number(bound)}")
    if (bound := rules.maximum) is not None:
        value, bound = _native(given, bound, in_range.holds(bound, "Maximum boundary"))
        if value > bound or (rules.exclusive_maximum and value >= bound):
            relation = "less than" if rules.exclusive_maximum else "less than or equal to"
            report.invalid(path, value, f"should be {relation} {gotext.number(bound)}")


def _native(value: Any, bound: float, exact: bool) -> tuple[Any, float]:
    """An integer is compared with the bound cut to an integer if that fits the type, else as a float."""
    if not exact or not isinstance(value, int):
        return float(value), bound
    return value, max(gotext.MIN_INT64, min(gotext.MAX_INT64, int(bound)))


def _check_multiple(value: Any, factor: float, path: Path, report: FaultReport) -> None:
    if factor <= 0:
        text = f"factor MultipleOf declared for {render(path)} must be positive: {gotext.number(factor)}"
        report.stated(path, factor, text)
        return
    if isinstance(value, int) and isinstance(factor, int):
        whole = value % factor == 0
    else:
        whole = is_whole(1 / factor * value if factor < 1 else value / factor)
    if not whole:
        report.invalid(path, value, f"should be a multiple of {gotext.number(factor)}")


class _Range:
    """Whether a number, or a bound written in the schema, fits the type and format."""

    def __init__(self, type_name: str, format_name: str, path: Path, report: FaultReport) -> None:
        self.type_name = type_name
        self.format_name = format_name
        self.path = path
        self.report = report

    def holds(self, number: float, what: str) -> bool:
        if self._fits(number):
            return True
        kind = f"with format {self.format_name}" if self.format_name else "(default format)"
        place = render(self.path)
        self.report.composite(f"{what} value must be of type {self.type_name} {kind} in {place}")
        return False

    def _fits(self, number: Any) -> bool:
        if self.type_name == "integer":
            if isinstance(number, float) and not number.is_integer():
                return False
            whole = int(number)
            return whole in _INT32 if self.format_name == "int32" else gotext.is_integer(whole)
        return self.format_name != "float" or abs(number) < _FLOAT32_OVERFLOW
