"""Watches paths with inotify: what is there, what is not there yet, and every directory on the way.

Of a file its inode is watched, for writes and attributes; of the directories above it only that
entries come and go, so that a neighbour which is written all day long costs nothing. A way is walked
exactly as `Tree` walks it when somebody looks, and every directory is watched *before* a name is
looked up in it: whatever changes from then on is an event, and the way is walked once more.

    _Folder    a directory as it is declared; may be behind links, or not exist
    _Leaf      an entry of it that somebody wants to know about
    _Node      one watched inode: whose way leads through it, and whose end it is

There is a leaf and a node for every file, so what they hold is in tuples, which are mostly of one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from nodemanager.host.state_files import PREFIX
from nodemanager.host.tree import Tree, TreeError
from nodemanager.host.watches import inotify
from nodemanager.host.watches.inbox import NOW, Concern, Inbox, Settle
from nodemanager.host.watches.inotify import Event, Inotify
from nodemanager.host.watches.pump import Pump

WRITING: Final = Settle(0.004, 0.004)
"""Who has a file open and writes into it gets a moment to finish."""
AT_A_TIME: Final = 256
"""Paths armed before others get their turn."""
_ENTRIES: Final = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_GONE: Final = inotify.DELETE_SELF | inotify.MOVE_SELF
_FOLDER: Final = _ENTRIES | _GONE
_FILE: Final = inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE | _GONE
_LOST: Final = _GONE | inotify.IGNORED | inotify.UNMOUNT
_LIMITS: Final = (errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO)
_OURS: Final = PREFIX.encode()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Interest:
    """Somebody wants to know when something happens at a path."""

    path: str
    concern: Concern
    entries: bool = False
    """Also when entries of the directory come and go."""
    settle: Settle = NOW
    wake: asyncio.Event | None = None
    """Set, too, for somebody who waits for just this."""


@dataclass(slots=True, eq=False)
class _Leaf:
    folder: _Folder
    name: str
    interests: tuple[tuple[str, Interest], ...] = ()
    watch: int = 0
    short: bool = False
    """It is not watched, because no more watches are to be had."""


@dataclass(slots=True, eq=False)
class _Folder:
    path: str
    leaves: dict[bytes, _Leaf] = field(default_factory=dict)
    steps: set[tuple[int, bytes]] = field(default_factory=set)
    guards: set[int] = field(default_factory=set)
    here: int = 0
    short: bool = False

    @property
    def lacks(self) -> bool:
        """Whether something here, or on the way, is not watched that could be."""
        return self.short or any(leaf.short for leaf in self.leaves.values())

    @property
    def concerns(self) -> Iterator[Concern]:
        """What everything here is about."""
        return (interest.concern for leaf in self.leaves.values() for _, interest in leaf.interests)


@dataclass(slots=True, eq=False)
class _Node:
    steps: dict[bytes, set[_Folder]] | None = None
    """The ways that lead on through an entry of this directory."""
    guards: tuple[_Folder, ...] = ()
    """The ways on which it matters whose this is, and who may write into it: a link, or with a link in it."""
    folders: tuple[_Folder, ...] = ()
    """The ways that end here, whose leaves are entries of this directory."""
    leaves: tuple[_Leaf, ...] = ()
    """The leaves that are this inode."""

    @property
    def idle(self) -> bool:
        return not (self.steps or self.guards or self.folders or self.leaves)

    @property
    def ways(self) -> set[_Folder]:
        """All ways that lead here, or through here."""
        return set[_Folder]().union(self.guards, self.folders, *(self.steps or {}).values())

    def add_step(self, name: bytes, folder: _Folder) -> None:
        if self.steps is None:
            self.steps = {}
        self.steps.setdefault(name, set()).add(folder)

    def drop_step(self, name: bytes, folder: _Folder) -> None:
        if self.steps and name in self.steps:
            self.steps[name].discard(folder)
            if not self.steps[name]:
                del self.steps[name]


class PathWatch:
    """All paths that are watched on a host; they come in groups, each of which is replaced as a whole."""

    def __init__(self, tree: Tree, inbox: Inbox) -> None:
        self._tree = tree
        self._inbox = inbox
        self._kernel = Inotify()
        self._pump = Pump(self._kernel.descriptor, self._drain)
        self._groups: dict[str, frozenset[Interest]] = {}
        self._folders: dict[str, _Folder] = {}
        self._nodes: dict[int, _Node] = {}
        self._unarmed: dict[_Folder, set[Concern]] = {}
        """What is to be watched, and whom to tell then."""
        self._stale: set[_Folder] = set()
        self._loose: set[_Leaf] = set()
        self._enters_all = os.geteuid() == 0
        """Root may enter every directory; others only while its attributes allow it."""
        self._mask = _FOLDER if self._enters_all else _FOLDER | inotify.ATTRIB

    def close(self) -> None:
        """Watch nothing any more."""
        self._pump.close()
        self._kernel.close()

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What is not watched, and what to do about it."""
        leaves = [leaf for folder in self._folders.values() for leaf in folder.leaves.values()]
        short = sum(leaf.short or leaf.folder.short for leaf in leaves)
        if not short:
            return ()
        said = (
            f"{short} of {len(leaves)} paths are not watched: no more inotify watches, or open files, are to"
        )
        return (f"{said} be had; raise sysctl fs.inotify.max_user_watches",)

    async def follow(self, group: str, interests: Iterable[Interest]) -> None:
        """Watch exactly these for a group; what is new is told of once, as it may have changed meanwhile."""
        wanted = frozenset(interests)
        known = self._groups.get(group, frozenset())
        self._groups[group] = wanted
        for interest in known - wanted:
            self._drop(group, interest)
        for folder in self._folders.values():
            if folder.lacks:
                self._unarmed.setdefault(folder, set())
        for interest in wanted - known:
            self._unarmed.setdefault(self._leaf(interest, group).folder, set()).add(interest.concern)
        await self._arm_new()

    async def _arm_new(self) -> None:
        """Begin to watch; whoever is cancelled here leaves the rest to the next one."""
        done = 0
        while self._unarmed:
            folder, concerns = self._unarmed.popitem()
            if self._folders.get(folder.path) is folder:
                lacked = folder.lacks
                self._arm(folder)
                if lacked and not folder.lacks:  # until now, it may have changed unheard
                    concerns.update(folder.concerns)
            for concern in concerns:
                self._inbox.add(concern)
            done += len(folder.leaves)
            if done > AT_A_TIME:
                await asyncio.sleep(0)
                done = 0

    def _leaf(self, interest: Interest, group: str) -> _Leaf:
        above, name = _split(interest.path)
        folder = self._folders.setdefault(above, _Folder(above))
        leaf = folder.leaves.setdefault(os.fsencode(name), _Leaf(folder, name))
        leaf.interests = _with(leaf.interests, (group, interest))
        return leaf

    def _drop(self, group: str, interest: Interest) -> None:
        above, name = _split(interest.path)
        folder = self._folders[above]
        leaf = folder.leaves[os.fsencode(name)]
        leaf.interests = _without(leaf.interests, (group, interest))
        if not leaf.interests:
            self._release_leaf(leaf)
            del folder.leaves[os.fsencode(name)]
        if not folder.leaves:
            del self._folders[above]
            self._release_way(folder, folder.steps, folder.guards, folder.here)

    # ------------------------------------------------------------------ what happened

    def _drain(self) -> None:
        for event in self._kernel.read():
            if event.mask & inotify.OVERFLOW:
                self._inbox.add_everything()
                self._stale.update(self._folders.values())
            elif (node := self._nodes.get(event.watch)) is not None:
                if event.name:
                    self._happened_in(node, event)
                else:
                    self._happened_to(node, event)
        self._catch_up()

    def _happened_in(self, node: _Node, event: Event) -> None:
        """An entry of a directory came or went; what happens to it otherwise, its own watch tells."""
        if not event.mask & _ENTRIES:
            return
        if node.steps:
            self._stale.update(node.steps.get(event.name, ()))
        for folder in node.folders:
            if (leaf := folder.leaves.get(event.name)) is not None:
                self._loose.add(leaf)
        if node.leaves and not event.name.startswith(_OURS):
            for leaf in node.leaves:
                for _, interest in leaf.interests:
                    if interest.entries:
                        self._inbox.add(interest.concern, interest.settle)

    def _happened_to(self, node: _Node, event: Event) -> None:
        """Something happened to a watched inode itself."""
        if event.mask & _LOST:
            if event.mask & inotify.IGNORED:
                del self._nodes[event.watch]
            self._stale |= node.ways
            self._loose.update(node.leaves)
            return
        if event.mask & inotify.ATTRIB:
            self._stale.update(node.guards if self._enters_all else node.ways)
        for leaf in node.leaves:
            self._touch(leaf, WRITING if event.mask & inotify.MODIFY else NOW)

    def _catch_up(self) -> None:
        """Walk the ways once more that are no longer what they were, and tell whoever is at their ends."""
        stale, self._stale = self._stale, set()
        loose, self._loose = self._loose, set()
        for folder in stale:
            if self._folders.get(folder.path) is folder:
                self._arm(folder)
                loose.update(folder.leaves.values())
        by_folder: dict[_Folder, list[_Leaf]] = {}
        for leaf in loose:
            by_folder.setdefault(leaf.folder, []).append(leaf)
            self._touch(leaf, NOW)
        for folder in by_folder.keys() - stale:
            self._arm_again(folder, by_folder[folder])

    def _arm_again(self, folder: _Folder, leaves: Iterable[_Leaf]) -> None:
        """Watch what is new in a directory; the way to it is watched, and if it is another, we will hear."""
        try:
            opened = self._tree.walk(folder.path)
        except OSError as error:
            folder.short = folder.short or _is_limit(error)
            return
        try:
            for leaf in leaves:
                if leaf.interests:
                    self._arm_leaf(leaf, opened)
        finally:
            os.close(opened)

    def _touch(self, leaf: _Leaf, settle: Settle) -> None:
        for _, interest in leaf.interests:
            self._inbox.add(interest.concern, interest.settle if interest.settle.quiet else settle)
            if interest.wake is not None:
                interest.wake.set()

    # ------------------------------------------------------------------ watching

    def _arm(self, folder: _Folder) -> None:
        """Walk to a directory, watch all of the way, and then what is at its end."""
        before = folder.steps, folder.guards, folder.here
        folder.steps, folder.guards, folder.here, folder.short = set(), set(), 0, False

        def passing(above: int, name: str, guarded: bool) -> None:
            key = os.fsencode(name)
            watch = self._kernel.add(above, "", self._mask | (inotify.ATTRIB if guarded else 0))
            self._node(watch).add_step(key, folder)
            folder.steps.add((watch, key))
            if guarded:  # whose the link is matters, and who may write into its directory
                link = self._kernel.add(above, name, inotify.ATTRIB)
                for one in (watch, link):
                    node = self._node(one)
                    node.guards = _with(node.guards, folder)
                    folder.guards.add(one)

        try:
            opened = self._tree.walk(folder.path, passing)
        except OSError as error:  # not there, or in the way: its nearest ancestor is watched
            folder.short = _is_limit(error)
            for leaf in folder.leaves.values():
                self._release_leaf(leaf)
        else:
            try:
                self._arm_leaves(folder, opened)
            finally:
                os.close(opened)
        steps, guards, here = before
        self._release_way(
            folder, steps - folder.steps, guards - folder.guards, here if here != folder.here else 0
        )

    def _arm_leaves(self, folder: _Folder, opened: int) -> None:
        try:
            folder.here = self._kernel.add(opened, "", self._mask)
        except OSError as error:
            folder.short = _is_limit(error)
        else:
            node = self._node(folder.here)
            node.folders = _with(node.folders, folder)
        for leaf in folder.leaves.values():
            self._arm_leaf(leaf, opened)

    def _arm_leaf(self, leaf: _Leaf, opened: int) -> None:
        watch, leaf.short = 0, False
        try:
            mode = os.stat(leaf.name, dir_fd=opened, follow_symlinks=False).st_mode
            mask = self._mask | inotify.ATTRIB if stat.S_ISDIR(mode) else _FILE
            watch = self._kernel.add(opened, leaf.name, mask)
        except OSError as error:
            leaf.short = _is_limit(error)
        if watch != leaf.watch:
            self._release_leaf(leaf)
        if watch:
            leaf.watch = watch
            node = self._node(watch)
            node.leaves = _with(node.leaves, leaf)

    def _node(self, watch: int) -> _Node:
        return self._nodes.setdefault(watch, _Node())

    def _release_leaf(self, leaf: _Leaf) -> None:
        watch, leaf.watch = leaf.watch, 0
        if (node := self._nodes.get(watch)) is not None:
            node.leaves = _without(node.leaves, leaf)
            self._release(watch, node)

    def _release_way(
        self, folder: _Folder, steps: set[tuple[int, bytes]], guards: set[int], here: int
    ) -> None:
        for watch, name in steps:
            if (node := self._nodes.get(watch)) is not None:
                node.drop_step(name, folder)
        for watch in guards:
            if (node := self._nodes.get(watch)) is not None:
                node.guards = _without(node.guards, folder)
        if (node := self._nodes.get(here)) is not None:
            node.folders = _without(node.folders, folder)
        for watch in {here, *guards, *(watch for watch, _ in steps)}:
            if (node := self._nodes.get(watch)) is not None:
                self._release(watch, node)

    def _release(self, watch: int, node: _Node) -> None:
        if node.idle:
            del self._nodes[watch]
            self._kernel.remove(watch)


def _with(some: tuple[T, ...], one: T) -> tuple[T, ...]:
    return some if one in some else (*some, one)


def _without(some: tuple[T, ...], one: T) -> tuple[T, ...]:
    return tuple(each for each in some if each != one)


def _split(path: str) -> tuple[str, str]:
    """Return the directory of a path and its entry; the root is its own."""
    above, _, name = path.rstrip("/").rpartition("/")
    return above or "/", name or "."


def _is_limit(error: OSError) -> bool:
    """Tell whether something may be there, and cannot be watched now; what is missing is watched for."""
    cause = error.__cause__ if isinstance(error, TreeError) else error
    return isinstance(cause, OSError) and cause.errno in _LIMITS
