"""The watched inodes and their users: ways are walked, and every directory on them is watched.

A way is walked exactly as `Tree` walks it for a look, and every directory is watched *before* a
name is looked up in it: whatever changes from then on is an event, and the way is walked once more.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from typing import Final

from nodemanager.host.files.tree import Tree, TreeError
from nodemanager.host.watches import inotify
from nodemanager.host.watches.inotify import Inotify
from nodemanager.host.watches.watched_paths import Folder, Leaf, WatchedInode, with_one, without_one

ENTRIES: Final = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
"""An entry of a directory came or went."""
GONE: Final = inotify.DELETE_SELF | inotify.MOVE_SELF
_FOLDER: Final = ENTRIES | GONE
_FILE: Final = inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE | GONE
_LIMITS: Final = (errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO)


class Inodes:
    """All inodes that are watched below one root."""

    def __init__(self, tree: Tree, kernel: Inotify) -> None:
        self._tree = tree
        self._kernel = kernel
        self._nodes: dict[int, WatchedInode] = {}
        self.enters_all = os.geteuid() == 0
        """Root may enter every directory; others only while its attributes allow it."""
        self._mask = _FOLDER if self.enters_all else _FOLDER | inotify.ATTRIB

    def get(self, watch: int) -> WatchedInode | None:
        """Return what is watched by a number that the kernel tells; None = nothing any more."""
        return self._nodes.get(watch)

    def lose(self, watch: int) -> None:
        """Take note that the kernel does not watch an inode any more."""
        del self._nodes[watch]

    def arm(self, folder: Folder) -> None:
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
                    node.guards = with_one(node.guards, folder)
                    folder.guards.add(one)

        try:
            opened = self._tree.walk(folder.path, passing)
        except OSError as error:  # not there, or in the way: its nearest ancestor is watched
            folder.short = _is_limit(error)
            for leaf in folder.leaves.values():
                self.release_leaf(leaf)
        else:
            try:
                self._arm_leaves(folder, opened)
            finally:
                os.close(opened)
        steps, guards, here = before
        self._release_way(
            folder, steps - folder.steps, guards - folder.guards, here if here != folder.here else 0
        )

    def arm_again(self, folder: Folder, leaves: Iterable[Leaf]) -> None:
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

    def _arm_leaves(self, folder: Folder, opened: int) -> None:
        try:
            folder.here = self._kernel.add(opened, "", self._mask)
        except OSError as error:
            folder.short = _is_limit(error)
        else:
            node = self._node(folder.here)
            node.folders = with_one(node.folders, folder)
        for leaf in folder.leaves.values():
            self._arm_leaf(leaf, opened)

    def _arm_leaf(self, leaf: Leaf, opened: int) -> None:
        watch, leaf.short = 0, False
        try:
            mode = os.stat(leaf.name, dir_fd=opened, follow_symlinks=False).st_mode
            mask = self._mask | inotify.ATTRIB if stat.S_ISDIR(mode) else _FILE
            watch = self._kernel.add(opened, leaf.name, mask)
        except OSError as error:
            leaf.short = _is_limit(error)
        if watch != leaf.watch:
            self.release_leaf(leaf)
        if watch:
            leaf.watch = watch
            node = self._node(watch)
            node.leaves = with_one(node.leaves, leaf)

    def _node(self, watch: int) -> WatchedInode:
        return self._nodes.setdefault(watch, WatchedInode())

    def release_leaf(self, leaf: Leaf) -> None:
        """Watch an entry no longer."""
        watch, leaf.watch = leaf.watch, 0
        if (node := self._nodes.get(watch)) is not None:
            node.leaves = without_one(node.leaves, leaf)
            self._release(watch, node)

    def release(self, folder: Folder) -> None:
        """Watch the way to a directory no longer."""
        self._release_way(folder, folder.steps, folder.guards, folder.here)

    def _release_way(
        self, folder: Folder, steps: set[tuple[int, bytes]], guards: set[int], here: int
    ) -> None:
        for watch, name in steps:
            if (node := self._nodes.get(watch)) is not None:
                node.drop_step(name, folder)
        for watch in guards:
            if (node := self._nodes.get(watch)) is not None:
                node.guards = without_one(node.guards, folder)
        if (node := self._nodes.get(here)) is not None:
            node.folders = without_one(node.folders, folder)
        for watch in {here, *guards, *(watch for watch, _ in steps)}:
            if (node := self._nodes.get(watch)) is not None:
                self._release(watch, node)

    def _release(self, watch: int, node: WatchedInode) -> None:
        if node.idle:
            del self._nodes[watch]
            self._kernel.remove(watch)


def _is_limit(error: OSError) -> bool:
    """Tell whether something may be there, and cannot be watched now; what is missing is watched for."""
    cause = error.__cause__ if isinstance(error, TreeError) else error
    return isinstance(cause, OSError) and cause.errno in _LIMITS
