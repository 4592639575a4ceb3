"""A part of what a host shall be: what is touched, and what hangs on it; planned as in the whole.

    file       what is declared above of it (it needs that), and everything declared below of it
    unit file  the services of its name: the service manager has to read it again
    passwd     files whose owner or group has a name
    service, package, execution: only itself

Who subscribes to a file is not in here: a file that is put back owes its subscribers a restart through
the journal, as in any pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec

from nodemanager.api.common.declarations import File, Service
from nodemanager.plan import files, resources
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.resources import ResourceId

T = TypeVar("T")
ACCOUNTS: Final = frozenset(map(resources.file_id, ("/etc/passwd", "/etc/group")))
"""Where the numbers of named owners come from."""
_UNIT_FOLDERS: Final = ("/systemd/system/", "/systemd/user/")
_NOTHING: Final = frozenset[ResourceId]()


@dataclass(frozen=True, slots=True)
class Focus:
    """Some resources of a host, and what their plan has to know of all others."""

    desired: Desired
    """The resources that are looked at; everything in conflict is in it, too."""
    lens: Lens

    @property
    def layout(self) -> files.Layout:
        """What each file has to know of all others."""
        return self.lens.layout

    @property
    def ids(self) -> frozenset[ResourceId]:
        """Everything that is looked at."""
        wanted = self.desired
        groups = (wanted.packages, wanted.files, wanted.services, wanted.executions)
        return frozenset(item.id for group in groups for item in group)


class Lens:
    """Narrows one Desired again and again; what that takes is worked out once."""

    def __init__(self, desired: Desired) -> None:
        self.desired = desired
        self.layout = files.layout(desired)
        self._places = {item.id: place for place, item in enumerate(desired.files)}
        by_name = sorted((_key(item.id.name), place) for place, item in enumerate(desired.files))
        self._names = [name for name, _ in by_name]
        self._ordered = [place for _, place in by_name]
        self._packages = {item.id: item for item in desired.packages}
        self._services = {item.id: item for item in desired.services}
        self._executions = {item.id: item for item in desired.executions}
        self._named = tuple(item.id for item in desired.files if _has_named_owner(item.declaration))
        self._units: dict[str, list[ResourceId]] = {}
        for item in desired.services:
            self._units.setdefault(_unit(item.declaration), []).append(item.id)

    def narrow(self, touched: Iterable[ResourceId], without: AbstractSet[ResourceId] = _NOTHING) -> Focus:
        """Return these resources with what hangs on them, except for those that have to wait."""
        wanted = dict.fromkeys(touched)
        if not ACCOUNTS.isdisjoint(wanted):
            wanted.update(dict.fromkeys(self._named))
        above: set[int] = set()
        below: set[int] = set()
        services = [one for one in wanted if one in self._services]
        for one in wanted:
            if one.kind == resources.FILE:
                above.update(self._above(one.name))
                below.update(self._below(one.name))
                services += self._units_of(one.name)
        chosen = [
            self.desired.files[place] if place in below else _not_purged(self.desired.files[place])
            for place in sorted(above | below)
        ]
        return Focus(
            Desired(
                packages=_chosen(self._packages, wanted, without),
                files=tuple(item for item in chosen if item.id not in without),
                services=_chosen(self._services, services, without),
                executions=_chosen(self._executions, wanted, without),
                conflicts=self.desired.conflicts,
                held=self.desired.held,
            ),
            self,
        )

    def owed(self, ids: AbstractSet[ResourceId]) -> Desired:
        """Return those of these that are services and executions, in the order of their declaration."""
        wanted = self.desired
        return Desired(
            services=tuple(item for item in wanted.services if item.id in ids),
            executions=tuple(item for item in wanted.executions if item.id in ids),
            held=wanted.held,
        )

    def keeper(self, resource: ResourceId) -> ResourceId:
        """Return the resource that a result is about: of an entry that was purged, the directory."""
        if resource.kind != resources.FILE or resource in self._places:
            return resource
        return resources.file_id(resource.name.rpartition("/")[0] or "/")

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

    def _units_of(self, path: str) -> list[ResourceId]:
        """Return the services that a file of a service manager is about: a unit, or a drop-in of one."""
        rest = next((path.partition(one)[2] for one in _UNIT_FOLDERS if one in path), "")
        return self._units.get(rest.partition("/")[0].removesuffix(".d"), []) if rest else []


def narrow(desired: Desired, touched: Iterable[ResourceId]) -> Focus:
    """Return the part of a Desired that is about these resources and what hangs on them."""
    return Lens(desired).narrow(touched)


def _chosen(
    known: Mapping[ResourceId, T], wanted: Iterable[ResourceId], without: AbstractSet[ResourceId]
) -> tuple[T, ...]:
    asked = set(wanted) - without
    return tuple(item for one, item in known.items() if one in asked) if asked else ()


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


def _unit(service: Service) -> str:
    return service.name if "." in service.name else f"{service.name}.service"
