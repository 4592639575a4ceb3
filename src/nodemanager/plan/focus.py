"""A part of the wanted state: touched resources and those that depend on them, planned as in the whole.

    file       what is declared above it (it needs that), and everything declared below it
    unit file  the services of its name: the service manager has to read it again (`naming` of their kind)
    passwd     files whose owner or group has a name
    any other kind: only itself

Subscribers of a file are not included: a restored file causes the restart of its subscribers through
the journal, as in any pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from nodemanager.api.common.declarations import File
from nodemanager.plan import resources
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.host_kinds import Naming
from nodemanager.plan.layout import Layout, layout
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.stages import KINDS, HostKinds

T = TypeVar("T")
ACCOUNTS: Final = frozenset(map(resources.file_id, ("/etc/passwd", "/etc/group")))
"""Where the numbers of named owners come from."""
_NOTHING: Final = frozenset[ResourceId]()


@dataclass(frozen=True, slots=True)
class Focus:
    """Some resources of a host, and what their plan has to know of all others."""

    desired: Desired
    """The resources that are looked at; everything in conflict is in it, too."""
    lens: Lens

    @property
    def layout(self) -> Layout:
        """What each file has to know of all others."""
        return self.lens.layout

    @property
    def ids(self) -> frozenset[ResourceId]:
        """Everything that is looked at."""
        return frozenset(item.id for items in self.desired.items.values() for item in items)


class Lens:
    """Narrows one Desired again and again; what that takes is worked out once."""

    def __init__(self, desired: Desired, kinds: HostKinds = KINDS) -> None:
        self.desired = desired
        self.layout = layout(desired)
        self._owed = [kind.name for kind in kinds.owed]
        self._places = {item.id: place for place, item in enumerate(desired.files)}
        by_name = sorted((_key(item.id.name), place) for place, item in enumerate(desired.files))
        self._names = [name for name, _ in by_name]
        self._ordered = [place for _, place in by_name]
        self._others = {
            kind: {item.id: item for item in items}
            for kind, items in desired.items.items()
            if kind != resources.FILE
        }
        self._named = tuple(item.id for item in desired.files if _has_named_owner(item.declaration))
        self._naming = [
            (kind.naming.of_path, _by_name(kind.naming, desired.items.get(kind.name, ())))
            for kind in kinds
            if kind.naming is not None
        ]

    def narrow(self, touched: Iterable[ResourceId], without: AbstractSet[ResourceId] = _NOTHING) -> Focus:
        """Return these resources with what hangs on them, except for those that have to wait."""
        wanted = dict.fromkeys(touched)
        if not ACCOUNTS.isdisjoint(wanted):
            wanted.update(dict.fromkeys(self._named))
        above: set[int] = set()
        below: set[int] = set()
        named: list[ResourceId] = []
        for one in wanted:
            if one.kind == resources.FILE:
                above.update(self._above(one.name))
                below.update(self._below(one.name))
                named += self._named_by(one.name)
        asked = (wanted.keys() | set(named)) - without
        narrowed: dict[str, tuple[Item[Any], ...]] = {}
        for kind in self.desired.items:
            if kind == resources.FILE:
                narrowed[kind] = self._files(above | below, below, without)
            else:
                narrowed[kind] = _chosen(self._others[kind], asked)
        return Focus(Desired(narrowed, self.desired.conflicts, self.desired.held, self.desired), self)

    def _files(
        self, places: AbstractSet[int], below: AbstractSet[int], without: AbstractSet[ResourceId]
    ) -> tuple[Item[File], ...]:
        """Return the files at these places; a directory above what was touched only has to be there."""
        chosen = [
            self.desired.files[place] if place in below else _not_purged(self.desired.files[place])
            for place in sorted(places)
        ]
        return tuple(item for item in chosen if item.id not in without)

    def owed(self, ids: AbstractSet[ResourceId]) -> Desired:
        """Return those of these that can be owed a restart or a run, in the order of their declaration."""
        return Desired(
            {kind: _chosen(self._others.get(kind, {}), ids) for kind in self._owed},
            held=self.desired.held,
            whole=self.desired,
        )

    def _above(self, name: str) -> Iterator[int]:
        """Yield where in the list of files the directories are that a path is in."""
        while name != "/":
            name = name.rpartition("/")[0] or "/"
            if (place := self._places.get(ResourceId(resources.FILE, name))) is not None:
                yield place

    def _below(self, name: str) -> Iterator[int]:
        """Yield where in the list of files a path is, and everything in it."""
        folder = _key(name)
        at = bisect_left(self._names, folder)
        while at < len(self._names) and self._names[at].startswith(folder):
            yield self._ordered[at]
            at += 1

    def _named_by(self, path: str) -> Iterator[ResourceId]:
        """Yield what a file is about that does not declare it: the services of a unit file."""
        for of_path, by_name in self._naming:
            if by_name and (name := of_path(path)):
                yield from by_name.get(name, ())


def _by_name(naming: Naming[Any], items: Iterable[Item[Any]]) -> dict[str, list[ResourceId]]:
    found: dict[str, list[ResourceId]] = {}
    for item in items:
        found.setdefault(naming.name(item.declaration), []).append(item.id)
    return found


def _chosen(known: Mapping[ResourceId, T], asked: AbstractSet[ResourceId]) -> tuple[T, ...]:
    if known.keys().isdisjoint(asked):
        return ()
    return tuple(item for one, item in known.items() if one in asked)


def _not_purged(item: Item[File]) -> Item[File]:
    """Return a directory that only has to be there: nothing was touched in it but what is declared."""
    if not item.declaration.purge:
        return item
    return replace(item, declaration=msgspec.structs.replace(item.declaration, purge=False))


def _key(name: str) -> str:
    """Return what begins with the key of a directory for everything in it, and sorts right behind it.

    No name has a NUL in it, and it comes before every character that one has.
    """
    return name.rstrip("/").replace("/", "\0") + "\0"


def _has_named_owner(file: File) -> bool:
    return any(name and not name.isdecimal() for name in (file.owner, file.group))
