"""coll.*: lists and maps. None of them changes its arguments: data stays as it is for all templates."""

from __future__ import annotations

import functools
from typing import Any

from nodemanager.plan.templates.budget import AbsentEntry, Blank, absent
from nodemanager.plan.templates.errors import FunctionError
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import as_bytes, as_text, entries, integer, items, kind, text


@add("coll.Dict", "dict", "conv.Dict", deep=False)
def _dict(*pairs: Any) -> dict[str, Any]:
    keys = [text(each) for each in pairs[::2]]
    values = [*pairs[1::2], ""]
    return dict(zip(keys, values, strict=False))


@add("coll.Slice", "conv.Slice", "list", deep=False)
def _slice(*values: Any) -> list[Any]:
    return list(values)


@add("coll.GoSlice", deep=False)
def go_slice(value: Any, *bounds: Any) -> Any:
    """Return a part of a list, or of a text by bytes, as Go's `slice` does."""
    if not isinstance(value, (str, bytes, list)):
        raise FunctionError(f"a value of kind {kind(value)} has no parts")
    if len(bounds) > (3 if isinstance(value, list) else 2):
        raise FunctionError("it takes a value and up to two bounds, three for a list")
    whole = as_bytes(value) if isinstance(value, str) else value
    places = [integer(each, "a bound") for each in bounds]
    if places != sorted(places) or any(not 0 <= each <= len(whole) for each in places):
        raise FunctionError("a bound is out of range")
    begin, end = [*places[:2], *(0, len(whole))[len(places[:2]) :]]
    part = whole[begin:end]
    return as_text(part) if isinstance(value, str) and isinstance(part, bytes) else part


@add("slice", deep=False)
def _either_slice(*values: Any) -> Any:
    """Do what Go's `slice` does when all that follows are numbers, else make a list of the values."""
    numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in values[1:])
    if len(values) > 1 and numbers and isinstance(values[0], (str, bytes, list)):
        return go_slice(*values)
    return list(values)


def looked_up(value: Any, key: Any) -> Any:
    """Return an element; a key that a map does not have is absent, as is all that is looked for in it."""
    if isinstance(value, (AbsentEntry, Blank)):
        return value
    if value is None:
        return absent(str(key), "here")
    if isinstance(value, dict):
        return _entry(value, key)
    if isinstance(value, (list, bytes, str)):
        if isinstance(key, (str, list, dict)) or key is None:
            raise FunctionError(f"a value of kind {kind(value)} is indexed by number, not by {kind(key)}")
        whole = as_bytes(value) if isinstance(value, str) else value
        place = integer(key, "the index")
        if not 0 <= place < len(whole):
            raise FunctionError("the index is out of range")
        return whole[place]
    raise FunctionError(f"a value of kind {kind(value)} has no elements")


def _entry(value: dict[str, Any], key: Any) -> Any:
    if not isinstance(key, str):
        raise FunctionError(f"a map is indexed by text, not by {kind(key)}")
    try:
        found = getattr(value, "__gotemplate_lookup__", value.get)(key)
    except KeyError:
        found = None
    return absent(key, "here") if found is None else found


@add("index", "get", deep=False, absent=True)
def _index(value: Any, *keys: Any) -> Any:
    """Return an element by keys. A map may also come last, so that it can be piped in."""
    if len(keys) == 1 and isinstance(keys[0], (dict, list)) and isinstance(value, (str, int)):
        return looked_up(keys[0], value)
    return functools.reduce(looked_up, keys, value)


@add("coll.Index", deep=False, absent=True)
def _coll_index(*arguments: Any) -> Any:
    if len(arguments) < 2:
        raise FunctionError("it takes at least a key and a list or map")
    return functools.reduce(looked_up, arguments[:-1], arguments[-1])


@add("coll.Has", "has", "hasKey", "conv.Has", deep=False)
def _has(value: Any, key: Any) -> bool:
    if isinstance(value, dict):
        return key in value if isinstance(key, str) else False
    return isinstance(value, list) and any(type(each) is type(key) and each == key for each in value)


@add("coll.Keys", "keys", deep=False)
def _keys(*maps: Any) -> list[str]:
    return [key for each in maps for key in sorted(entries(each))]


@add("coll.Values", "values", deep=False)
def _values(*maps: Any) -> list[Any]:
    return [each[key] for each in maps for key in sorted(entries(each))]


@add("coll.Append", "append", deep=False)
def _append(value: Any, values: Any) -> list[Any]:
    return [*items(values), value]


@add("coll.Prepend", "prepend", deep=False)
def _prepend(value: Any, values: Any) -> list[Any]:
    return [value, *items(values)]


@add("coll.Uniq", "uniq")
def _uniq(values: Any) -> list[Any]:
    found: dict[str, Any] = {}
    for each in items(values):
        found.setdefault(_identity(each), each)
    return list(found.values())


def _identity(value: Any) -> str:
    return f"{type(value).__name__}:{value!r}"


@add("coll.Reverse", "reverse", deep=False)
def _reverse(values: Any) -> list[Any]:
    return items(values)[::-1]


@add("coll.Flatten", "flatten")
def _flatten(*arguments: Any) -> list[Any]:
    match arguments:
        case (values,):
            return _flat(items(values), -1)
        case (depth, values):
            return _flat(items(values), integer(depth, "the depth"))
    raise FunctionError("it takes a depth, if any, and a list")


def _flat(values: list[Any], depth: int) -> list[Any]:
    if depth == 0:
        return values
    out: list[Any] = []
    for each in values:
        out.extend(_flat(each, depth - 1) if isinstance(each, list) else [each])
    return out


@add("coll.Sort", "sort")
def _sort(*arguments: Any) -> list[Any]:
    if len(arguments) not in (1, 2):
        raise FunctionError("it takes a key, if any, and a list")
    key = text(arguments[0]) if len(arguments) == 2 else ""
    values = arguments[-1]
    if isinstance(values, dict):
        values = [values[each] for each in sorted(values)]
    if len({kind(each) for each in items(values)}) > 1:
        return list(values)  # gomplate leaves a mixed list as it is
    return sorted(values, key=lambda each: _rank(each, key))


def _rank(value: Any, key: str) -> tuple[str, Any]:
    if key and isinstance(value, dict):
        value = looked_up(value, key)
    if isinstance(value, (int, float)):
        return "number", value
    return ("text", value) if isinstance(value, str) else ("~", text(value))


@add("coll.Merge", "merge")
def _merge(first: Any, *others: Any) -> dict[str, Any]:
    return functools.reduce(_merged, others, entries(first))


def _merged(ours: Any, theirs: Any) -> dict[str, Any]:
    """Return both maps together; what `ours` has wins, and maps in maps are merged too."""
    out = dict(entries(theirs))
    for key, value in entries(ours).items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = _merged(value, out[key]) if both else value
    checked_size(len(out))
    return out


def _chosen(arguments: tuple[Any, ...]) -> tuple[set[str], dict[str, Any]]:
    if len(arguments) < 2:
        raise FunctionError("it takes keys and then a map")
    keys = arguments[0] if len(arguments) == 2 and isinstance(arguments[0], list) else arguments[:-1]
    if not all(isinstance(each, str) for each in keys):
        raise FunctionError("the keys must be texts")
    return set(keys), entries(arguments[-1], "the last argument")


@add("coll.Pick", deep=False)
def _pick(*arguments: Any) -> dict[str, Any]:
    keys, values = _chosen(arguments)
    return {key: value for key, value in values.items() if key in keys}


@add("coll.Omit", deep=False)
def _omit(*arguments: Any) -> dict[str, Any]:
    keys, values = _chosen(arguments)
    return {key: value for key, value in values.items() if key not in keys}


@add("coll.Set", "set", deep=False)
def _set(key: str, value: Any, values: Any) -> dict[str, Any]:
    return {**entries(values), key: value}


@add("coll.Unset", "unset", deep=False)
def _unset(key: str, values: Any) -> dict[str, Any]:
    return {each: value for each, value in entries(values).items() if each != key}
