"""Backups of a durable store: taken while it is in use, proven before they count, and put back.

A restored store continues far behind the last revision that a client can have seen, with no past. So
revisions never go back, and watches of the old store have to list again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from nodemanager.store import database, files, wal
from nodemanager.store.base import StoreCorrupt, StoreError
from nodemanager.store.schema import FileMeta

BUMP = 1_000_000_000
"""How far a restore moves the revision: more than can have happened since the backup."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a backup holds."""

    id: str
    revision: int
    objects: int


def backup(path: Path, target: Path) -> Summary:
    """Copy the store at `path`, which may be in use, to the file `target`, replacing an older backup.

    An older backup is touched only when the new one is complete and proven. This blocks; it
    does not keep others from writing the store.
    """
    files.check_restored(path)
    if not path.exists():
        raise StoreError(f"cannot back up {path}: there is no such file")
    if target.exists() and target.samefile(path):
        raise StoreError(f"cannot back up {path}: the backup would overwrite it")
    _check_log(path)
    try:
        with files.new_file(target) as temporary:
            with closing(files.connect(path)) as connection:
                connection.execute("VACUUM INTO ?", (str(temporary),))
            return _proven(temporary, path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot back up {path} to {target}: {error}") from error


def verify(source: Path) -> Summary:
    """Read a whole backup and check everything in it; raise StoreCorrupt for a bad one."""
    if not source.is_file():
        raise StoreError(f"cannot read the backup {source}: there is no such file")
    if files.beside(source, "-wal").exists():
        raise StoreCorrupt(f"cannot use {source} as a backup: it is a store in use; back it up first")
    try:
        with closing(files.connect(source, immutable=True)) as connection:
            meta = database.read(connection, source).meta
    except sqlite3.Error as error:
        raise StoreError(f"cannot read the backup {source}: {error}") from error
    except StoreCorrupt as error:
        raise StoreCorrupt(f"cannot use {source} as a backup: {error}") from error
    return Summary(meta.id, meta.revision, meta.objects)


def restore(source: Path, path: Path) -> Path | None:
    """Put a backup in the place of the store at `path`, which no process may have open.

    Returns where the old store was moved, if there was one.
    """
    summary = verify(source)
    lock = files.FileLock(path)
    try:
        if path.exists() and path.samefile(source):
            raise StoreError(f"cannot restore {path}: it is the backup itself")
        revision = max(summary.revision, _last_revision(path)) + BUMP
        marker = files.restoring(path)
        with files.new_file(path) as temporary:
            _copy(source, temporary)
            _renew(temporary, revision)
            _proven(temporary, source)
            # Until the new file is in place, an open must neither create an empty
            # store nor take the old one without its write-ahead log.
            os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            files.sync_folder(path)
            aside = _move_aside(path)
        marker.unlink()
        files.sync_folder(path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot restore {path} from {source}: {error}") from error
    finally:
        lock.release()
    return aside


def _copy(source: Path, target: Path) -> None:
    """Fill a file that we have just made, and no other, even if a user has put a link in its place."""
    descriptor = os.open(target, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
    with source.open("rb") as read, os.fdopen(descriptor, "wb") as written:
        shutil.copyfileobj(read, written)


def _check_log(path: Path) -> None:
    """Refuse a crashed store with a damaged log, which SQLite would cut short when we close it."""
    try:
        lock = files.FileLock(path)
    except StoreError:
        return  # it is in use, and was checked when it was opened
    try:
        wal.check(path)
    finally:
        lock.release()


def _proven(copy: Path, original: Path) -> Summary:
    try:
        return verify(copy)
    except StoreCorrupt as error:
        raise StoreCorrupt(f"cannot copy {original}: the copy is damaged: {error}") from error


def _last_revision(path: Path) -> int:
    """Return the revision of the store to be replaced, as far as that can be known.

    Its write-ahead log is not read, for SQLite would fold it in and delete it; the bump covers it.
    """
    if not path.exists():
        return 0
    try:
        with closing(files.connect(path, immutable=True)) as connection:
            return FileMeta.from_row(connection.execute("SELECT * FROM meta").fetchone()).revision
    except (sqlite3.Error, ValueError, TypeError):
        return 0  # it is damaged, which may well be why it is replaced


def _renew(path: Path, revision: int) -> None:
    """Give a copy its new revision, and take its past away."""
    with closing(files.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN IMMEDIATE")
        meta = FileMeta.from_row(connection.execute("SELECT * FROM meta").fetchone())
        connection.execute("DELETE FROM events")
        connection.execute("DELETE FROM meta")
        renewed = replace(meta, revision=revision, compacted=revision)
        connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?, ?)", renewed.row())
        connection.execute("COMMIT")


def _move_aside(path: Path) -> Path | None:
    """Rename a store with its write-ahead log, so that it can still be opened under its new name."""
    files.beside(path, "-shm").unlink(missing_ok=True)
    moved = files.beside(path, time.strftime(".replaced-%Y%m%dT%H%M%SZ", time.gmtime()))
    while moved.exists() or files.beside(moved, "-wal").exists():
        moved = files.beside(moved, "x")
    found = False
    for suffix in ("-wal", ""):
        old = files.beside(path, suffix)
        if old.exists():
            old.rename(files.beside(moved, suffix))
            found = True
    return moved if found else None
