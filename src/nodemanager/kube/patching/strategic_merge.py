"""Kubernetes' own patch for built-in kinds: lists merge by key, and directives say the rest.

$patch: delete | replace            in a map, or in an item of a list that merges
$retainKeys: [a, b]                 remove every other key of the live map
$deleteFromPrimitiveList/NAME: [x]  take scalars out of the list NAME
$setElementOrder/NAME: [...]        the order of the list NAME afterwards
"""

from __future__ import annotations

from typing import Any

from nodemanager.kube import errors, json_values
from nodemanager.kube.json_values import copy_of, go_text, go_type, without_nulls
from nodemanager.kube.patching import json_patch
from nodemanager.kube.patching.list_order import identity, in_order, positions
from nodemanager.kube.patching.strategies import Strategy

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"

Map = dict[str, Any]


def apply_strategic_merge(document: Map, patch: Any, strategy: Strategy) -> Map:
    """Return the document with the patch merged in; both stay as they are."""
    if not isinstance(patch, dict):
        found = json_values.json_type(patch)
        raise errors.BadRequest(
            f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return _merge_maps(copy_of(document), copy_of(patch), strategy)


def _merge_maps(live: Map, patch: Map, strategy: Strategy) -> Map:
    """Merge into `live`, which is ours to change."""
    if _DIRECTIVE in patch:
        return _directed(patch)
    _retain_keys(live, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _merge_ordered(live, patch, name, strategy)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            _delete_scalars(live, name, value)
        elif value is None:
            live.pop(name, None)
        elif name not in live or go_type(live[name]) != go_type(value):
            _put(live, name, value)
        else:
            live[name] = _merge_values(live[name], value, strategy.of(name))
    return live


def _directed(patch: Map) -> Map:
    """Return what takes the place of a whole map."""
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise errors.unforeseen(f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}")


def _retain_keys(live: Map, patch: Map) -> None:
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    said = [
        name for name, value in patch.items() if value is not None and not name.startswith((_DELETE, _ORDER))
    ]
    if not isinstance(kept, list) or any(name not in kept for name in said):
        raise errors.BadRequest("invalid patch format of retainKeys")
    for name in [name for name in live if name not in kept]:
        del live[name]


def _put(live: Map, name: str, value: Any) -> None:
    """Set a value that has nothing to merge with: without nulls, and without what directives delete."""
    cleaned, keep = _cleaned(without_nulls(value))
    if keep:
        live[name] = cleaned
    else:
        live.pop(name, None)


def _cleaned(value: Any) -> tuple[Any, bool]:
    """Return a value without the parts that carry a directive, and whether it is kept itself."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        pairs = {name: _cleaned(inner) for name, inner in value.items()}
        return {name: inner for name, (inner, keep) in pairs.items() if keep}, True
    if isinstance(value, list):
        return [inner for inner, keep in map(_cleaned, value) if keep], True
    return value, True


def _merge_values(live: Any, value: Any, strategy: Strategy) -> Any:
    """Merge two values of the same type."""
    if isinstance(value, dict):
        return value if strategy.how == "replace" else _merge_maps(live, value, strategy)
    if isinstance(value, list) and strategy.how == "merge":
        return _merge_lists(live, value, strategy)
    return value


def _named(name: str, prefix: str, message: str) -> str:
    """Return the field that a directive is about."""
    start, slash, rest = name.partition("/")
    if not slash or start != prefix:
        raise errors.BadRequest(message)
    return rest


def _delete_scalars(live: Map, directive: str, value: Any) -> None:
    name = _named(directive, _DELETE, "invalid patch format of primitive list")
    if value is None:
        live.pop(name, None)
    elif isinstance(value, list) and isinstance(live.get(name), list):
        _element_type(live[name], value)
        deleted = positions(value, "")
        live[name] = [item for item in live[name] if identity(item, "") not in deleted]


def _element_type(*lists: list[Any]) -> str:
    """Return the one type that all items have."""
    kinds = {go_type(item) for items in lists for item in items}
    if go_type([]) in kinds:
        raise errors.Invalid(json_patch.REJECTED)
    if len(kinds) > 1:
        raise errors.unforeseen(f"list element types are not identical: {go_text(list(lists))}")
    return kinds.pop() if kinds else ""


def _merge_lists(live: list[Any], patch: list[Any], strategy: Strategy) -> list[Any]:
    """Merge two lists whose items are told apart by key, or by value."""
    kind = _element_type(live, patch)
    if kind != go_type({}):
        merged = list({identity(item, ""): item for item in [*live, *patch]}.values())
        return in_order(merged, patch, live, "")
    if not strategy.key:
        raise errors.unforeseen("cannot merge lists without merge key")
    live, patch = _special_items(live, patch, strategy.key)
    before = list(live)
    return in_order(_merge_items(live, patch, strategy), patch, before, strategy.key)


def _special_items(live: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Obey the directives among the items; return what is left on both sides."""
    plain = [item for item in patch if _DIRECTIVE not in item]
    deleted, replaced = [], False
    for item in patch:
        match item.get(_DIRECTIVE):
            case None if _DIRECTIVE not in item:
                continue
            case "delete":
                deleted.append({key: _key_of(item, key)})
            case "replace":
                replaced = True
            case "merge":
                raise errors.unforeseen("merging lists cannot yet be specified in the patch")
            case directive:
                raise errors.unforeseen(f"unknown patch type: {go_text(directive)} in map: {go_text(item)}")
    return (plain, []) if replaced else (_without(live, deleted, key), plain)


def _without(live: list[Any], deleted: list[Map], key: str) -> list[Any]:
    gone = positions(deleted, key)
    return [item for item in live if key not in item or identity(item, key) not in gone]


def _key_of(item: Map, key: str) -> Any:
    if key not in item:
        raise errors.unforeseen(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def _merge_items(live: list[Any], patch: list[Any], strategy: Strategy) -> list[Any]:
    merged = list(live)
    where = positions(merged, strategy.key)
    for item in patch:
        _key_of(item, strategy.key)
        index = where.setdefault(identity(item, strategy.key), len(merged))
        if index == len(merged):
            merged.append({strategy.key: None, **without_nulls(item)})  # a key may be null, but not missing
        else:
            merged[index] = _merge_maps(merged[index], item, strategy)
    for item in merged:
        _key_of(item, strategy.key)
    return merged


def _merge_ordered(live: Map, patch: Map, directive: str, strategy: Strategy) -> None:
    """Merge a list whose order the patch gives, too; afterwards the patch does not name it any more."""
    name = _named(directive, _ORDER, "invalid patch format of setElementOrder list")
    wanted = patch.pop(directive)
    if not isinstance(wanted, list):
        raise errors.unforeseen(f"expected a []interface {{}}, but received a {go_type(wanted)}")
    inner = strategy.of(name)
    before, given = live.get(name), patch.get(name)
    for found in (before, given):
        if found is not None and not isinstance(found, list):
            raise errors.unforeseen(f"expected a []interface {{}}, but received a {go_type(found)}")
    _check_order(given or [], wanted, inner.key)
    if before is None and given is None:
        return
    if given is None:
        merged = before or []
    elif before is None:
        merged = _cleaned(given)[0]
    else:
        merged = _merge_values(list(before), given, inner)
    if not (before or given):
        raise errors.unforeseen("no elements in any of the given slices")
    _element_type(before or [], given or [])
    for item in [*merged, *wanted] if inner.key else []:
        _key_of(item, inner.key)
    live[name] = in_order(merged, wanted, _order_after(before or [], given or [], inner), inner.key)
    patch.pop(name, None)


def _order_after(before: list[Any], given: list[Any], strategy: Strategy) -> list[Any]:
    """Return the live order that new items are sorted into.

    Kubernetes works in place: as many new items as others were deleted count as having been there.
    """
    if strategy.how != "merge" or not strategy.key or any(not isinstance(item, dict) for item in before):
        return before
    left = _without(before, [item for item in given if item.get(_DIRECTIVE) == "delete"], strategy.key)
    if len(left) == len(before) or any(item.get(_DIRECTIVE) == "replace" for item in given):
        return before
    known = positions(left, strategy.key)
    plain = [item for item in given if _DIRECTIVE not in item]
    added = [item for item in plain if identity(item, strategy.key) not in known]
    return [*left, *added[: len(before) - len(left)]]


def _check_order(given: list[Any], wanted: list[Any], key: str) -> None:
    """Refuse a patch whose items stand in another order than it asks for."""
    items = [item for item in given if not (key and item.get(_DIRECTIVE) == "delete")]
    if not given or not wanted:
        return
    position = 0
    for other in wanted:
        while position < len(items) and key and _DIRECTIVE in items[position]:
            position += 1
        if position == len(items):
            return
        if key:
            _key_of(items[position], key)
            _key_of(other, key)
        position += identity(other, key) == identity(items[position], key)
    if position < len(items):
        said, order = go_text(given), go_text(wanted)
        raise errors.unforeseen(f"The order in patch list:\n{said}\n doesn't match {_ORDER} list:\n{order}\n")
