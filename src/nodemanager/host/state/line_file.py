"""A small private file of lines that grows at its end, each with a checksum.

Adding to it costs one write and one sync, however long it is. A process that is killed while it adds
leaves a torn end, which nobody relies on yet and which is cut off by the next reader; a line that is
wrong anywhere else is damage, and said so.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileLines(NamedTuple):
    """The content of a file."""

    good: list[bytes]
    torn: bool
    """Whether a kill tore the last line; the file has to be replaced before it may grow."""
    damaged: bool
    """Whether a line that was complete has changed."""


class LineFile:
    """One such file; not for use by two threads at once, and not on a tree that others use."""

    def __init__(self, tree: Tree, folder: str, name: str, limit: int) -> None:
        self._tree = tree
        self._folder = folder
        self._limit = limit
        self.path = f"{folder}/{name}"

    @property
    def shown(self) -> str:
        """How the file is called in messages."""
        return self._tree.outside(self.path)

    def read(self) -> FileLines:
        """Return the lines that are whole; of a file that is not there, none."""
        try:
            data = state_files.read(self._tree, self.path, self._limit + 1) or b""
        finally:
            self._tree.forget()
        *whole, rest = data.split(b"\n")
        good = [line[9:] for line in whole if _is_whole(line)]
        damaged = len(good) < len(whole) or len(data) > self._limit
        return FileLines(good, bool(rest), damaged)

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines to a file that is there, and return when they are on disk."""
        try:
            place = self._tree.place(self.path)
            descriptor = os.open(place.name, _APPEND, dir_fd=place.folder)
            try:
                state_files.write_all(descriptor, b"".join(map(_sealed, lines)))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        finally:
            self._tree.forget()

    def replace(self, lines: Iterable[bytes]) -> None:
        """Write the file anew, and return when that is on disk: then the old one is gone, and not before."""
        try:
            state_files.prepare_folder(self._tree, self._folder)
            state_files.write(self._tree, self.path, b"".join(map(_sealed, lines)))
        finally:
            self._tree.forget()

    def set_aside(self) -> str:
        """Rename a damaged file, so that a person may look at it; return its new name."""
        return state_files.set_aside(self._tree, self.path)


def _sealed(line: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(line), line)


def _is_whole(line: bytes) -> bool:
    return line[8:9] == b" " and line[:8] == b"%08x" % zlib.crc32(line[9:])
