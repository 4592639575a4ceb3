"""What differs between two objects, as sets of fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodemanager.kube.json_values import ABSENT, same
from nodemanager.kube.patching import field_sets
from nodemanager.kube.patching.field_sets import FieldSet, Path
from nodemanager.kube.patching.merge_types import ListRules, MapRules, MergeType, Rules
from nodemanager.kube.patching.typed_values import list_element


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields that the second object removed, changed and added."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, fields: FieldSet) -> Comparison:
        """Return the comparison without these fields and what is inside them."""
        return Comparison(
            self.removed.without_branches(fields),
            self.modified.without_branches(fields),
            self.added.without_branches(fields),
        )


def compare(before: Any, after: Any, of: MergeType) -> Comparison:
    """Return what changed between two objects of one type."""
    walk = _Walk()
    walk.values((), of, before, after)
    return Comparison(FieldSet.of(*walk.removed), FieldSet.of(*walk.modified), FieldSet.of(*walk.added))


def forms(rules: Rules, one: Any, other: Any) -> list[str]:
    """Return the forms in which two values are compared: two forms if the type of the value changed."""
    first = rules.form_of(one)
    second = rules.form_of(other)
    if other is ABSENT or (one is not ABSENT and first != second):
        wanted = [first] if other is ABSENT else [first, second]
    else:
        wanted = [second]
    return [form or rules.first_form for form in wanted]


class _Walk:
    """One comparison; it collects paths on the way."""

    def __init__(self) -> None:
        self.removed: list[Path] = []
        self.modified: list[Path] = []
        self.added: list[Path] = []

    def values(self, path: Path, of: MergeType, before: Any, after: Any) -> None:
        """Compare two values, one of which may be absent."""
        rules = of.rules
        is_whole = False
        for form in forms(rules, before, after):
            if form == "map" and rules.map:
                is_whole = self._maps(path, rules.map, before, after)
            elif form == "list" and rules.list:
                is_whole = self._lists(path, rules.list, before, after)
            else:
                is_whole = self._wholes(path, before, after)
        if not is_whole and before is ABSENT:
            self.added.append(path)
        elif not is_whole and after is ABSENT:
            self.removed.append(path)

    def _wholes(self, path: Path, before: Any, after: Any) -> bool:
        """Compare without looking inside."""
        if before is ABSENT:
            self.added.append(path)
        elif after is ABSENT:
            self.removed.append(path)
        elif not same(before, after):
            self.modified.append(path)
        return True

    def _maps(self, path: Path, rules: MapRules, before: Any, after: Any) -> bool:
        old = before if isinstance(before, dict) else {}
        new = after if isinstance(after, dict) else {}
        # Two empty maps are compared as wholes, because null and {} are not the same.
        if rules.atomic or not (old or new):
            return self._wholes(path, before, after)
        for name in old.keys() | new.keys():
            kind = rules.type_of(name)
            if kind is not None:
                inner = (*path, field_sets.field(name))
                self.values(inner, kind, old.get(name, ABSENT), new.get(name, ABSENT))
        return False

    def _lists(self, path: Path, rules: ListRules, before: Any, after: Any) -> bool:
        old = before if isinstance(before, list) else []
        new = after if isinstance(after, list) else []
        if not rules.associative or not (old or new):
            return self._wholes(path, before, after)
        olds, news = _by_element(rules, old), _by_element(rules, new)
        for element in olds.keys() | news.keys():
            self._items((*path, element), rules, olds.get(element, []), news.get(element, []))
        return False

    def _items(self, path: Path, rules: ListRules, old: list[Any], new: list[Any]) -> None:
        """Compare the items with one key: several of them (duplicates) are one whole."""
        if len(old) <= 1 and len(new) <= 1:
            self.values(path, rules.items, old[0] if old else ABSENT, new[0] if new else ABSENT)
        elif len(old) > 1 and len(new) > 1:
            if not same(old, new):
                self.modified.append(path)
        elif len(old) > 1:
            if new:
                self.values(path, rules.items, ABSENT, new[0])
            self.removed.append(path)
        else:
            if old:
                self.values(path, rules.items, old[0], ABSENT)
            self.added.append(path)


def _by_element(rules: ListRules, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(list_element(rules, item), []).append(item)
    return found
