"""inotify(7), which the standard library lacks: three calls of libc, and the events that are read."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.watches import event_reader
from nodemanager.native import libc

MODIFY: Final = 0x2
ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
UNMOUNT: Final = 0x2000
OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
ONLY_DIRECTORY: Final = 0x0100_0000
DONT_FOLLOW: Final = 0x0200_0000
MASK_ADD: Final = 0x2000_0000

_EVENT: Final = struct.Struct("iIII")


class InotifyEvent(NamedTuple):
    """Something happened to a watched inode, or to an entry of a watched directory."""

    watch: int
    mask: int
    name: bytes
    """The entry; empty when it is about the inode itself."""


class Inotify:
    """One instance, with any number of watches."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise NotSupported("cannot watch files: this system has no inotify")
        try:
            self.descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _refused(error) from error

    def add(self, folder: int, name: str, mask: int) -> int:
        """Watch an entry of an open directory, or the directory itself; return the number of the watch.

        A link is never followed. The same inode is the same watch; its mask grows.
        """
        path = f"/proc/self/fd/{folder}/{name}" if name else f"/proc/self/fd/{folder}"
        flags = mask | MASK_ADD | (DONT_FOLLOW if name else ONLY_DIRECTORY)
        return libc.inotify_add_watch(self.descriptor, os.fsencode(path), flags)

    def remove(self, watch: int) -> None:
        """Watch something no longer; fine when the kernel was faster."""
        with contextlib.suppress(OSError):
            libc.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[InotifyEvent]:
        """Yield what has happened, and do not wait for more."""
        for data in event_reader.chunks(self.descriptor):
            yield from parse(data)

    def close(self) -> None:
        """Watch nothing any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def parse(data: bytes) -> Iterator[InotifyEvent]:
    """Yield the events in what was read."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size + length
        yield InotifyEvent(watch, mask, data[at - length : at].rstrip(b"\0") if length else b"")


def _refused(error: OSError) -> HostError:
    if error.errno == errno.EMFILE:
        return HostError(
            "cannot watch files: root has as many inotify instances, or open files, as it may;"
            " raise sysctl fs.inotify.max_user_instances"
        )
    return HostError(f"cannot watch files: {error.strerror}")
