"""The files of a host's chain: where they end, and what a power cut tore off there."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import BadRecord, Record
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.tlog import merkle

MAX_WRITE: Final = 64 * 1024
"""How many bytes are written and synced at once: so much may be torn."""
MAX_RECENT: Final = 32
"""How many lines are kept in memory, from which the status shows some."""
MAX_FILE: Final = 64 * 1024 * 1024
_WINDOW: Final = 2 * MAX_WRITE
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """Where a chain ends."""

    size: int = 0
    """The number of records so far, dropped ones included."""
    head: str = ""
    """Hash of the last one."""
    length: int = 0
    """The valid bytes of the newest file; 0 = the next record begins a file."""
    torn: int = 0
    """The bytes after these, on which nothing relies."""
    first: int = 0
    """The number of the first record that is kept."""
    id: str = ""
    recent: tuple[bytes, ...] = ()
    """Some of the newest lines."""
    damaged: str = ""
    """A file that cannot be continued, because its end is unreadable."""


def find_end(tree: Tree, path: str, old: str) -> ChainEnd:
    """Return where the chain in two files ends. Raises OSError."""
    before, newest = _end_of(tree, old), _end_of(tree, path)
    if newest.damaged or (before.damaged and not newest.size):
        return newest if newest.damaged else before
    if newest.size:
        first = before.first if before.size else newest.first
        return replace(newest, first=first, recent=_newest(before.recent, newest.recent))
    # A process was killed after it renamed the file, or before it wrote to a new one.
    return replace(before, length=0, torn=newest.torn)


def after(end: ChainEnd, batch: Sequence[bytes]) -> ChainEnd:
    """Return where the chain ends after lines were added."""
    opening = records.decode(batch[0]) if not end.length else None
    return ChainEnd(
        size=end.size + len(batch),
        head=merkle.leaf_hash(batch[-1]).hex(),
        length=end.length + sum(len(line) + 1 for line in batch),
        first=end.first,
        id=opening.object.uid if opening else end.id,
        recent=_newest(end.recent, batch),
    )


def lines(tree: Tree, path: str) -> list[bytes]:
    """Return the whole lines of a file; none if there is no such file. Raises OSError.

    What follows the last of them is an unfinished write, which nobody was told of.
    """
    data = state_files.read(tree, path, MAX_FILE) or b""
    return data.split(b"\n")[:-1]


def sync(tree: Tree, path: str) -> None:
    """Have a file on disk as it is; one that is not there is no error. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        place = tree.place(path)
        descriptor = os.open(place.name, _READ, dir_fd=place.folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _end_of(tree: Tree, path: str) -> ChainEnd:
    try:
        place = tree.place(path)
        descriptor = os.open(place.name, _READ, dir_fd=place.folder)
    except FileNotFoundError:
        return ChainEnd()
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return ChainEnd(damaged=path)
        begin = max(found.st_size - _WINDOW, 0)
        data = os.pread(descriptor, _WINDOW, begin)
        if begin:  # the first line of the window is only the rest of one
            skipped = data.find(b"\n") + 1
            begin, data = begin + skipped, data[skipped:]
        opening = _readable(os.pread(descriptor, records.MAX_RECORD + 1, 0).partition(b"\n")[0])
    finally:
        os.close(descriptor)
    good, last = _whole(data, found.st_size - begin - MAX_WRITE)
    if last is None or opening is None:  # of a file that is short, all may be torn
        return ChainEnd(damaged=path) if found.st_size > MAX_WRITE else ChainEnd(torn=found.st_size)
    line, known = last
    return ChainEnd(
        size=known.sequence + 1,
        head=merkle.leaf_hash(line).hex(),
        length=begin + good,
        torn=found.st_size - begin - good,
        first=opening.sequence,
        id=opening.object.uid,
        recent=_newest((), data[:good].split(b"\n")[:-1]),
    )


def _newest(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[bytes, ...]:
    return (*old, *new)[-MAX_RECENT:]


def _whole(data: bytes, settled: int) -> tuple[int, tuple[bytes, Record] | None]:
    """Return up to where data can be gone on with, and its last line there.

    What lies before `settled` was synced: a line there that cannot be read was damaged since, and is left for
    those who look for that.
    """
    at, good, last = 0, 0, None
    while (end := data.find(b"\n", at)) >= 0:
        line = data[at:end]
        known = _readable(line)
        if known is not None:
            good, last = end + 1, (line, known)
        elif at >= settled:
            break
        at = end + 1
    return good, last


def _readable(line: bytes) -> Record | None:
    try:
        found = records.decode(line)
    except BadRecord:
        return None
    return found if found.sequence >= 0 else None
