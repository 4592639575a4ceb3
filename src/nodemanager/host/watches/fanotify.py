"""fanotify(7), which unlike inotify says which process it was: a few calls of libc, and the events.

Needs CAP_SYS_ADMIN and Linux 5.9, and a filesystem that has handles for its files.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from nodemanager.host.base import NotSupported
from nodemanager.host.watches import event_reader
from nodemanager.native import libc

ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
OVERFLOW: Final = 0x4000
ON_CHILD: Final = 0x0800_0000
ON_DIRECTORY: Final = 0x4000_0000
WATCHED: Final = (
    ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | ON_CHILD | ON_DIRECTORY
)  # not each single write: a log beside a managed file is written to all the time

_CLOEXEC, _NONBLOCK, _REPORT_FOLDER, _REPORT_NAME = 0x1, 0x2, 0x400, 0x800
_ADD, _REMOVE, _ONLY_DIRECTORY = 0x1, 0x2, 0x8
_EMPTY_PATH, _HANDLE_FID = 0x1000, 0x200
_EVENT: Final = struct.Struct("=IBBHQii")
_INFO: Final = struct.Struct("=BBH")
_HANDLE: Final = struct.Struct("=Ii")
_FSID: Final = 8
_HALF: Final = struct.Struct("=I")
_FOLDER_AND_NAME: Final = 2


class FanotifyEvent(NamedTuple):
    """A process did something to an entry of a marked directory."""

    mask: int
    pid: int
    folder: bytes
    """The same bytes that marking the directory returned."""
    name: bytes


class Fanotify:
    """One group, with any number of marked directories."""

    def __init__(self) -> None:
        flags = _CLOEXEC | _NONBLOCK | _REPORT_FOLDER | _REPORT_NAME
        try:
            self.descriptor = libc.fanotify_init(flags, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise NotSupported(f"cannot tell who changes files: fanotify: {error.strerror}") from error

    def close(self) -> None:
        """Hear no more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def add(self, folder: int) -> bytes:
        """Mark an open directory, and return what its events are known by; raises OSError."""
        key = self._key(folder)
        self._change(_ADD, folder)
        return key

    def remove(self, folder: int) -> None:
        """Mark an open directory no longer; raises OSError."""
        self._change(_REMOVE, folder)

    def read(self) -> Iterator[FanotifyEvent]:
        """Return what has happened since the last time; raises OSError."""
        for data in event_reader.chunks(self.descriptor):
            yield from parse(data)

    def _change(self, flags: int, folder: int) -> None:
        libc.fanotify_mark(self.descriptor, flags | _ONLY_DIRECTORY, WATCHED, folder, b".")

    def _key(self, folder: int) -> bytes:
        """Return the identity of a directory, in the form in which events carry it."""
        try:
            handle = libc.name_to_handle_at(folder, b"", _EMPTY_PATH | _HANDLE_FID)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the latter flag came with Linux 6.5
                raise
            handle = libc.name_to_handle_at(folder, b"", _EMPTY_PATH)
        number = os.fstatvfs(folder).f_fsid & 0xFFFF_FFFF  # musl tells no more of it
        return _HALF.pack(number) + handle


def parse(data: bytes) -> Iterator[FanotifyEvent]:
    """Return the events in what was read; what is not about an entry of a directory is left out."""
    at = 0
    while at + _EVENT.size <= len(data):
        length, _, _, header, mask, _, pid = _EVENT.unpack_from(data, at)
        if length < _EVENT.size:
            return  # nothing that the kernel writes, and no way to find the next
        if mask & OVERFLOW:
            yield FanotifyEvent(mask, 0, b"", b"")
        else:
            yield from _entry(data[at + header : at + length], mask, pid)
        at += length


def _entry(info: bytes, mask: int, pid: int) -> Iterator[FanotifyEvent]:
    start = _INFO.size + _FSID
    if len(info) < start + _HANDLE.size:
        return
    kind, _, length = _INFO.unpack_from(info)
    size, _ = _HANDLE.unpack_from(info, start)
    end = start + _HANDLE.size + size
    if kind == _FOLDER_AND_NAME and end < length <= len(info):
        folder = info[_INFO.size : _INFO.size + _HALF.size] + info[start:end]
        yield FanotifyEvent(mask, pid, folder, info[end:length].partition(b"\0")[0])
