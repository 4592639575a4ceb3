"""Owned fields after a schema changed: from granular to atomic, and back."""

from __future__ import annotations

from nodemanager.kube.patching.field_sets import EMPTY, FieldSet, Path
from nodemanager.kube.patching.merge_types import MapRules, MergeType


def reconcile(fields: FieldSet, of: MergeType) -> FieldSet:
    """Return what a manager owns now: each atomic part as a whole of which it owned something."""
    wholes = FieldSet.of(*_wholes(fields, of, (), is_leaf=False))
    return fields.without_branches(wholes).union(wholes) if wholes else fields


def _wholes(fields: FieldSet, of: MergeType, path: Path, *, is_leaf: bool) -> list[Path]:
    """Return the paths of what is one whole now, although fields below it are owned."""
    rules = of.rules
    if rules.map:
        if not rules.map.fields and rules.map.rest is not None and rules.map.rest.is_open:
            return []
        if rules.map.atomic:
            return [path] if fields and not is_leaf else []
    elif rules.list and not rules.scalar:
        if not rules.list.associative:
            return [] if is_leaf else [path]
    else:
        return []
    found: list[Path] = []
    for element in fields.members | fields.children.keys():
        inner = _inner(rules.map, of, element)
        if inner is not None:
            below = fields.children.get(element, EMPTY)
            leaf = element in fields.members and not below
            found += _wholes(below, inner, (*path, element), is_leaf=leaf)
    return found


def _inner(rules: MapRules | None, of: MergeType, element: str) -> MergeType | None:
    if rules is not None:
        return rules.type_of(element[2:]) if element.startswith("f:") else rules.rest
    return of.rules.list.items if of.rules.list else None
