"""Merging an applied object into a live one, and taking fields out again."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from nodemanager.kube.json_values import ABSENT
from nodemanager.kube.patching import field_sets
from nodemanager.kube.patching.field_sets import FieldSet
from nodemanager.kube.patching.merge_types import ListRules, MapRules, MergeType
from nodemanager.kube.patching.typed_compare import forms
from nodemanager.kube.patching.typed_values import list_element


def merge(live: Any, applied: Any, of: MergeType) -> Any:
    """Return the live value with what was applied; `ABSENT` on one side means the other is taken."""
    rules = of.rules
    # When the type of a value changed, the form of what was applied decides.
    form = forms(rules, live, applied)[-1]
    if form == "map" and rules.map:
        return _merge_maps(live, applied, rules.map)
    if form == "list" and rules.list:
        return _merge_lists(live, applied, rules.list)
    return _later(live, applied)


def _later(live: Any, applied: Any) -> Any:
    return live if applied is ABSENT else applied


def _merge_maps(live: Any, applied: Any, rules: MapRules) -> Any:
    old = live if isinstance(live, dict) else {}
    new = applied if isinstance(applied, dict) else {}
    if rules.atomic or not (old or new):
        return _later(live, applied)
    merged = {}
    for name in [*old, *(name for name in new if name not in old)]:
        kind = rules.type_of(name)
        if kind is not None:
            merged[name] = merge(old.get(name, ABSENT), new.get(name, ABSENT), kind)
    return merged


def _merge_lists(live: Any, applied: Any, rules: ListRules) -> Any:
    old = live if isinstance(live, list) else []
    new = applied if isinstance(applied, list) else []
    if not rules.associative or not (old or new):
        return _later(live, applied)
    olds = [(list_element(rules, item), item) for item in old]
    news = {list_element(rules, item): item for item in new}
    return _ListMerge(rules, olds, news).merged()


class _ListMerge:
    """The order of a merged list: what was applied keeps its order, live items stay where they were."""

    def __init__(self, rules: ListRules, olds: list[tuple[str, Any]], news: dict[str, Any]) -> None:
        self._rules = rules
        self._olds = olds
        self._news = news
        counts = Counter(element for element, _ in olds)
        # Items that the live list has twice cannot be merged with; the applied one stands for all.
        self._live = {element: None if counts[element] > 1 else item for element, item in olds}
        self._shared = deque(element for element in news if element in self._live)
        self._done: set[str] = set()
        self._out: list[Any] = []

    def merged(self) -> list[Any]:
        """Walk both lists at once, taking the next item of the one whose turn it is."""
        waiting = deque(self._news)
        position = 0
        while position < len(self._olds) or waiting:
            if position == len(self._olds):
                self._take(waiting.popleft())
                continue
            element, item = self._olds[position]
            if element not in self._news:
                self._out.append(merge(item, ABSENT, self._rules.items))
                position += 1
            elif waiting and element == waiting[0]:
                self._take(waiting.popleft())
                position += 1
            elif waiting and self._shared and self._shared[0] != element:
                position += 1  # It comes later in what was applied, and is taken then.
            else:
                position += element in self._done
                if waiting:
                    self._take(waiting.popleft())
        return self._out

    def _take(self, element: str) -> None:
        if self._shared and self._shared[0] == element:
            self._shared.popleft()
        self._done.add(element)
        self._out.append(merge(self._live.get(element, ABSENT), self._news[element], self._rules.items))


def remove(value: Any, fields: FieldSet, of: MergeType) -> Any:
    """Return a value without these fields; what becomes empty becomes null."""
    rules = of.rules
    form = rules.form_of(value) or rules.first_form
    if form == "map" and rules.map:
        return _remove_from_map(value, fields, rules.map)
    if form == "list" and rules.list:
        return _remove_from_list(value, fields, rules.list)
    return value


def _remove_from_map(value: Any, fields: FieldSet, rules: MapRules) -> Any:
    if not isinstance(value, dict) or rules.atomic:
        return None
    kept = {}
    for name, inner in value.items():
        element = field_sets.field(name)
        kind = rules.type_of(name)
        if element in fields.members or kind is None:
            continue
        below = fields.below(element)
        kept[name] = remove(inner, below, kind) if below else inner
    return kept or None


def _remove_from_list(value: Any, fields: FieldSet, rules: ListRules) -> Any:
    if not isinstance(value, list) or not rules.associative:
        return None
    kept = []
    for item in value:
        element = list_element(rules, item)
        if element not in fields.members:
            below = fields.below(element)
            kept.append(remove(item, below, rules.items) if below else item)
    return kept or None


def with_named_fields(fields: FieldSet, of: MergeType | None) -> FieldSet:
    """Return a set in which every declared field on the way to a member is a member, too."""
    rules = of.rules if of else None
    declared = rules.map.fields if rules and rules.map else {}
    members = set(fields.members)
    children = {}
    for element, below in fields.children.items():
        inner: MergeType | None = None
        name = element[2:] if element.startswith("f:") else None
        if name is not None and rules and rules.map:
            inner = rules.map.type_of(name)
        elif element.startswith("k:") and rules and rules.list:
            inner = rules.list.items
        if name is not None and name in declared:
            members.add(element)
        children[element] = with_named_fields(below, inner)
    return FieldSet(members, children)
