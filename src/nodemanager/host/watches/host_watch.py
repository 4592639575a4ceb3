"""Everything on a host that can tell by itself that it changed, as one part of the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from nodemanager.host.base import HostError, NotSupported, PackageManager, ServiceManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.watches import declared
from nodemanager.host.watches.by_kind import WATCHES
from nodemanager.host.watches.inbox import Inbox, Touched
from nodemanager.host.watches.kind_watch import Hearing, WatchedTools, Watches
from nodemanager.host.watches.links import LinkWatch
from nodemanager.host.watches.paths import Interest, PathWatch
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId

T = TypeVar("T")


def watch(tree: Tree, packages: PackageManager | None, services: ServiceManager | None) -> HostWatch:
    """Return the watch of a host, which begins with `follow`; of another root, only files are watched."""
    tools = WatchedTools(packages.databases if packages else None, services.name if services else "")
    return HostWatch(Tree(tree.root), tools)  # a tree of its own: it is walked while others walk theirs


class HostWatch:
    """Hears of changes to declared resources; for one reader."""

    name = "host watch"

    def __init__(self, tree: Tree, tools: WatchedTools, watches: Watches = WATCHES) -> None:
        self._tree = tree
        self._inbox = Inbox()
        hearing = Hearing(tree, tools, self._inbox, self._follow_paths, self._ended)
        self._here = hearing.here
        self._kinds = {kind: made(hearing) for kind, made in watches.items()}
        self._paths: PathWatch | None = None
        self._links: LinkWatch | None = None
        self._failures: dict[str, str] = {}
        self._passing: set[str] = set()
        """Failures that may be gone the next time."""
        self._broken = asyncio.Event()
        self._closed = False

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What is not watched, why, and what to do about it; the period covers that."""
        own = self._paths.shortfalls if self._paths else ()
        kinds = (said for one in self._kinds.values() for said in one.shortfalls)
        return (*self._failures.values(), *own, *kinds)

    @property
    def lacking(self) -> bool:
        """Whether a resource is not watched for want of what others may release, such as inotify watches.

        Services do not count: their watches come back by themselves, or there is no source of events.
        """
        return bool(self._passing) or (self._paths is not None and bool(self._paths.shortfalls))

    async def follow(self, desired: Desired) -> None:
        """Watch exactly what is declared; new resources are reported once."""
        if self._closed:  # a pass may end later than we do, and its new watches would never be closed
            return
        self._open()
        await self._follow_paths("declared", self._interests(desired))
        for one in self._kinds.values():
            await one.follow(desired)

    async def touched(self) -> Touched:
        """Wait until something is touched, and return all that was since the last time."""
        return await self._inbox.take()

    def forget(self) -> None:
        """Forget which resources were touched until now: all of them are about to be looked at."""
        self._inbox.forget()

    def who(self, resource: ResourceId) -> str:
        """Return the process that changed a resource last; empty if the host cannot tell."""
        return self._kinds[resource.kind].who(resource)

    async def run(self) -> None:
        """Be there until cancelled; the events come by themselves."""
        try:
            await self._broken.wait()
            for task in self._tasks():
                if task.done():
                    task.result()
        finally:
            tasks = self._tasks()
            self.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Watch nothing any more, and give back what is held open."""
        self._closed = True
        self._inbox.close()
        for one in self._kinds.values():
            one.close()
        if self._paths is not None:
            self._paths.close()
            self._paths = None
        if self._links is not None:
            self._links.close()
            self._links = None
        self._tree.close()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for one in self._kinds.values() for task in one.tasks]

    async def _follow_paths(self, group: str, interests: Iterable[Interest]) -> None:
        if self._paths is not None:
            await self._paths.follow(group, interests)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():  # it never ends by itself, except for a bug, which `run` shall raise
            self._broken.set()

    def _open(self) -> None:
        if self._paths is None:
            self._paths = self._opened("files", lambda: PathWatch(self._tree, self._inbox))
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
        for one in self._kinds.values():
            yield from one.paths(desired)
        yield from declared.inventory()
