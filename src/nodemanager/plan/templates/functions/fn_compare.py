"""Go's comparisons, which also tell which key is missing; only with `nil` it may be."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from nodemanager.plan.templates.budget import AbsentEntry
from nodemanager.plan.templates.errors import FunctionError, MissingKey
from nodemanager.plan.templates.functions.registry import add
from nodemanager.plan.templates.functions.values import kind

_ORDERED = ("int", "float64", "string")


def _equal(left: Any, right: Any) -> bool:
    if left is not None and right is not None:
        _refuse_absent(left, right)
    kinds = {kind(left), kind(right)}
    if "invalid" in kinds and kinds <= {"invalid", "map", "slice"}:
        return len(kinds) == 1
    if len(kinds) > 1:
        raise FunctionError("incompatible types for comparison")
    if kinds <= {"map", "slice"}:
        raise FunctionError("non-comparable type")
    return bool(left == right)


def _refuse_absent(*values: Any) -> None:
    for each in values:
        if isinstance(each, AbsentEntry):
            raise MissingKey(each.why)


@add("eq", absent=True)
def _eq(first: Any, *others: Any) -> bool:
    if not others:
        raise FunctionError("eq requires at least two arguments")
    return any(_equal(first, other) for other in others)


@add("ne", absent=True)
def _ne(left: Any, right: Any) -> bool:
    return not _equal(left, right)


def _ordering(name: str, compare: Callable[[Any, Any], bool]) -> None:
    @add(name)
    def _compared(left: Any, right: Any) -> bool:
        if kind(left) != kind(right):
            raise FunctionError("incompatible types for comparison")
        if kind(left) not in _ORDERED:
            raise FunctionError("invalid type for comparison")
        return compare(left, right)

    del _compared


for _name in ("lt", "le", "gt", "ge"):
    _ordering(_name, getattr(operator, _name))
