"""Functions of lists and sets: those of Kubernetes, and the lists (version 3) and sets of cel-go."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from nodemanager.kube.cel import standard
from nodemanager.kube.cel.errors import CelError, CostExceeded, no_such_overload
from nodemanager.kube.cel.registry import Dispatcher, Library
from nodemanager.kube.cel.values import NONE, CelDuration, Optional, compare, contains, equal

LIBRARY = Library()
_add = LIBRARY.add
MAX_RANGE = 1_000_000
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUM = Dispatcher(standard.LIBRARY.functions["_+_"], receiver=False, count=2)


@_add("isSorted", *(f"list<{each}>.() -> bool" for each in _COMPARABLE))
def _is_sorted(items: list[Any]) -> bool:
    return all(compare(first, second) <= 0 for first, second in pairwise(items))


@_add("sum", "list<int>.() -> int", "list<uint>.() -> uint", "list<double>.() -> double")
@_add("sum", "list<duration>.() -> duration")
def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    total = items[0]
    if not isinstance(total, int | float | CelDuration) or isinstance(total, bool):
        raise no_such_overload()
    for item in items[1:]:
        total = _SUM.find((total, item)).call(total, item)
    return total


@_add("min", *(f"list<{each}>.() -> {each}" for each in _COMPARABLE))
def _min(items: list[Any]) -> Any:
    if not items:
        raise CelError("min called on empty list")
    return min(items, key=cmp_to_key(compare))


@_add("max", *(f"list<{each}>.() -> {each}" for each in _COMPARABLE))
def _max(items: list[Any]) -> Any:
    if not items:
        raise CelError("max called on empty list")
    return max(items, key=cmp_to_key(compare))


@_add("indexOf", "list<A>.(A) -> int")
def _index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


@_add("lastIndexOf", "list<A>.(A) -> int")
def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if equal(items[at], wanted)), -1)


@_add("slice", "list<A>.(int, int) -> list<A>")
def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


@_add("flatten", "list<list<A>>.() -> list<A>", "list<dyn>.() -> list<dyn>", "list<dyn>.(int) -> list<dyn>")
def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat = list(items)
    for _ in range(min(depth, 100)):
        if not any(isinstance(item, list) for item in flat):
            break
        flat = [inner for item in flat for inner in (item if isinstance(item, list) else [item])]
    return flat


@_add("sort", *(f"list<{each}>.() -> list<{each}>" for each in _COMPARABLE))
def _sort(items: list[Any]) -> list[Any]:
    return sort_by(items, items)


def sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    """Return items in the order of their keys, which must all be of one type."""
    if len({type(key) for key in keys}) > 1:
        raise CelError("list elements must have the same type")
    for key in keys[:1]:
        compare(key, key)
    by_key = cmp_to_key(compare)
    order = sorted(range(len(items)), key=lambda index: by_key(keys[index]))
    return [items[index] for index in order]


@_add("lists.range", "(int) -> list<int>")
def _range(count: int) -> list[int]:
    if count > MAX_RANGE:
        raise CostExceeded
    return list(range(count))


_add("reverse", "list<A>.() -> list<A>")(lambda items: items[::-1])


@_add("distinct", "list<A>.() -> list<A>", product=True)
def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not contains(found, item):
            found.append(item)
    return found


_add("first", "list<A>.() -> optional_type<A>")(lambda items: Optional(True, items[0]) if items else NONE)
_add("last", "list<A>.() -> optional_type<A>")(lambda items: Optional(True, items[-1]) if items else NONE)


@_add("sets.contains", "(list<A>, list<A>) -> bool", product=True)
def _sets_contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(contains(items, item) for item in wanted)


@_add("sets.equivalent", "(list<A>, list<A>) -> bool", product=True)
def _sets_equivalent(first: list[Any], second: list[Any]) -> bool:
    return all(contains(first, item) for item in second) and all(contains(second, item) for item in first)


@_add("sets.intersects", "(list<A>, list<A>) -> bool", product=True)
def _sets_intersect(first: list[Any], second: list[Any]) -> bool:
    return any(contains(second, item) for item in first)
