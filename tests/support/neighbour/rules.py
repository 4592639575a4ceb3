"""What must never be true of a host, and what must be true when she rests. Looks, and changes nothing.

Nothing here depends on who was faster: each rule is about one inode, read through one descriptor, or about
something that no order of events makes right.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.neighbour import kernel, places
from support.neighbour.places import Target

OPEN_BITS = 0o7022
"""What a file without a declared mode never has where others can put files."""
OPEN_SECRET_BITS = 0o7027
ENTRIES = 5000


class Escape(NamedTuple):
    """Something that must not be."""

    path: str
    what: str


class Inode(NamedTuple):
    """What makes a canary the same that it was."""

    number: int
    mode: int
    uid: int
    gid: int
    size: int
    changed: int
    digest: str


def names(folder: str) -> list[str]:
    """Return the entries of a directory, as far as there are not very many; none if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return [one.name for one in itertools.islice(found, ENTRIES)]
    except OSError:
        return []


def never(declared: dict[str, Target]) -> Iterator[Escape]:
    """Yield what is wrong at any moment, whatever she and the agent are doing."""
    if os.path.lexists(places.PROOF):
        yield Escape(places.PROOF, "her code was run by root")
    folders = {*places.PLACES, *(path for path, one in declared.items() if one.purge)}
    for folder in folders:
        for name in names(folder):
            path = f"{folder}/{name}"
            with contextlib.suppress(OSError):
                yield from _powerful(path, declared.get(path))


def _powerful(path: str, target: Target | None) -> Iterator[Escape]:
    """A file with powers of somebody else than her has the content that was declared, or is an escape."""
    if not _has_powers(os.lstat(path)) and kernel.CAPABILITY not in os.listxattr(path, follow_symlinks=False):
        return
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(opened)
        powers = _has_powers(found) or _capable(opened, found)
        content = os.pread(opened, 65536, 0)
    finally:
        os.close(opened)
    if powers and not _declared_powers(content):
        at = target.kind if target else "undeclared"
        yield Escape(
            path,
            f"{at} file has mode {found.st_mode & 0o7777:o}, owner {found.st_uid}, content {content[:30]!r}",
        )


def _has_powers(found: os.stat_result) -> bool:
    if not stat.S_ISREG(found.st_mode):
        return False
    foreign_user = found.st_mode & stat.S_ISUID and found.st_uid not in places.SHES
    foreign_group = found.st_mode & stat.S_ISGID and found.st_gid != places.MALLORY
    return bool(foreign_user or foreign_group)


def _capable(opened: int, found: os.stat_result) -> bool:
    return found.st_uid not in places.SHES and kernel.CAPABILITY in os.listxattr(opened)


def _declared_powers(content: bytes) -> bool:
    """Tell whether it is what we declare with setuid; the path is in it, as she may rename it."""
    return content.startswith(b"# /") and b"/setuid-" in content.splitlines()[0] and b"MALLORY" not in content


def fault(target: Target) -> str:
    """Return how a path differs from its declaration; she rests, and the agent has had its time."""
    try:
        found = os.lstat(target.path)
    except (FileNotFoundError, NotADirectoryError):
        return "" if target.ensure == "absent" or target.free else "is missing"
    if target.free:
        return ""
    if target.ensure == "absent":
        return "is there"
    checks = {"file": _file, "directory": _folder, "symlink": _link}
    return checks[target.ensure](target, found)


def _file(target: Target, found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return f"is no file ({stat.filemode(found.st_mode)})"
    opened = os.open(target.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found, extra = os.fstat(opened), os.listxattr(opened)
        content = os.pread(opened, 65536, 0)
    finally:
        os.close(opened)
    if content != target.content.encode():
        return f"has the content {content[:20]!r}"
    return _attributes(target, found, extra)


def _attributes(target: Target, found: os.stat_result, extra: list[str]) -> str:
    mode = stat.S_IMODE(found.st_mode)
    if (found.st_uid, found.st_gid) != (target.uid, target.gid):
        return f"belongs to {found.st_uid}:{found.st_gid}"
    if target.mode is None and mode & (OPEN_SECRET_BITS if target.secret else OPEN_BITS):
        return f"has mode {mode:o}, and none is declared"
    if target.mode is not None and mode != target.mode:
        return f"has mode {mode:o}"
    hostile = [one for one in extra if one.startswith(("user.", "system.posix_acl"))]
    if hostile and not target.hers:
        return f"has {', '.join(hostile)}"
    return ""


def _folder(target: Target, found: os.stat_result) -> str:
    if not stat.S_ISDIR(found.st_mode):
        return f"is no directory ({stat.filemode(found.st_mode)})"
    extra = os.listxattr(target.path, follow_symlinks=False)
    return _attributes(target, found, extra)


def _link(target: Target, found: os.stat_result) -> str:
    if not stat.S_ISLNK(found.st_mode):
        return f"is no link ({stat.filemode(found.st_mode)})"
    if (leads := str(Path(target.path).readlink())) != target.link:
        return f"leads to {leads}"
    return ""


def strays(target: Target) -> list[str]:
    """Return what should have been purged."""
    if not target.purge:
        return []
    found = []
    for name in names(target.path):
        path = f"{target.path}/{name}"
        with contextlib.suppress(FileNotFoundError):  # it is being purged just now
            if name != "kept" and not stat.S_ISDIR(os.lstat(path).st_mode):
                found.append(path)
    return found


def canaries() -> dict[str, Inode]:
    """Return what is outside, and none of anybody's business."""
    found = {}
    for top in places.CANARIES:
        tree = [top, *(f"{above}/{name}" for above, subs, files in os.walk(top) for name in (*subs, *files))]
        for path in tree:
            found[path] = _inode(path)
    for top in places.VAULTS:
        for path in (top, f"{top}/inner"):
            with contextlib.suppress(OSError):  # she may have moved it; it is looked at by number
                found[path] = _inode(path)
    return found


def _inode(path: str) -> Inode:
    one = os.lstat(path)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest() if stat.S_ISREG(one.st_mode) else ""
    folder = stat.S_ISDIR(one.st_mode)
    changed = 0 if path in places.VAULTS or folder else one.st_ctime_ns
    size = 0 if folder else one.st_size
    return Inode(one.st_ino, one.st_mode, one.st_uid, one.st_gid, size, changed, digest)


def vaults(known: dict[str, Inode]) -> Iterator[Escape]:
    """Yield vaults that are no longer root's, wherever she has moved them, and those that were emptied."""
    numbers = {known[one].number for one in places.VAULTS}
    for vault in places.VAULTS:
        folder = vault.rpartition("/")[0]
        for name in names(folder):
            with contextlib.suppress(OSError):
                if os.lstat(f"{folder}/{name}").st_ino in numbers:
                    yield from _vault(f"{folder}/{name}", numbers)


def _vault(path: str, numbers: set[int]) -> Iterator[Escape]:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(opened)
        with os.scandir(opened) as entries:
            inside = {one.name for one in entries}
    finally:
        os.close(opened)
    if found.st_ino not in numbers:
        return  # she was faster
    if found.st_uid != 0:
        yield Escape(path, f"is root's vault, and belongs to {found.st_uid}")
    elif "inner" not in inside:
        yield Escape(path, "is root's vault, and was emptied")
