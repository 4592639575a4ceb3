"""New content beside the file that it will replace: complete, owned and on disk before the rename."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from dataclasses import dataclass

from nodemanager.host import file_facts, state_files
from nodemanager.host.tree import Place, Tree
from nodemanager.plan.facts import Kind
from nodemanager.plan.steps import MakeLink, WriteFile

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Staged:
    """A temporary file or link that only waits for its name."""

    path: str
    """The path that it is for."""
    name: str
    """What it is called until then, in the same directory."""
    descriptor: int = -1

    @property
    def temporary(self) -> str:
        """Where it is now."""
        return f"{self.path.rpartition('/')[0]}/{self.name}"

    def commit(self, tree: Tree) -> None:
        """Give it its name, unless it has it; whatever had that name is replaced at the same moment."""
        if not self.name:
            return
        place = tree.place(self.path)
        os.rename(self.name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        self.name = ""

    def discard(self, tree: Tree) -> None:
        """Remove it, unless it has its name already."""
        self.close()
        if self.name:
            with contextlib.suppress(OSError):
                os.unlink(self.name, dir_fd=tree.place(self.path).folder)

    def hand_over(self) -> int:
        """Return its descriptor, which is from now on the caller's to close."""
        descriptor, self.descriptor = self.descriptor, -1
        return descriptor

    def close(self) -> None:
        """Give back its descriptor."""
        if self.descriptor >= 0:
            os.close(self.hand_over())


def stage_file(tree: Tree, step: WriteFile) -> Staged:
    """Write a temporary file, private until it has its owner."""
    place = tree.place(step.path, make_parents=True)
    name = state_files.temporary_name()
    staged = Staged(step.path, name, os.open(name, state_files.NEW, 0o600, dir_fd=place.folder))
    try:
        state_files.write_all(staged.descriptor, step.content.data)
        if step.before.kind is Kind.FILE:
            _copy_attributes(place, staged.descriptor)
        os.fchown(staged.descriptor, step.uid, step.gid)
        os.fchmod(staged.descriptor, step.mode)  # last: chown clears setuid and setgid
    except BaseException:
        staged.discard(tree)
        raise
    return staged


def stage_link(tree: Tree, step: MakeLink) -> Staged:
    """Make a temporary link."""
    place = tree.place(step.path, make_parents=True)
    name = state_files.temporary_name()
    os.symlink(step.target, name, dir_fd=place.folder)
    staged = Staged(step.path, name)
    try:
        os.chown(name, step.uid, step.gid, dir_fd=place.folder, follow_symlinks=False)
    except BaseException:
        staged.discard(tree)
        raise
    return staged


def _copy_attributes(place: Place, new: int) -> None:
    """Carry extended attributes (SELinux context, ACLs, capabilities aside) over from the old file."""
    if not hasattr(os, "listxattr"):
        return
    try:
        old = file_facts.open_file(place)
    except OSError:
        return  # it is gone, or no file any more
    try:
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


def sweep(tree: Tree, folder: str) -> int:
    """Remove what a pass that was killed left behind in a directory; return how many files that were."""
    removed = 0
    for name in file_facts.list_names(tree, folder) or ():
        if not name.startswith(state_files.PREFIX):
            continue
        with contextlib.suppress(OSError):
            descriptor = tree.folder(folder)
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                os.unlink(name, dir_fd=descriptor)
                removed += 1
    return removed
