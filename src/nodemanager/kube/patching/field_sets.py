"""Sets of field paths, as `metadata.managedFields` stores them.

An element of a path is the text that `fieldsV1` uses for it: `f:name` is a field, `k:{"a":1}` the item
of a list with these keys, `v:"x"` a value in a set and `i:0` an index. A set is a tree: a path can be
a member, have members below it, or both.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from nodemanager.kube import json_values

Path = tuple[str, ...]
MAX_DEPTH = 200
"""Deeper trees are refused; the API itself allows no object as deep as that."""


def field(name: str) -> str:
    """Return the element of a field."""
    return f"f:{name}"


def key(fields: Mapping[str, Any]) -> str:
    """Return the element of the list item that has these key fields."""
    inner = ",".join(
        f"{json_values.compact(name)}:{json_values.compact(fields[name])}" for name in sorted(fields)
    )
    return f"k:{{{inner}}}"


def item(value: Any) -> str:
    """Return the element of a value in a set."""
    return f"v:{json_values.compact(value)}"


def text(path: Iterable[str]) -> str:
    """Return a path as messages show it: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """Return one element as messages show it."""
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        named = json.loads(rest)
        return "[" + ",".join(f"{name}={_value_text(named[name])}" for name in sorted(named)) + "]"
    return f"[={rest}]" if kind == "v:" else f"[{rest}]"


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"{name}={_value_text(inner)}" for name, inner in sorted(value.items()))
    return json_values.compact(value)


_TOO_DEEP = object()
_DEPTH_MAX = 100


@functools.lru_cache(maxsize=4096)
def _order(element: str) -> tuple[Any, ...]:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return (0, rest)
    if kind == "k:":
        named = json.loads(rest)
        return (1, [(name, json_values.order(named[name])) for name in sorted(named)])
    return (2, json_values.order(json.loads(rest))) if kind == "v:" else (3, int(rest))


class FieldSet:
    """An immutable set of paths; operations return new sets and never keep empty branches."""

    __slots__ = ("children", "members")

    def __init__(self, members: Iterable[str] = (), children: Mapping[str, FieldSet] | None = None) -> None:
        self.members: frozenset[str] = frozenset(members)
        self.children: dict[str, FieldSet] = {
            name: below for name, below in (children or {}).items() if below
        }

    @classmethod
    def of(cls, *paths: Path) -> FieldSet:
        """Return the set of these paths; an empty path is left out, because the whole object has no owner."""
        members = {path[0] for path in paths if len(path) == 1}
        below: dict[str, list[Path]] = {}
        for path in paths:
            if len(path) > 1:
                below.setdefault(path[0], []).append(path[1:])
        return cls(members, {name: cls.of(*rest) for name, rest in below.items()})

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSet):
            return NotImplemented
        return self.members == other.members and self.children == other.children

    def __hash__(self) -> int:
        return hash((self.members, frozenset(self.children.items())))

    def __repr__(self) -> str:
        return f"FieldSet({' '.join(map(text, self))})"

    def __iter__(self) -> Iterator[Path]:
        """Yield every path, in the order in which Kubernetes reports conflicts."""
        for element in sorted(self.members, key=_order):
            yield (element,)
        for element in sorted(self.children, key=_order):
            for rest in self.children[element]:
                yield (element, *rest)

    def __contains__(self, path: Path) -> bool:
        if len(path) <= 1:
            return len(path) == 1 and path[0] in self.members
        return path[0] in self.children and path[1:] in self.children[path[0]]

    def below(self, element: str) -> FieldSet:
        """Return the paths that begin with this element, without it."""
        return self.children.get(element, EMPTY)

    def union(self, other: FieldSet) -> FieldSet:
        """Return the paths that are in either set."""
        if not self or not other:
            return self or other
        names = self.children.keys() | other.children.keys()
        return FieldSet(
            self.members | other.members, {name: self.below(name).union(other.below(name)) for name in names}
        )

    def intersection(self, other: FieldSet) -> FieldSet:
        """Return the paths that are in both sets."""
        names = self.children.keys() & other.children.keys()
        return FieldSet(
            self.members & other.members,
            {name: self.children[name].intersection(other.children[name]) for name in names},
        )

    def difference(self, other: FieldSet) -> FieldSet:
        """Return the paths that are not in the other set; what lies below a removed path stays."""
        if not other:
            return self
        return self._without(other, lambda mine, theirs: mine.difference(theirs))

    def without_branches(self, other: FieldSet) -> FieldSet:
        """Return the paths that are neither in the other set nor below one of its paths."""
        if not other:
            return self
        kept = self._without(other, lambda mine, theirs: mine.without_branches(theirs))
        remaining = {name: below for name, below in kept.children.items() if name not in other.members}
        return FieldSet(kept.members, remaining)

    def _without(self, other: FieldSet, descend: Callable[[FieldSet, FieldSet], FieldSet]) -> FieldSet:
        children = {
            name: descend(below, other.children[name]) if name in other.children else below
            for name, below in self.children.items()
        }
        return FieldSet(self.members - other.members, children)

    def encode(self) -> dict[str, Any]:
        """Return the `fieldsV1` of this set, its keys in Kubernetes' order."""
        encoded: dict[str, Any] = {}
        for element in sorted(self.members | self.children.keys(), key=_order):
            itself: dict[str, Any] = {".": {}} if element in self.members and element in self.children else {}
            encoded[element] = itself | self.below(element).encode()
        return encoded

    @classmethod
    def decode(cls, fields: Any) -> FieldSet:
        """Return the set that a `fieldsV1` stands for, or raise ValueError."""
        return cls._decode(fields, 0)[0]

    @classmethod
    def _decode(cls, fields: Any, depth: int) -> tuple[FieldSet, bool]:
        """Return what lies below, and whether the path itself is a member."""
        if not isinstance(fields, dict) or depth > MAX_DEPTH:
            raise ValueError(f"cannot decode fieldsV1: no object, or deeper than {MAX_DEPTH} levels")
        if not fields:
            return EMPTY, True
        members, children = set(), {}
        for name, inner in fields.items():
            if name == ".":
                continue
            element = _canonical(name)
            if element is None:
                continue
            children[element], is_member = cls._decode(inner, depth + 1)
            if is_member:
                members.add(element)
        found = cls(members, children)
        return found, "." in fields or not found


EMPTY = FieldSet()


def _named(text: str) -> Any:
    """Return what an element names; its depth is that of a text, and no limit of the body applies to it."""
    try:
        value = json.loads(text)
    except RecursionError:
        value = _TOO_DEEP
    if value is _TOO_DEEP or _deeper(value, _DEPTH_MAX):
        raise ValueError(f"cannot decode fieldsV1: nested deeper than {_DEPTH_MAX} levels: {text[:100]!r}")
    return value


def _deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_deeper(each, levels - 1) for each in inner)


def _canonical(element: str) -> str | None:
    """Return an element in our spelling, or nothing for a kind of element that a newer server wrote."""
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return element
    if len(kind) < 2 or kind[1] != ":":
        raise ValueError(f"cannot decode fieldsV1: missing colon: {element[:100]!r}")
    if kind == "i:":
        return f"i:{int(rest)}"
    if kind not in ("k:", "v:"):
        return None
    value = _named(rest)
    if kind == "v:":
        return item(value)
    if isinstance(value, dict):
        return key(value)
    raise ValueError(f"cannot decode fieldsV1: no keys in {element[:100]!r}")
