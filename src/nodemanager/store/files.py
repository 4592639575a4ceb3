"""The files of a durable store: their names, the lock, and how a new file is made.

The lock is a file of its own because closing any descriptor of the database itself would drop
SQLite's locks on it. It stays behind when the store is closed; only the lock on it counts.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from nodemanager.store.base import StoreCorrupt, StoreError

RESTORE_HINT = (
    "move it and its -wal file away, then run `nodemanager server restore` with a backup, or start empty"
)
ENVIRONMENT = frozenset({"BUSY", "LOCKED", "FULL", "IOERR", "CANTOPEN", "PERM", "READONLY", "NOMEM", "AUTH"})
"""SQLite's errors that say something about the machine and nothing about the file."""


def beside(path: Path, suffix: str) -> Path:
    """Return the file next to a database that ends in a suffix, such as `-wal`."""
    return path.with_name(path.name + suffix)


def restoring(path: Path) -> Path:
    """Return the file that says that a restore is under way or was interrupted."""
    return beside(path, ".restoring")


def check_restored(path: Path) -> None:
    """Raise StoreError when a restore was interrupted: the file may be missing, or without its -wal."""
    if restoring(path).exists():
        raise StoreError(
            f"cannot open {path}: a restore was interrupted; run `nodemanager server restore` again"
        )


class FileLock:
    """The right of one process to write a store."""

    def __init__(self, path: Path) -> None:
        """Take the lock of the store at `path`, or raise StoreError."""
        name = beside(path, ".lock")
        try:
            self._descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot open {path}: cannot lock it: {error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise StoreError(
                f"cannot open {path}: another process has it open (it holds {name}); stop that one first"
            ) from error

    def release(self) -> None:
        """Give it back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def connect(path: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """Open a database that exists; a missing one is never created. Transactions are ours to begin.

    An `immutable` one is read without locks, and no files are created beside it.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro&immutable=1' if immutable else 'rw'}",
        uri=True,
        isolation_level=None,
        timeout=5.0,
        check_same_thread=False,  # the writer thread uses it, whichever thread opened it
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def corrupt(path: Path, why: object) -> StoreCorrupt:
    """Return the refusal of a file that is damaged or not ours, with the way out."""
    return StoreCorrupt(f"cannot open {path}: {why}; {RESTORE_HINT}")


def refusal(path: Path, error: sqlite3.Error) -> StoreError:
    """Return what an error of SQLite means while a file is opened or read."""
    name = error_name(error)
    if name.split("_")[0] in ENVIRONMENT:
        return StoreError(f"cannot open {path}: {error} ({name})")
    return corrupt(path, f"it is damaged or not a store of nodemanager: {error}")


def error_name(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error without its prefix, such as `IOERR_FSYNC`; empty when it has none."""
    return str(getattr(error, "sqlite_errorname", "")).removeprefix("SQLITE_")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield an empty 0600 file beside `path`; when the block has filled it, it durably replaces `path`.

    So there is never half a file at `path`, and an empty one there is damaged.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def create(path: Path, statements: tuple[str, ...], meta: tuple[object, ...]) -> None:
    """Write a new database with these statements and this `meta` row."""
    with new_file(path) as temporary, closing(connect(temporary)) as connection:
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only before the first table
        connection.execute("BEGIN")
        for statement in statements:
            connection.execute(statement)
        marks = ", ".join("?" * len(meta))
        connection.execute(f"INSERT INTO meta VALUES ({marks})", meta)  # noqa: S608 (only question marks)
        connection.execute("COMMIT")


def sync_folder(path: Path) -> None:
    """Make renames in the folder of a file durable."""
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
