"""Which parts of an update are unchanged, so that old faults in them are forgiven.

Lists are compared item by item only where the schema gives the items an identity (list type map);
everything else of a list is one value.
"""

from __future__ import annotations

from typing import Any

from nodemanager.kube.go import text
from nodemanager.kube.schemas.structural import Structural


class Correlated:
    """A new value, and the old value at the same place."""

    __slots__ = ("_by_key", "_same", "new", "node", "old")

    def __init__(self, new: Any, old: Any, node: Structural) -> None:
        self.new = new
        self.old = old
        self.node = node
        self._by_key: dict[Any, Any] | None = None
        self._same: bool | None = None

    def key(self, name: str) -> Correlated | None:
        """Return the pair for a field, or None if there was none or the schema does not know it."""
        if type(self.old) is not dict or type(self.new) is not dict:
            return None
        known = self.node.properties.get(name, self.node.additional)
        if known is None or name not in self.old or name not in self.new:
            return None
        return Correlated(self.new[name], self.old[name], known)

    def index(self, index: int) -> Correlated | None:
        """Return the pair for an item, or None if the old item cannot be identified."""
        if type(self.old) is not list or type(self.new) is not list or self.node.items is None:
            return None
        if self.node.list_type != "map":
            return None
        if self._by_key is None:
            self._by_key = {}
            for item in self.old:
                self._by_key.setdefault(_identity(item, self.node.list_keys), item)
        identity = _identity(self.new[index], self.node.list_keys)
        old = self._by_key.get(identity) if identity is not None else None
        return None if old is None else Correlated(self.new[index], old, self.node.items)

    def unchanged(self) -> bool:
        """Tell whether Kubernetes considers the value unchanged."""
        if self._same is None:
            self._same = self._compare()
        return self._same

    def _compare(self) -> bool:
        if type(self.new) is not type(self.old):
            return False
        if type(self.new) is dict:
            return len(self.new) == len(self.old) and all(_unchanged(self.key(name)) for name in self.new)
        if type(self.new) is not list or self.node.list_type != "map":
            return equal(self.new, self.old)
        return len(self.new) == len(self.old) and all(
            _unchanged(self.index(index)) for index in range(len(self.new))
        )


def _unchanged(pair: Correlated | None) -> bool:
    return pair is not None and pair.unchanged()


def _identity(item: Any, names: tuple[str, ...]) -> tuple[Any, ...] | None:
    if type(item) is not dict:
        return None
    values = [item.get(name) for name in names]
    if any(value is None or isinstance(value, dict | list) for value in values):
        return None
    return tuple((type(value), value) for value in values)


def equal(one: Any, other: Any) -> bool:
    """Tell whether Go would find two values deeply equal: 1 and 1.0 and true all differ."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(equal(item, other[name]) for name, item in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def repeated(values: list[Any]) -> list[int]:
    """Return the index of every second occurrence of a value; a third one is not reported again."""
    seen: dict[Any, int] = {}
    found = []
    for index, value in enumerate(values):
        compound = isinstance(value, dict | list)
        identity = (type(value), text.json_text(value) if compound else value)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            found.append(index)
    return found
