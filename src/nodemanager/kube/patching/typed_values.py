"""A value seen through its schema: is it valid, and which fields does it set?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from nodemanager.kube import json_values
from nodemanager.kube.patching import field_sets
from nodemanager.kube.patching.field_sets import FieldSet
from nodemanager.kube.patching.merge_types import ListRules, MapRules, MergeType


class SchemaError(ValueError):
    """A value does not fit its schema; the text is Kubernetes' own."""


def list_element(rules: ListRules, item: Any) -> str:
    """Return the path element of an item in a list that merges by keys or as a set."""
    if not rules.keys:
        return field_sets.item(_set_value(item))
    if item is None:
        raise SchemaError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise SchemaError("associative list with keys may not have non-map elements")
    keys = {name: item[name] for name in rules.keys if name in item}
    fields = rules.items.rules.map
    for name in rules.keys:
        declared = fields.fields.get(name) if fields else None
        if name not in keys and declared is not None and declared.default is not None:
            keys[name] = declared.default
    if not keys:
        names = " ".join(f'"{name}"' for name in rules.keys)
        raise SchemaError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return field_sets.key(keys)


def _set_value(item: Any) -> Any:
    if isinstance(item, dict):
        raise SchemaError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise SchemaError("not supported: associative list with lists as elements")
    if item is None:
        raise SchemaError("associative list without keys has an element that's an explicit null")
    return item


def validate(value: Any, of: MergeType, *, duplicates: bool = False) -> None:
    """Raise `SchemaError` when a value does not fit; `duplicates` are allowed in what is stored already."""
    found = list(_misfits(value, of, duplicates))
    if len(found) == 1:
        raise SchemaError(found[0])
    if found:
        raise SchemaError("\n  ".join(["errors:", *found]))


def _misfits(value: Any, of: MergeType, duplicates: bool) -> Iterator[str]:
    """Yield the errors in a value, each with the path to it in front."""
    rules = of.rules
    form = rules.form_of(value) or rules.first_form
    if value is None:
        return
    if form == "map" and rules.map:
        yield from _misfits_of_map(value, rules.map, duplicates)
    elif form == "list" and rules.list:
        yield from _misfits_of_list(value, rules.list, duplicates)
    elif message := _misfit_of_scalar(value, rules.scalar):
        yield message


def _misfit_of_scalar(value: Any, scalar: str) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not is_number:
        return f"expected numeric (int or float), got {json_values.go_type(value)}"
    if scalar == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{json_values.go_literal(value)}}}"
    if scalar == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{json_values.go_text(value)}}}"
    if isinstance(value, dict | list):
        return f"expected any scalar, got &{{{json_values.go_text(value)}}}"
    return ""


def _misfits_of_map(value: Any, rules: MapRules, duplicates: bool) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"expected map, got &{{{json_values.go_text(value)}}}"
        return
    for name in sorted(value):
        inner = rules.type_of(name)
        if inner is None:
            yield f".{name}: field not declared in schema"
            return
        yield from _prefixed(f".{name}", _misfits(value[name], inner, duplicates))


def _misfits_of_list(value: Any, rules: ListRules, duplicates: bool) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"expected list, got &{{{json_values.go_text(value)}}}"
        return
    seen = set()
    for index, item in enumerate(value):
        where = f"[{index}]"
        if rules.associative:
            try:
                element = list_element(rules, item)
            except SchemaError as error:
                yield f"element {index}: {error}"
                return
            where = field_sets.element_text(element)
            if element in seen and not duplicates:
                yield f"duplicate entries for key {where}"
            seen.add(element)
        yield from _prefixed(where, _misfits(item, rules.items, duplicates))


def _prefixed(where: str, messages: Iterator[str]) -> Iterator[str]:
    """Put a path element in front: errors that have a path already begin with it."""
    for message in messages:
        yield f"{where}{message}" if message[:1] in (".", "[") else f"{where}: {message}"


def fields_of(value: Any, of: MergeType) -> FieldSet:
    """Return the fields that an object sets."""
    return _below(value, of)[0]


def _below(value: Any, of: MergeType) -> tuple[FieldSet, bool]:
    """Return the fields inside a value, and whether the value itself is one."""
    rules = of.rules
    form = rules.form_of(value) or rules.first_form
    if form == "map" and rules.map:
        if rules.map.atomic:
            return field_sets.EMPTY, True
        return (_below_map(value, rules.map) if isinstance(value, dict) else field_sets.EMPTY), False
    if form == "list" and rules.list:
        if not rules.list.associative:
            return field_sets.EMPTY, True
        return (_below_list(value, rules.list) if isinstance(value, list) else field_sets.EMPTY), False
    return field_sets.EMPTY, True


def _below_map(value: dict[str, Any], rules: MapRules) -> FieldSet:
    members, children = set(), {}
    for name, inner in value.items():
        element = field_sets.field(name)
        kind = rules.type_of(name)
        if kind is None:
            continue
        children[element], is_member = _below(inner, kind)
        # A declared field is implied by what is set inside; a key of a map is a decision of its own.
        if is_member or inner is None or inner == {} or name not in rules.fields:
            members.add(element)
    return FieldSet(members, children)


def _below_list(value: list[Any], rules: ListRules) -> FieldSet:
    elements = [list_element(rules, item) for item in value]
    counts = Counter(elements)
    children = {
        element: _below(item, rules.items)[0]
        for element, item in zip(elements, value, strict=True)
        if counts[element] == 1
    }
    return FieldSet(elements, children)
