"""What the watch of a kind is, and what it works with; `host/watches/by_kind.py` has the table of all."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nodemanager.host.files.tree import Tree
from nodemanager.host.watches.inbox import Inbox
from nodemanager.host.watches.paths import Interest
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId


@dataclass(frozen=True, slots=True)
class WatchedTools:
    """The facts about the tools of a host that are needed to hear of their work."""

    databases: tuple[str, ...] | None = None
    """The database of the package manager; None = there is no package manager that we know."""
    services: str = ""
    """The name of the service manager; empty = none that we know."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """What the watch of a kind works with."""

    tree: Tree
    tools: WatchedTools
    inbox: Inbox
    """Receives what was touched."""
    follow_paths: Callable[[str, Iterable[Interest]], Awaitable[None]]
    """Watches exactly these paths for a group of this name, besides those that `KindWatch.paths` returns."""
    broken: Callable[[asyncio.Task[None]], None]
    """Called at the end of a task that should not end by itself."""

    @property
    def here(self) -> bool:
        """Whether the host is this machine, and not an image or a folder."""
        return self.tree.root == "/"


class KindWatch(ABC):
    """Hears of changes to the resources of one kind."""

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What is not watched, why, and what to do about it; of paths, others say that."""
        return ()

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """What runs until it is closed."""
        return ()

    @abstractmethod
    def paths(self, desired: Desired) -> Iterator[Interest]:
        """Return the paths that change when a declared resource does."""

    async def follow(self, desired: Desired) -> None:
        """Listen to whatever else tells of what is declared."""
        del desired

    def who(self, resource: ResourceId) -> str:
        """Return the process that changed a resource last; empty if the host cannot tell."""
        del resource
        return ""

    def close(self) -> None:
        """Listen no more."""
        return


class NothingToHear(KindWatch):
    """The watch of a kind without a lasting state, which cannot be changed."""

    def paths(self, desired: Desired) -> Iterator[Interest]:
        """Return no path."""
        del desired
        return iter(())


Watches = Mapping[str, Callable[[Hearing], KindWatch]]
"""What makes the watch of each kind."""
