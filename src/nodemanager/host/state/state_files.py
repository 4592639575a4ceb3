"""Small private files of the agent: replaced whole, on disk before anything relies on them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final, NamedTuple

from nodemanager.host.files import private
from nodemanager.host.files.tree import Place, Tree

MAX_LINKS: Final = 8
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Owner(NamedTuple):
    """The owner of a file."""

    uid: int
    gid: int


def prepare_below(tree: Tree, path: str) -> None:
    """Make a folder, and our folder that it is in, both closed to all other users."""
    prepare_folder(tree, path.rpartition("/")[0])
    prepare_folder(tree, path)


def prepare_folder(tree: Tree, path: str) -> None:
    """Make a folder, and its parents, closed to all users but the owner."""
    place = tree.place(path, make_parents=True)
    try:
        os.mkdir(place.name, 0o700, dir_fd=place.folder)
        with tree.readable(place.folder) as above:
            os.fsync(above)
    except FileExistsError:
        return
    finally:
        tree.forget()


def write(tree: Tree, path: str, data: bytes, mode: int = 0o600, owner: Owner | None = None) -> None:
    """Replace a file, and return when it is on disk; only its owner may read it unless a mode says more.

    It is ours unless an owner is given.
    """
    place = tree.place(path)
    _replace(place, data, mode, owner)
    with tree.readable(place.folder) as folder:
        os.fsync(folder)


def _replace(place: Place, data: bytes, mode: int, owner: Owner | None) -> None:
    name = private.temporary_name()
    descriptor = os.open(name, NEW, 0o600, dir_fd=place.folder)
    try:
        try:
            write_all(descriptor, data)
            made = os.fstat(descriptor)
            if owner is not None and owner != (made.st_uid, made.st_gid):
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=place.folder)
        raise


def read(tree: Tree, path: str, limit: int) -> bytes | None:
    """Return the content of a file of ours, None if it is not there."""
    try:
        place = tree.place(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(place.name, flags, dir_fd=place.folder)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        chunks = []
        while limit > 0 and (chunk := os.read(descriptor, min(limit, 1024 * 1024))):
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def set_aside(tree: Tree, path: str) -> str:
    """Give a damaged file another name, for people to look at; return it as seen from outside.

    One is kept: a disk that damages every file must not be filled by what it damaged.
    """
    try:
        place = tree.place(path)
        os.rename(place.name, f"{place.name}.damaged", src_dir_fd=place.folder, dst_dir_fd=place.folder)
    finally:
        tree.forget()
    return f"{tree.outside(path)}.damaged"


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_following(tree: Tree, path: str, limit: int) -> bytes | None:
    """Return the content of a system file that may be a link, as /etc/os-release and /etc/localtime are."""
    for _ in range(MAX_LINKS):
        place = tree.place(path)
        try:
            target = os.readlink(place.name, dir_fd=place.folder)
        except OSError:
            return read(tree, path, limit)
        path = target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}"
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
