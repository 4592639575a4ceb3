"""New files of ours without a name so far: written, hashed, and then either installed or removed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from typing import Final, Self

from nodemanager.host.files import file_facts, private
from nodemanager.host.state import state_files

_ZEROS: Final = bytes(64 * 1024)


class Draft:
    """A new file in a folder of ours; removed unless it gets a name."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._name = private.temporary_name()
        self.descriptor = os.open(self._name, state_files.NEW, 0o600, dir_fd=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)

    def copy(self, source: int, size: int) -> tuple[str, int]:
        """Copy up to `size` bytes, holes as holes; return their digest and number."""
        hasher, done = hashlib.sha256(), 0
        for data, end in _extents(source, size):
            while done < end:
                piece = os.pread(source, min(end - done, file_facts.CHUNK), done) if data else _ZEROS
                if not piece:  # it was cut meanwhile
                    break
                piece = piece[: end - done]
                hasher.update(piece)
                if data:
                    os.lseek(self.descriptor, done, os.SEEK_SET)
                    state_files.write_all(self.descriptor, piece)
                done += len(piece)
            if done < end:
                break
        os.ftruncate(self.descriptor, done)
        return hasher.hexdigest(), done

    def put(self, folder: int, name: str) -> int:
        """Give it its name, in place of what is there (a crash may have left it empty), and hand it over."""
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=folder)
        descriptor, self.descriptor = self.descriptor, -1
        return descriptor


def _extents(source: int, size: int) -> Iterator[tuple[bool, int]]:
    """Yield whether there is data or a hole, and where it ends, up to `size`."""
    here = 0
    while here < size:
        try:
            begin = os.lseek(source, here, os.SEEK_DATA)
        except OSError as error:
            # ENXIO: nothing but a hole follows; otherwise the filesystem knows no holes.
            yield error.errno != errno.ENXIO, size
            return
        if begin > here:
            yield False, min(begin, size)
        here = min(os.lseek(source, begin, os.SEEK_HOLE), size)
        if begin < size:
            yield True, here
        else:
            return
