"""The moments at which a path changes: one function per kind of step."""

from __future__ import annotations

import contextlib
import os
import stat

from nodemanager.host.base import HostError
from nodemanager.host.files import private
from nodemanager.host.files.file_facts import hash_descriptor
from nodemanager.host.files.staging import Staged
from nodemanager.host.files.tree import Place, Tree, make_folder
from nodemanager.plan.facts import NOBODY, Kind
from nodemanager.plan.steps import (
    FileStep,
    MakeDirectory,
    MakeLink,
    RemovePath,
    SetAttributes,
    WriteFile,
)


class Unsafe(HostError):
    """The step is possible, but could touch something else."""


def replaces(step: FileStep) -> bool:
    """Tell whether a step takes away what is at its path."""
    return isinstance(step, WriteFile | MakeLink | RemovePath)


def carry_out(tree: Tree, step: FileStep, staged: Staged | None) -> None:
    """Do it."""
    if staged is not None:
        staged.commit(tree)
    elif isinstance(step, RemovePath):
        _remove(tree, tree.place(step.path), step)
    elif isinstance(step, SetAttributes):
        _set_attributes(tree, step)
    elif not isinstance(step, MakeDirectory):  # those were made before anything was staged in them
        raise TypeError(f"cannot do {type(step).__name__} to files")


def make_directory(tree: Tree, step: MakeDirectory) -> None:
    """Make a directory with its owner and mode; one of root's that appeared meanwhile is given them, too."""
    place = tree.place(step.path, make_parents=True)
    try:
        made = make_folder(place.folder, place.name, step.mode, step.uid, step.gid, writer=place.writer)
        try:
            if place.writer != NOBODY:
                private.mark(made, step.path)
        finally:
            os.close(made)
    except FileExistsError:
        if place.writer != NOBODY:
            raise Unsafe(
                f"cannot make directory {step.path}: others than root can have put there what is there now,"
                " and it is no empty directory, so it is neither changed nor replaced; look at it and move it"
                " away, or give it its owner and mode by hand"
            ) from None
        opened = os.open(place.name, private.OPEN, dir_fd=place.folder)
        try:
            _change(opened, step.uid, step.gid, step.mode)
        finally:
            os.close(opened)


def _remove(tree: Tree, place: Place, step: RemovePath) -> None:
    if step.purged and place.writer != NOBODY:
        _check_purged(tree, place)
    with contextlib.suppress(FileNotFoundError):
        if step.before.kind is Kind.DIRECTORY:
            os.rmdir(place.name, dir_fd=place.folder)
        else:
            os.unlink(place.name, dir_fd=place.folder)


def _check_purged(tree: Tree, place: Place) -> None:
    """Refuse to remove anything from another directory than the one that is purged."""
    above = place.path.rpartition("/")[0]
    with tree.readable(place.folder) as opened:
        if os.fstat(opened).st_uid == place.writer or private.is_marked(opened, above):
            return
    raise Unsafe(f"cannot remove {place.path}: somebody moved another directory to {above} meanwhile")


def _set_attributes(tree: Tree, step: SetAttributes) -> None:
    uid = -1 if step.uid is None else step.uid
    gid = -1 if step.gid is None else step.gid
    if step.path == "/":
        with tree.readable(tree.folder("/")) as opened:
            _change(opened, uid, gid, step.mode)
        return
    place = tree.place(step.path)
    if place.writer != NOBODY and step.before.kind is not Kind.DIRECTORY:
        raise Unsafe(f"cannot change owner or mode of {step.path}: others can write there since a moment ago")
    if step.before.kind is Kind.SYMLINK:
        os.chown(place.name, uid, gid, dir_fd=place.folder, follow_symlinks=False)
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(place.name, flags, dir_fd=place.folder)
    try:
        _check_kind(opened, step)
        if place.writer != NOBODY:
            _check_owner(opened, step)
            private.remove_acls(opened)
        _change(opened, uid, gid, None if step.before.digest else step.mode)
        if step.before.digest:
            _check_content(opened, step)  # its former owner can no longer exchange it now
            _change(opened, -1, -1, step.mode)
        os.fsync(opened)
    finally:
        os.close(opened)


def _change(opened: int, uid: int, gid: int, mode: int | None) -> None:
    """Set owner and mode; setuid and setgid, which chown clears, only where a declaration has them."""
    if uid != -1 or gid != -1:
        os.fchown(opened, uid, gid)
    if mode is not None and stat.S_IMODE(os.fstat(opened).st_mode) != mode:
        os.fchmod(opened, mode)


def _check_kind(opened: int, step: SetAttributes) -> None:
    found = os.fstat(opened).st_mode
    kinds = {Kind.FILE: stat.S_ISREG(found), Kind.DIRECTORY: stat.S_ISDIR(found)}
    if not kinds.get(step.before.kind, False):
        raise Unsafe(f"cannot change owner or mode of {step.path}: it is no longer {step.before.kind.words}")


def _check_owner(opened: int, step: SetAttributes) -> None:
    """Refuse to change another directory than the one that the plan was made for."""
    found = os.fstat(opened)
    if (found.st_uid, stat.S_IMODE(found.st_mode)) != (step.before.uid, step.before.mode):
        raise Unsafe(f"cannot change owner or mode of {step.path}: another directory was put there meanwhile")


def _check_content(opened: int, step: SetAttributes) -> None:
    """Refuse to give powers (root's name, setuid) to content that is not what was looked at."""
    if hash_descriptor(opened) != step.before.digest:
        raise Unsafe(f"cannot change the mode of {step.path}: its content was changed meanwhile")
