"""What hears of changes to resources, one watch per kind: part of the table in `plan/stages.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from nodemanager.host.files.file_facts import list_names
from nodemanager.host.process.threads import in_thread
from nodemanager.host.watches import declared, file_change_authors
from nodemanager.host.watches.file_change_authors import FileChangeAuthors
from nodemanager.host.watches.kind_watch import Hearing, KindWatch, NothingToHear, Watches
from nodemanager.host.watches.paths import Interest
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import EXEC, FILE, PACKAGE, SERVICE, ResourceId
from nodemanager.plan.stages import KINDS

if TYPE_CHECKING:
    from nodemanager.host.watches.units import UnitWatch

_RUNLEVELS: Final = "/etc/runlevels"


class PackageWatch(KindWatch):
    """Hears of package managers through changes of their databases."""

    def __init__(self, hearing: Hearing) -> None:
        self._databases = hearing.tools.databases
        self._unheard = False

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """That the package manager names no such files."""
        said = "packages are not watched: their manager does not tell where it keeps its books"
        return (said,) if self._unheard else ()

    def paths(self, desired: Desired) -> Iterator[Interest]:
        """Return the files of its books."""
        return declared.packages(desired, self._databases or ())

    async def follow(self, desired: Desired) -> None:
        """Remember the packages for which no event will come."""
        self._unheard = bool(desired.packages) and self._databases == ()


class FileWatch(KindWatch):
    """Hears of files, and of the processes that change them if the kernel reports these."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        self._authors: FileChangeAuthors | None = None
        self._asked = False
        """Whether the kernel was asked to report who changes files; if it refused, it always will."""

    def paths(self, desired: Desired) -> Iterator[Interest]:
        """Return every declared path, and where the numbers of their owners come from."""
        yield from declared.files(desired)
        yield from declared.owners(desired)

    async def follow(self, desired: Desired) -> None:
        """Remember which processes change these files."""
        if self._hearing.here and not self._asked:
            self._asked, self._authors = True, file_change_authors.watch(self._hearing.tree)
        if (memory := self._authors) is not None:
            declarations = [item.declaration for item in desired.files]
            purged = [one.path for one in declarations if one.purge and one.ensure == "directory"]
            await in_thread(lambda: memory.follow((one.path for one in declarations), purged))

    def who(self, resource: ResourceId) -> str:
        """Return the process that changed a path last."""
        return self._authors.who(resource.name) if self._authors is not None else ""

    def close(self) -> None:
        """Forget it all."""
        if self._authors is not None:
            self._authors.close()
            self._authors = None


class ServiceWatch(KindWatch):
    """Hears of services by signals of systemd, or by the links of OpenRC."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        self._units: dict[str, UnitWatch] = {}
        self._unheard: tuple[str, ...] = ()

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What the service managers do not tell."""
        return (*self._unheard, *(one.shortfall for one in self._units.values() if one.shortfall))

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """The listeners to service managers."""
        return [one.task for one in self._units.values() if one.task is not None]

    def paths(self, desired: Desired) -> Iterator[Interest]:
        """Return the links of OpenRC."""
        if self._hearing.here and self._hearing.tools.services == "OpenRC":
            levels = list_names(self._hearing.tree, _RUNLEVELS) or ()
            self._hearing.tree.forget()
            yield from declared.openrc(desired, [f"{_RUNLEVELS}/{level}" for level in levels])

    async def follow(self, desired: Desired) -> None:
        """Listen to the managers of all declared services, where they have something to say."""
        self._unheard = ()
        wanted: dict[str, dict[str, frozenset[ResourceId]]] = {}
        if self._hearing.here and desired.services:
            if self._hearing.tools.services == "systemd":
                wanted = declared.units(desired)
            else:
                self._unheard = (_unheard(self._hearing.tools.services),)
        for user in wanted.keys() - self._units.keys():
            self._units[user] = self._listener(user)
        for user, one in self._units.items():
            one.follow(wanted.get(user, {}))
            if user not in wanted:
                await self._hearing.follow_paths(f"units of {user}", ())

    def close(self) -> None:
        """Stop listening."""
        for one in self._units.values():
            one.close()
        self._units.clear()

    def _listener(self, user: str) -> UnitWatch:
        from nodemanager.host.watches.units import UnitCallbacks, UnitWatch  # of no use without systemd

        async def files_found(interests: list[Interest]) -> None:
            await self._hearing.follow_paths(f"units of {user}", interests)

        hearing = self._hearing
        return UnitWatch(hearing.tree, user, hearing.inbox, UnitCallbacks(files_found, hearing.broken))


def _unheard(manager: str) -> str:
    if manager == "OpenRC":
        return (
            "of services only what rc-service and rc-update do is heard: OpenRC does not tell of dead daemons"
        )
    return f"services are not watched: {manager or 'this host'} does not tell what becomes of them"


WATCHES: Final[Watches] = KINDS.each(
    "watch in host/watches/by_kind.py",
    {
        PACKAGE: PackageWatch,
        FILE: FileWatch,
        SERVICE: ServiceWatch,
        EXEC: lambda _hearing: NothingToHear(),
    },
)
