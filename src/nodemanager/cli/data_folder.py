"""Backups of a data folder that may belong to another user: root never follows what that user put there.

The server of a service runs as a user of its own. What is done in its folder is done as that user; and
between the folder and the file that root named there is a copy, in a folder that was empty.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nodemanager.store import backup as backups
from nodemanager.store import files
from nodemanager.store.backup import Summary

_COPY = "copy"


def backup(database: Path, file: Path) -> Summary:
    """Write a consistent copy of a store to a file."""
    with _between(database.parent) as between:
        if between is None:
            return backups.backup(database, file)
        with _as_owner(database.parent):
            summary = backups.backup(database, between / _COPY)
        with files.new_file(file) as temporary:
            _copy(between / _COPY, temporary)
        return summary


def restore(file: Path, database: Path) -> Path | None:
    """Put a copy in the place of a store; return where the old one was moved."""
    with _between(database.parent) as between:
        if between is None:
            return backups.restore(file, database)
        copy = between / _COPY
        shutil.copyfile(file, copy)
        owner = database.parent.stat()
        for path in (copy, between):
            os.chown(path, owner.st_uid, owner.st_gid)
        with _as_owner(database.parent):
            return backups.restore(copy, database)


@contextlib.contextmanager
def _between(folder: Path) -> Iterator[Path | None]:
    """Yield an empty folder, if root works for another user here; None if everything is our own."""
    if os.geteuid() != 0 or not folder.is_dir() or folder.stat().st_uid == 0:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="nodemanager-") as name:
        owner = folder.stat()
        os.chown(name, owner.st_uid, owner.st_gid)
        yield Path(name)


@contextlib.contextmanager
def _as_owner(folder: Path) -> Iterator[None]:
    """Have nothing but the rights of the user that a folder belongs to."""
    owner, groups = folder.stat(), os.getgroups()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _copy(source: Path, target: Path) -> None:
    """Copy a file that another user made, and not what it may point to."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as found, target.open("wb") as copied:
        shutil.copyfileobj(found, copied)
