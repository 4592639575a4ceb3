"""Files that only we may read: written whole or not at all, and refused when other users can read them."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

MAX_SIZE = 1 << 20
"""Larger than any key, certificate or kubeconfig of ours."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class UnsafeFile(Exception):
    """A private file or folder is not private, or is not what it should be."""


def prepare_folder(folder: Path) -> None:
    """Create a folder for us alone, or check that it is: no other user may write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise UnsafeFile(f"cannot use {folder}: it belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFile(f"cannot use {folder}: others may write there; run chmod go-w {folder}")


def read(path: Path) -> bytes | None:
    """Return a private file, or None when there is none; raise when it is not private."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise UnsafeFile(f"cannot read {path}: {err.strerror}") from err
    try:
        _check(path, os.fstat(descriptor))
        return _read_all(descriptor)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, MAX_SIZE):
        parts.append(part)
    return b"".join(parts)


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFile(f"cannot use {path}: it is not a regular file")
    if status.st_uid != os.geteuid():
        raise UnsafeFile(f"cannot use {path}: it belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & _OTHERS:
        raise UnsafeFile(f"cannot use {path}: others may read or write it; run chmod 600 {path}")
    if status.st_size > MAX_SIZE:
        raise UnsafeFile(f"cannot use {path}: it has {status.st_size} bytes, more than {MAX_SIZE}")


def write(path: Path, data: bytes) -> None:
    """Put a private file in place at once, over an older one if there is one."""
    temporary = _temporary(path, data)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def create(path: Path, data: bytes) -> bool:
    """Put a private file in place unless there is one already; return whether it is ours.

    A link fails when the name is taken, so two processes that start together agree on one file.
    """
    temporary = _temporary(path, data)
    try:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(temporary)
            _sync_folder(path.parent)
            return True
        return False
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(path: Path, data: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk must not leave half a key behind
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
