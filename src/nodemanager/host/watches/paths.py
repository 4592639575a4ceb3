"""Watches paths with inotify: what is there, what is not there yet, and every directory on the way.

A file is watched by its inode, for writes and attributes. The directories above it are watched only
for entries that come and go, so a neighbouring file that is written all day long costs nothing.

    Interest --PathWatch--> ways and their ends --Inodes--> inotify --PathWatch--> Inbox
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Final

from nodemanager.host.files.private import PREFIX
from nodemanager.host.files.tree import Tree
from nodemanager.host.watches import inotify
from nodemanager.host.watches.event_reader import EventReader
from nodemanager.host.watches.inbox import NOW, Concern, Inbox, SettleTime
from nodemanager.host.watches.inodes import ENTRIES, GONE, Inodes
from nodemanager.host.watches.inotify import Inotify, InotifyEvent
from nodemanager.host.watches.watched_paths import Folder, Interest, Leaf, WatchedInode, with_one, without_one
from nodemanager.kube.wording import plural

__all__ = ["Interest", "PathWatch"]
WRITING: Final = SettleTime(0.004, 0.004)
"""A program that writes into an open file gets a moment to finish."""
AT_A_TIME: Final = 256
"""How many paths are armed before others get their turn."""
_LOST: Final = GONE | inotify.IGNORED | inotify.UNMOUNT
_OURS: Final = PREFIX.encode()


class PathWatch:
    """All paths that are watched on a host; they come in groups, each of which is replaced as a whole."""

    def __init__(self, tree: Tree, inbox: Inbox) -> None:
        self._inbox = inbox
        self._kernel = Inotify()
        self._inodes = Inodes(tree, self._kernel)
        self._reader = EventReader(self._kernel.descriptor, self._drain)
        self._groups: dict[str, frozenset[Interest]] = {}
        self._folders: dict[str, Folder] = {}
        self._unarmed: dict[Folder, set[Concern]] = {}
        """What has to be watched, and the receiver of the first event."""
        self._stale: set[Folder] = set()
        self._loose: set[Leaf] = set()

    def close(self) -> None:
        """Watch nothing any more."""
        self._reader.close()
        self._kernel.close()

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What is not watched, and what to do about it."""
        leaves = [leaf for folder in self._folders.values() for leaf in folder.leaves.values()]
        short = sum(leaf.short or leaf.folder.short for leaf in leaves)
        if not short:
            return ()
        said = f"{short} of {plural(len(leaves), 'path')} {'is' if short == 1 else 'are'} not watched"
        why = "no more inotify watches, or open files, are to be had"
        return (f"{said}: {why}; raise sysctl fs.inotify.max_user_watches",)

    async def follow(self, group: str, interests: Iterable[Interest]) -> None:
        """Watch exactly these for a group; new paths are reported once: they may have changed meanwhile."""
        wanted = frozenset(interests)
        known = self._groups.get(group, frozenset())
        self._groups[group] = known if wanted == known else wanted  # not another copy of every path
        for interest in known - wanted:
            self._drop(group, interest)
        for folder in self._folders.values():
            if folder.lacks:
                self._unarmed.setdefault(folder, set())
        for interest in wanted - known:
            self._unarmed.setdefault(self._leaf(interest, group).folder, set()).add(interest.concern)
        await self._arm_new()

    async def _arm_new(self) -> None:
        """Begin to watch; after a cancellation, the next call does the rest."""
        done = 0
        while self._unarmed:
            folder, concerns = self._unarmed.popitem()
            if self._folders.get(folder.path) is folder:
                lacked = folder.lacks
                self._inodes.arm(folder)
                if lacked and not folder.lacks:  # until now, it may have changed unheard
                    concerns.update(folder.concerns)
            for concern in concerns:
                self._inbox.add(concern)
            done += len(folder.leaves)
            if done > AT_A_TIME:
                await asyncio.sleep(0)
                done = 0

    def _leaf(self, interest: Interest, group: str) -> Leaf:
        above, name = _split(interest.path)
        folder = self._folders.setdefault(above, Folder(above))
        leaf = folder.leaves.setdefault(os.fsencode(name), Leaf(folder, name))
        leaf.interests = with_one(leaf.interests, (group, interest))
        return leaf

    def _drop(self, group: str, interest: Interest) -> None:
        above, name = _split(interest.path)
        folder = self._folders[above]
        leaf = folder.leaves[os.fsencode(name)]
        leaf.interests = without_one(leaf.interests, (group, interest))
        if not leaf.interests:
            self._inodes.release_leaf(leaf)
            del folder.leaves[os.fsencode(name)]
        if not folder.leaves:
            del self._folders[above]
            self._inodes.release(folder)

    # What happened

    def _drain(self) -> None:
        for event in self._kernel.read():
            if event.mask & inotify.OVERFLOW:
                self._inbox.add_everything()
                self._stale.update(self._folders.values())
            elif (node := self._inodes.get(event.watch)) is not None:
                if event.name:
                    self._happened_in(node, event)
                else:
                    self._happened_to(node, event)
        self._catch_up()

    def _happened_in(self, node: WatchedInode, event: InotifyEvent) -> None:
        """An entry of a directory came or went; what happens to it otherwise, its own watch tells."""
        if not event.mask & ENTRIES:
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

    def _happened_to(self, node: WatchedInode, event: InotifyEvent) -> None:
        """Something happened to a watched inode itself."""
        if event.mask & _LOST:
            if event.mask & inotify.IGNORED:
                self._inodes.lose(event.watch)
            self._stale |= node.ways
            self._loose.update(node.leaves)
            return
        if event.mask & inotify.ATTRIB:
            self._stale.update(node.guards if self._inodes.enters_all else node.ways)
        for leaf in node.leaves:
            self._touch(leaf, WRITING if event.mask & inotify.MODIFY else NOW)

    def _catch_up(self) -> None:
        """Walk changed ways again, and report to those who watch their ends."""
        stale, self._stale = self._stale, set()
        loose, self._loose = self._loose, set()
        for folder in stale:
            if self._folders.get(folder.path) is folder:
                self._inodes.arm(folder)
                loose.update(folder.leaves.values())
        by_folder: dict[Folder, list[Leaf]] = {}
        for leaf in loose:
            by_folder.setdefault(leaf.folder, []).append(leaf)
            self._touch(leaf, NOW)
        for folder in by_folder.keys() - stale:
            self._inodes.arm_again(folder, by_folder[folder])

    def _touch(self, leaf: Leaf, settle: SettleTime) -> None:
        for _, interest in leaf.interests:
            self._inbox.add(interest.concern, interest.settle if interest.settle.quiet else settle)
            if interest.wake is not None:
                interest.wake.set()


def _split(path: str) -> tuple[str, str]:
    """Return the directory of a path and its entry; the root is its own."""
    above, _, name = path.rstrip("/").rpartition("/")
    return above or "/", name or "."
