"""Everything on a host that can tell by itself that it changed, as one part of the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from nodemanager.host.base import HostError, NotSupported, PackageManager, ServiceManager
from nodemanager.host.files.file_facts import list_names
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.threads import in_thread
from nodemanager.host.watches import culprits, declared
from nodemanager.host.watches.culprits import Culprits
from nodemanager.host.watches.inbox import Inbox, Touched
from nodemanager.host.watches.links import LinkWatch
from nodemanager.host.watches.paths import Interest, PathWatch
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import FILE, ResourceId

if TYPE_CHECKING:
    from nodemanager.host.watches.units import UnitWatch

_RUNLEVELS: Final = "/etc/runlevels"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which tools a host has, by name; empty = none that we know."""

    packages: str = ""
    services: str = ""


def watch(tree: Tree, packages: PackageManager | None, services: ServiceManager | None) -> HostWatch:
    """Return the watch of a host, which begins with `follow`; of another root, only files are watched."""
    kinds = Kinds(packages.name if packages else "", services.name if services else "")
    return HostWatch(Tree(tree.root), kinds)  # a tree of its own: it is walked while others walk theirs


class HostWatch:
    """Hears of changes to what is declared; for one reader."""

    name = "host watch"

    def __init__(self, tree: Tree, kinds: Kinds) -> None:
        self._tree = tree
        self._kinds = kinds
        self._here = tree.root == "/"
        self._inbox = Inbox()
        self._paths: PathWatch | None = None
        self._links: LinkWatch | None = None
        self._culprits: Culprits | None = None
        self._units: dict[str, UnitWatch] = {}
        self._failures: dict[str, str] = {}
        self._passing: set[str] = set()
        """Those of the failures that may be gone the next time."""
        self._broken = asyncio.Event()
        self._asked = False
        """Whether the kernel was asked to tell who changes files; if it does not, it never will."""

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What is not watched, why, and what to do about it; the period covers that."""
        own = self._paths.shortfalls if self._paths else ()
        units = (one.shortfall for one in self._units.values() if one.shortfall)
        return (*self._failures.values(), *own, *units)

    @property
    def lacking(self) -> bool:
        """Whether something is not watched for want of what others may give back, such as inotify watches.

        Not so of services: their watches come back by themselves, or there is nobody to ask.
        """
        return bool(self._passing) or (self._paths is not None and bool(self._paths.shortfalls))

    async def follow(self, desired: Desired) -> None:
        """Watch exactly what is declared; what is new is told of once."""
        self._open()
        if self._paths is not None:
            await self._paths.follow("declared", self._interests(desired))
        if (memory := self._culprits) is not None:
            declarations = [item.declaration for item in desired.files]
            purged = [one.path for one in declarations if one.purge and one.ensure == "directory"]
            await in_thread(lambda: memory.follow((one.path for one in declarations), purged))
        await self._follow_services(desired)

    async def touched(self) -> Touched:
        """Wait until something is touched, and return all that was since the last time."""
        return await self._inbox.take()

    def who(self, resource: ResourceId) -> str:
        """Return who changed something last; empty where the host does not tell."""
        if self._culprits is None or resource.kind != FILE:
            return ""
        return self._culprits.who(resource.name)

    async def run(self) -> None:
        """Be there until cancelled; the events come by themselves."""
        try:
            await self._broken.wait()
            for one in self._units.values():
                if one.task is not None and one.task.done():
                    one.task.result()
        finally:
            tasks = [one.task for one in self._units.values() if one.task is not None]
            self.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Watch nothing any more, and give back what is held open."""
        self._inbox.close()
        for one in self._units.values():
            one.close()
        self._units.clear()
        if self._paths is not None:
            self._paths.close()
            self._paths = None
        if self._links is not None:
            self._links.close()
            self._links = None
        if self._culprits is not None:
            self._culprits.close()
            self._culprits = None
        self._tree.close()

    async def _follow_services(self, desired: Desired) -> None:
        """Listen to the managers of all declared services, where they have something to say."""
        self._failures.pop("services", None)
        if not self._here or not desired.services:
            wanted: dict[str, dict[str, frozenset[ResourceId]]] = {}
        elif self._kinds.services == "systemd":
            wanted = declared.units(desired)
        else:
            wanted = {}
            self._failures["services"] = _unheard(self._kinds.services)
        for user in wanted.keys() - self._units.keys():
            self._units[user] = self._listener(user)
        for user, one in self._units.items():
            one.follow(wanted.get(user, {}))
            if user not in wanted and self._paths is not None:
                await self._paths.follow(f"units of {user}", ())

    def _listener(self, user: str) -> UnitWatch:
        from nodemanager.host.watches.units import Ears, UnitWatch  # of no use without systemd

        async def files_found(interests: list[Interest]) -> None:
            if self._paths is not None:
                await self._paths.follow(f"units of {user}", interests)

        return UnitWatch(self._tree, user, self._inbox, Ears(files_found, self._ended))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():  # it never ends by itself, except for a bug, which `run` shall raise
            self._broken.set()

    def _open(self) -> None:
        if self._paths is None:
            self._paths = self._opened("files", lambda: PathWatch(self._tree, self._inbox))
        if self._here and not self._asked:
            self._asked, self._culprits = True, culprits.watch(self._tree)
        if self._here and self._links is None:
            self._links = self._opened("links", lambda: LinkWatch(self._inbox))

    def _opened(self, what: str, make: Callable[[], T]) -> T | None:
        """Return a watch, or take note of why there is none."""
        self._failures.pop(what, None)
        self._passing.discard(what)
        try:
            return make()
        except HostError as error:
            self._failures[what] = str(error)
            if not isinstance(error, NotSupported):
                self._passing.add(what)
            return None

    def _interests(self, desired: Desired) -> Iterator[Interest]:
        yield from declared.files(desired)
        yield from declared.owners(desired)
        yield from declared.packages(desired, _databases(self._kinds.packages))
        yield from declared.sight()
        if self._here and self._kinds.services == "OpenRC":
            levels = list_names(self._tree, _RUNLEVELS) or ()
            self._tree.forget()
            yield from declared.openrc(desired, [f"{_RUNLEVELS}/{level}" for level in levels])


def _databases(kind: str) -> tuple[str, ...]:
    """Return where a package manager keeps its books; pkg is at home where there is no inotify."""
    match kind:
        case "apt":
            from nodemanager.host.packages import apt  # here and below: loaded already where it is used

            return (apt.STATUS,)
        case "dnf":
            from nodemanager.host.packages import dnf

            return dnf.DATABASES
        case "pacman":
            from nodemanager.host.packages import pacman

            return (pacman.LOCAL,)
        case "apk":
            from nodemanager.host.packages import apk

            return apk.DATABASES
        case _:
            return ()


def _unheard(kind: str) -> str:
    if kind == "OpenRC":
        return (
            "of services only what rc-service and rc-update do is heard: OpenRC does not tell of dead daemons"
        )
    return f"services are not watched: {kind or 'this host'} does not tell what becomes of them"
