"""The calls of `libc`, found by ctypes: for a Python that can load libraries."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from typing import Any, Final

_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
_INT: Final = ctypes.c_int
_HANDLE: Final = struct.Struct("=Ii")
"""The beginning of a `struct file_handle`: the number of bytes that follow, and their type."""
_MAX_HANDLE: Final = 128


def _find(name: str, *types: Any) -> Callable[..., Any]:
    function = getattr(_LIBRARY, name, None)
    if function is None:
        return _absent
    function.argtypes = types
    return function  # type: ignore[no-any-return]


def _absent(*_: object) -> Any:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_inotify_init1 = _find("inotify_init1", _INT)
_inotify_add_watch = _find("inotify_add_watch", _INT, ctypes.c_char_p, ctypes.c_uint32)
_inotify_rm_watch = _find("inotify_rm_watch", _INT, _INT)
_fanotify_init = _find("fanotify_init", ctypes.c_uint, ctypes.c_uint)
_fanotify_mark = _find("fanotify_mark", _INT, ctypes.c_uint, ctypes.c_uint64, _INT, ctypes.c_char_p)
_name_to_handle_at = _find(
    "name_to_handle_at", _INT, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(_INT), _INT
)
_syncfs = _find("syncfs", _INT)
_prctl = _find("prctl", _INT, *[ctypes.c_ulong] * 4)
_mallopt = _find("mallopt", _INT, _INT)
_malloc_trim = _find("malloc_trim", ctypes.c_size_t)
_setproctitle = _find("setproctitle", ctypes.c_char_p, ctypes.c_char_p)


def inotify_init1(flags: int, /) -> int:
    """Return the descriptor of a new instance."""
    return _checked(_inotify_init1(flags))


def inotify_add_watch(instance: int, path: bytes, mask: int, /) -> int:
    """Watch a path; return the number of the watch."""
    return _checked(_inotify_add_watch(instance, path, mask))


def inotify_rm_watch(instance: int, watch: int, /) -> None:
    """Watch something no longer."""
    _checked(_inotify_rm_watch(instance, watch))


def fanotify_init(flags: int, event_flags: int, /) -> int:
    """Return the descriptor of a new group."""
    return _checked(_fanotify_init(flags, event_flags))


def fanotify_mark(group: int, flags: int, mask: int, folder: int, path: bytes, /) -> None:
    """Mark a path, which is relative to an open directory, or take a mark back."""
    _checked(_fanotify_mark(group, flags, mask, folder, path))


def name_to_handle_at(folder: int, path: bytes, flags: int, /) -> bytes:
    """Return the `struct file_handle` of a path, which is relative to an open directory."""
    handle = ctypes.create_string_buffer(_HANDLE.size + _MAX_HANDLE)
    _HANDLE.pack_into(handle, 0, _MAX_HANDLE, 0)
    _checked(_name_to_handle_at(folder, path, handle, ctypes.byref(_INT()), flags))
    size, _ = _HANDLE.unpack_from(handle, 0)
    return handle.raw[: _HANDLE.size + size]


def syncfs(descriptor: int, /) -> None:
    """Return when everything is on disk that was written to the filesystem of an open file."""
    _checked(_syncfs(descriptor))


def prctl(option: int, value: int, /) -> None:
    """Set something about this process."""
    _checked(_prctl(option, value, 0, 0, 0))


def mallopt(option: int, value: int, /) -> bool:
    """Tell the allocator something; return whether it took it."""
    return bool(_mallopt(option, value))


def malloc_trim(kept: int, /) -> bool:
    """Give free memory back to the system, but for so many bytes; return whether there was any."""
    return bool(_malloc_trim(kept))


def forget_program() -> None:
    """Unmap what was read of the program's own file; the kernel has it again when it is needed.

    Only of a program that is one file of its own: the libraries of this one are everybody's.
    """
    _absent()


def setproctitle(title: bytes, /) -> None:
    """Have `ps` show this, without the name of the program in front."""
    _setproctitle(b"-%s", title)
