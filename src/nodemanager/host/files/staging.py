"""New content beside the file that it will replace: complete, owned and on disk before the rename.

If others may write into the directory, it is in a private folder there.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from dataclasses import dataclass
from typing import NamedTuple

from nodemanager.host.base import HostError
from nodemanager.host.files import file_facts, private, writers
from nodemanager.host.files.tree import Place, Tree
from nodemanager.host.state import state_files
from nodemanager.plan.facts import NOBODY, Kind
from nodemanager.plan.steps import MakeLink, WriteFile

log = logging.getLogger(__name__)


class Exchanged(HostError):
    """Another program replaced what we had staged or committed."""


class Areas:
    """Where the files of a batch wait for their names: a private folder per directory that needs one."""

    def __init__(self) -> None:
        self._folders: dict[str, private.PrivateFolder] = {}

    def of(self, place: Place) -> int:
        """Return the folder to stage a file in; -1 = the target's own folder, where no one else can write."""
        if place.writer == NOBODY:
            return -1
        above = place.path.rpartition("/")[0]
        if above not in self._folders:
            self._folders[above] = private.PrivateFolder(place.folder)
        return self._folders[above].descriptor

    def close(self) -> None:
        """Remove the private folders."""
        while self._folders:
            self._folders.popitem()[1].close()


@dataclass(slots=True)
class Staged:
    """A temporary file or link that is ready for its final name."""

    path: str
    """The path that it will have."""
    name: str
    """Its name until then."""
    area: int = -1
    """The private folder that it is in; -1 = the directory of its path."""
    descriptor: int = -1
    inode: tuple[int, int] = (0, 0)
    """Device and number of the inode that gets the name, and must have it afterwards."""

    @property
    def temporary(self) -> str:
        """Where it is now, unless it is in a private folder."""
        return f"{self.path.rpartition('/')[0]}/{self.name}"

    def commit(self, tree: Tree) -> None:
        """Give it its name, unless it has it; whatever had that name is replaced at the same moment."""
        if not self.name:
            return
        place = tree.place(self.path)
        source = place.folder if self.area < 0 else self.area
        self._check(self.name, source)
        os.rename(self.name, place.name, src_dir_fd=source, dst_dir_fd=place.folder)
        self.name = ""
        self._check(place.name, place.folder)

    def _check(self, name: str, folder: int) -> None:
        try:
            same = _inode(os.stat(name, dir_fd=folder, follow_symlinks=False)) == self.inode
        except FileNotFoundError:
            same = False
        if not same:
            raise Exchanged(
                f"cannot put {self.path} in place: somebody exchanges files in its directory at this moment;"
                " find out who writes there, and take the right to do so away"
            )

    def discard(self, tree: Tree) -> None:
        """Remove it, unless it has its name already."""
        self.close()
        if self.name:
            with contextlib.suppress(OSError):
                folder = tree.place(self.path).folder if self.area < 0 else self.area
                os.unlink(self.name, dir_fd=folder)

    def hand_over(self) -> int:
        """Return its descriptor, which is from now on the caller's to close."""
        descriptor, self.descriptor = self.descriptor, -1
        return descriptor

    def close(self) -> None:
        """Give back its descriptor."""
        if self.descriptor >= 0:
            os.close(self.hand_over())


def stage_file(tree: Tree, step: WriteFile, areas: Areas) -> Staged:
    """Write a temporary file, private until it has its owner."""
    place = tree.place(step.path, make_parents=True)
    name, area = private.temporary_name(), areas.of(place)
    descriptor = os.open(name, state_files.NEW, 0o600, dir_fd=place.folder if area < 0 else area)
    staged = Staged(step.path, name, area, descriptor)
    try:
        staged.inode = _inode(os.fstat(descriptor))
        state_files.write_all(descriptor, step.content.data)
        if step.before.kind is Kind.FILE and place.writer == NOBODY:
            _copy_attributes(place, descriptor)
        os.fchown(staged.descriptor, step.uid, step.gid)
        os.fchmod(staged.descriptor, step.mode)  # last: chown clears setuid and setgid
    except BaseException:
        staged.discard(tree)
        raise
    return staged


def stage_link(tree: Tree, step: MakeLink, areas: Areas) -> Staged:
    """Make a temporary link."""
    place = tree.place(step.path, make_parents=True)
    name, area = private.temporary_name(), areas.of(place)
    folder = place.folder if area < 0 else area
    os.symlink(step.target, name, dir_fd=folder)
    staged = Staged(step.path, name, area)
    try:
        os.chown(name, step.uid, step.gid, dir_fd=folder, follow_symlinks=False)
        staged.inode = _inode(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except BaseException:
        staged.discard(tree)
        raise
    return staged


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _copy_attributes(place: Place, new: int) -> None:
    """Carry extended attributes (SELinux context, ACLs, capabilities aside) over from the old file of root's.

    The owner of a file says what its access control list is: what others granted is not carried over.
    """
    if not hasattr(os, "listxattr"):
        return
    try:
        old = file_facts.open_file(place)
    except OSError:
        return  # it is gone, or no file any more
    try:
        if os.fstat(old).st_uid not in (0, os.geteuid()):
            return
        for name in os.listxattr(old):
            if name == "security.capability":
                continue  # belongs to the old content: another program must not inherit its powers
            try:
                os.setxattr(new, name, os.getxattr(old, name))
            except OSError as error:
                log.warning("cannot keep attribute %s of %s: %s", name, place.path, error.strerror)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            log.warning("cannot keep the attributes of %s: %s", place.path, error.strerror)
    finally:
        os.close(old)


class Swept(NamedTuple):
    """Temporary files that were found in a directory."""

    removed: int
    """Files of a killed process."""
    in_use: int
    """Files that another process, or this one, is writing."""


def sweep(tree: Tree, folder: str) -> Swept:
    """Remove what a process of ours that was killed left behind in a directory."""
    removed = in_use = 0
    for name in file_facts.list_names(tree, folder) or ():
        if not name.startswith(private.PREFIX):
            continue
        with contextlib.suppress(OSError):
            descriptor = tree.folder(folder)
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if writers.in_use(name.removeprefix(private.PREFIX), found.st_ctime):
                in_use += 1
                continue
            if stat.S_ISDIR(found.st_mode):
                _empty(descriptor, name)
                os.rmdir(name, dir_fd=descriptor)
            else:
                os.unlink(name, dir_fd=descriptor)
            removed += 1
    return Swept(removed, in_use)


def _empty(above: int, name: str) -> None:
    """Remove what is in a private folder, unless it only looks like one."""
    opened = os.open(name, private.OPEN, dir_fd=above)
    try:
        found = os.fstat(opened)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & ~stat.S_ISGID == 0o700:
            private.empty(opened)
    finally:
        os.close(opened)
