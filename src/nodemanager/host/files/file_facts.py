"""Observes files: type, owner, attributes and content of a path; reads no more than it must."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from nodemanager.host.base import root_remedy
from nodemanager.host.files import private
from nodemanager.host.files.tree import NoParent, Place, Tree, TreeError
from nodemanager.plan.facts import NOBODY, FileFact, Kind
from nodemanager.plan.needs import ANY_SIZE

CHUNK = 1024 * 1024
SECOND = 1_000_000_000
GRAIN = SECOND // 20
"""Nanoseconds within which two changes of an inode may carry the same time stamp."""
COARSE_GRAIN = 2 * SECOND
"""The same for filesystems that keep only whole seconds, such as small inodes of ext4."""

Signature = bytes
"""Numbers of an inode, packed: there is one for every file, and a tuple would take three times as much."""
_SIGNATURE = struct.Struct("=QQqqq")


class DigestCache:
    """Remembers what a file was while its inode says that nothing has happened since.

    Everything changes ctime: the content, and also owner, mode, access control lists and the number of
    names. One thing does not: writing through a mapping to pages that are dirty already. So nothing is
    remembered of a file that anybody but root may write to.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Signature, FileFact]] = {}

    def get(self, place: Place, found: os.stat_result) -> FileFact | None:
        """Return what is known of a file that has not changed since it was read."""
        known = self._known.get(place.path)
        if known is None or known[0] != _signature(found) or known[1].writer != place.writer:
            return None
        return known[1]

    def put(self, path: str, found: os.stat_result, fact: FileFact) -> None:
        """Remember a file, unless it was written just now: it may change within the same tick."""
        if not is_fresh(found) and not found.st_mode & 0o022 and found.st_uid in (0, os.geteuid()):
            self._known[path] = _signature(found), fact
        else:
            self._known.pop(path, None)

    def keep_only(self, paths: AbstractSet[str]) -> None:
        """Forget everything but these."""
        for path in self._known.keys() - paths:
            del self._known[path]


def is_fresh(found: os.stat_result) -> bool:
    """Tell whether an inode was changed so lately that another change may carry the same time stamp."""
    grain = GRAIN if found.st_ctime_ns % SECOND else COARSE_GRAIN
    return time.time_ns() - found.st_ctime_ns <= grain


def _signature(found: os.stat_result) -> Signature:
    return _SIGNATURE.pack(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def observe(tree: Tree, path: str, size: int | None, digests: DigestCache) -> FileFact:
    """Return what is at a path; the digest only of a file that has the `size` it is meant to have."""
    try:
        if path == "/":
            return _of_root(tree)
        place = tree.place(path)
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        return _fact(place, found, size, digests)
    except (NoParent, FileNotFoundError):
        return FileFact()
    except TreeError as error:
        return FileFact(error=str(error))
    except OSError as error:
        if error.errno == errno.ENOTDIR:
            return FileFact()
        return FileFact(error=f"cannot look at {path}: {error.strerror}{root_remedy(error)}")


def _of_root(tree: Tree) -> FileFact:
    found = os.fstat(tree.folder("/"))
    return FileFact(Kind.DIRECTORY, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def _fact(place: Place, found: os.stat_result, size: int | None, digests: DigestCache) -> FileFact:
    mode, kind, target = found.st_mode, Kind.OTHER, ""
    if stat.S_ISREG(mode):
        if size not in (found.st_size, ANY_SIZE):
            return _of_file(found, "", place.writer)
        return digests.get(place, found) or _read(place, digests)
    if stat.S_ISDIR(mode):
        return _of_directory(place, found)
    if stat.S_ISLNK(mode):
        kind = Kind.SYMLINK
        target = os.readlink(place.name, dir_fd=place.folder)
    return FileFact(
        kind, stat.S_IMODE(mode), found.st_uid, found.st_gid, "", target, found.st_nlink,
        writer=place.writer,
    )  # fmt: skip


def _of_directory(place: Place, found: os.stat_result) -> FileFact:
    """Return what there is to say of a directory; more of it where others can have put it there."""
    acl = marked = False
    if place.writer != NOBODY:
        opened = os.open(place.name, private.OPEN, dir_fd=place.folder)
        try:
            found, acl = os.fstat(opened), private.has_acl(opened)
            marked = private.is_marked(opened, place.path)
        finally:
            os.close(opened)
    mode = stat.S_IMODE(found.st_mode)
    return FileFact(
        Kind.DIRECTORY, mode, found.st_uid, found.st_gid, writer=place.writer, marked=marked, acl=acl
    )


def _of_file(found: os.stat_result, digest: str, writer: int, *, acl: bool = False) -> FileFact:
    return FileFact(
        Kind.FILE, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, digest, "", found.st_nlink,
        writer=writer, acl=acl,
    )  # fmt: skip


def open_file(place: Place) -> int:
    """Open a regular file for reading, and nothing that has taken its place meanwhile."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOATIME", 0)
    try:
        descriptor = os.open(place.name, flags, dir_fd=place.folder)
    except PermissionError:  # O_NOATIME is for the owner and for root
        descriptor = os.open(place.name, flags & ~getattr(os, "O_NOATIME", 0), dir_fd=place.folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no longer a file")
    return descriptor


def _read(place: Place, digests: DigestCache) -> FileFact:
    """Read a file; what its inode says is taken after that, so that it fits what was read."""
    try:
        descriptor = open_file(place)
    except BlockingIOError:
        return _leased(place)
    try:
        before = os.fstat(descriptor)
        digest = hash_descriptor(descriptor, before.st_size)
        acl = place.writer != NOBODY and private.has_acl(descriptor)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    fact = _of_file(after, digest, place.writer, acl=acl)
    if _signature(before) == _signature(after):
        digests.put(place.path, after, fact)
    return fact


def _leased(place: Place) -> FileFact:
    """Return what there is to say of a file on which its owner has a lease: nobody else can open it now.

    It counts as different, whatever its content: otherwise a user could keep her own file by a lease where a
    declared one belongs.
    """
    found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    if found.st_uid in (0, os.geteuid()):
        raise OSError(errno.EAGAIN, "a program holds a lease on it; see /proc/locks")
    return _of_file(found, "", place.writer)


def digest_of(tree: Tree, path: str, limit: int) -> str:
    """Return the SHA-256 of a file; nothing if it is gone, leased, or larger than a limit that is not 0."""
    try:
        opened = open_file(tree.place(path))
        try:
            size = os.fstat(opened).st_size
            return "" if limit and size > limit else hash_descriptor(opened, size)
        finally:
            os.close(opened)
    except (FileNotFoundError, BlockingIOError):
        return ""
    finally:
        tree.forget()


def hash_descriptor(descriptor: int, size: int = CHUNK) -> str:
    """Return the SHA-256 of what can be read from here on, which is about so much."""
    hasher, piece = hashlib.sha256(), min(size + 1, CHUNK)  # no more memory than it takes
    while chunk := os.read(descriptor, piece):
        hasher.update(chunk)
    return hasher.hexdigest()


def list_names(tree: Tree, path: str) -> tuple[str, ...] | None:
    """Return the names in a directory, sorted; None when it cannot be listed."""
    try:
        with tree.readable(tree.folder(path)) as folder, os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries))
    except OSError:
        return None


def observe_all(
    tree: Tree,
    sizes: Mapping[str, int | None],
    purged: Iterable[str],
    digests: DigestCache,
    *,
    whole: bool = True,
) -> tuple[dict[str, FileFact], dict[str, tuple[str, ...] | None]]:
    """Return what is at each of these paths, and in the directories that are purged.

    Unless these are the paths of the `whole` host, what is known of others is remembered, too.
    """
    tree.forget()
    facts = {path: observe(tree, path, size, digests) for path, size in sizes.items()}
    listings: dict[str, tuple[str, ...] | None] = {}
    for folder in purged:
        if facts[folder].kind is not Kind.DIRECTORY:
            continue
        listings[folder] = names = list_names(tree, folder)
        for name in names or ():
            path = f"{folder.rstrip('/')}/{name}"
            if path not in facts:
                facts[path] = observe(tree, path, None, digests)
    tree.forget()
    if whole:
        digests.keep_only(facts.keys())
    return facts, listings
