"""What a path that is watched is made of: the way to its directory, its end, and the inodes on it.

    Folder    a directory as it is declared; may be behind links, or not exist
    Leaf      an entry of it that somebody wants to know about
    Node      one watched inode: whose way leads through it, and whose end it is

There is a leaf and a node for every file, so what they hold is in tuples, which are mostly of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from nodemanager.host.watches.inbox import NOW, Concern, SettleTime

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Interest:
    """A listener for events at a path."""

    path: str
    concern: Concern
    entries: bool = False
    """Whether it wants to know when entries of the directory come and go."""
    settle: SettleTime = NOW
    wake: asyncio.Event | None = None
    """Set, too, for a caller that waits for just this."""


@dataclass(slots=True, eq=False)
class Leaf:
    """An entry of a directory with a listener."""

    folder: Folder
    name: str
    interests: tuple[tuple[str, Interest], ...] = ()
    watch: int = 0
    short: bool = False
    """Whether it is not watched, because there are no more watches."""


@dataclass(slots=True, eq=False)
class Folder:
    """A directory as it is declared, and the way to it as it was walked last."""

    path: str
    leaves: dict[bytes, Leaf] = field(default_factory=dict)
    steps: set[tuple[int, bytes]] = field(default_factory=set)
    """The watches of all directories on the way, and the entry that leads on from each."""
    guards: set[int] = field(default_factory=set)
    """The watches of links on the way, and of the directories that they are in."""
    here: int = 0
    """The watch of the directory itself; 0 = none."""
    short: bool = False
    """Whether the way is not watched to its end, because there are no more watches."""

    @property
    def lacks(self) -> bool:
        """Whether something here, or on the way, is not watched that could be."""
        return self.short or any(leaf.short for leaf in self.leaves.values())

    @property
    def concerns(self) -> Iterator[Concern]:
        """What everything here is about."""
        return (interest.concern for leaf in self.leaves.values() for _, interest in leaf.interests)


@dataclass(slots=True, eq=False)
class WatchedInode:
    """An inode that is watched."""

    steps: dict[bytes, set[Folder]] | None = None
    """The ways that lead on through an entry of this directory."""
    guards: tuple[Folder, ...] = ()
    """The ways for which owner and mode of this matter: it is a link on them, or a directory with one."""
    folders: tuple[Folder, ...] = ()
    """The ways that end here, whose leaves are entries of this directory."""
    leaves: tuple[Leaf, ...] = ()
    """The leaves that are this inode."""

    @property
    def idle(self) -> bool:
        """Whether it is not needed any more."""
        return not (self.steps or self.guards or self.folders or self.leaves)

    @property
    def ways(self) -> set[Folder]:
        """All ways that lead here, or through here."""
        return set[Folder]().union(self.guards, self.folders, *(self.steps or {}).values())

    def add_step(self, name: bytes, folder: Folder) -> None:
        """Take note that a way leads on through an entry."""
        if self.steps is None:
            self.steps = {}
        self.steps.setdefault(name, set()).add(folder)

    def drop_step(self, name: bytes, folder: Folder) -> None:
        """Take note that a way does so no longer."""
        if self.steps and name in self.steps:
            self.steps[name].discard(folder)
            if not self.steps[name]:
                del self.steps[name]


def with_one(some: tuple[T, ...], one: T) -> tuple[T, ...]:
    """Return a few with one more, unless it is among them."""
    return some if one in some else (*some, one)


def without_one(some: tuple[T, ...], one: T) -> tuple[T, ...]:
    """Return a few without one."""
    return tuple(each for each in some if each != one)
