"""System calls that Python does not have, for a user who wants to do harm with them."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Final

LIBC: Final = ctypes.CDLL(None, use_errno=True)
AT_FDCWD: Final = -100
EXCHANGE: Final = 2
NEW_NAMESPACES: Final = 0x10000000 | 0x00020000
"""CLONE_NEWUSER and CLONE_NEWNS: a user who is root for herself, and mounts of her own."""
EVENTS: Final = 0x100 | 0x80 | 0x4
"""IN_CREATE, IN_MOVED_TO, IN_ATTRIB."""
ACCESS: Final = "system.posix_acl_access"
DEFAULT: Final = "system.posix_acl_default"
CAPABILITY: Final = "security.capability"
ALL_CAPABILITIES: Final = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
_NOBODY: Final = 0xFFFFFFFF
_EVENT: Final = struct.Struct("iIII")


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def exchange(one: str, other: str) -> None:
    """Have two names change places at one moment."""
    _checked(LIBC.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE))


def acl(uid: int) -> bytes:
    """Return an ACL that lets a user do everything, as the kernel wants to have it."""
    entries = [(0x01, 7, _NOBODY), (0x02, 7, uid), (0x04, 7, _NOBODY), (0x10, 7, _NOBODY), (0x20, 7, _NOBODY)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


def own_namespaces() -> None:
    """Become root of a user namespace that has nobody else in it."""
    uid, gid = os.getuid(), os.getgid()
    _checked(LIBC.unshare(NEW_NAMESPACES))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text, encoding="ascii")


def mount(source: str, target: str, kind: str, flags: int = 0) -> None:
    """Mount something, in one's own namespace."""
    _checked(LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, None))


class Inotify:
    """Hears of new names in directories."""

    def __init__(self) -> None:
        self._descriptor = _checked(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._folders: dict[int, str] = {}

    def fileno(self) -> int:
        return self._descriptor

    def follow(self, folder: str) -> None:
        self._folders[_checked(LIBC.inotify_add_watch(self._descriptor, folder.encode(), EVENTS))] = folder

    def names(self) -> list[str]:
        """Return the paths that appeared since the last call."""
        try:
            data = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            watch, _, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if watch in self._folders and name:
                found.append(f"{self._folders[watch]}/{os.fsdecode(name)}")
        return found
