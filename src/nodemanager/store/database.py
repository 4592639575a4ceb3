"""The SQLite file of a durable store: checked when it is opened, changed in whole transactions.

Everything here blocks, and after `open` belongs to one thread.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nodemanager.store import files, wal
from nodemanager.store.base import EventType, StoreClosed, StoreCorrupt, StoreError, StoreEvent, StoreRecord
from nodemanager.store.schema import (
    APPLICATION_ID,
    DIGEST_SPACE,
    STATEMENTS,
    VERSION,
    FileMeta,
    StoredEvent,
    event_row,
    object_digest,
)
from nodemanager.store.state import FIRST

PASSING = frozenset({"FULL", "BUSY", "LOCKED", "NOMEM", "IOERR_WRITE", "IOERR_SHMSIZE", "IOERR_NOMEM"})
"""Failed writes after which the next one may be tried on the same connection. A failed fsync is not among
them: the kernel may have dropped what it could not write, and the next fsync would say that all is well."""

_INCREMENTAL = 2
SPARE_PAGES = 1024
"""Free pages, of 4 KiB each, that the file may always have."""
VACUUM_PAGES = 256
"""How many are given back with one change."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds: the present, and the log with the time of each event."""

    meta: FileMeta
    records: list[StoreRecord]
    log: list[tuple[float, StoreEvent]]


def read(connection: sqlite3.Connection, path: Path) -> Contents:
    """Read a whole file, checking everything; raise StoreCorrupt or StoreError."""
    try:
        connection.execute("BEGIN")
        try:
            return _read(connection, path)
        finally:
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise files.refusal(path, error) from error
    except (ValueError, TypeError) as error:
        raise files.corrupt(path, f"it is damaged: {error}") from error


def _read(connection: sqlite3.Connection, path: Path) -> Contents:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise files.corrupt(path, "it is not a store of nodemanager")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise ValueError(" ".join(str(verdict).split()))
    rows = connection.execute("SELECT * FROM meta").fetchall()
    if len(rows) != 1:
        raise ValueError(f"it has {len(rows)} meta rows")
    if isinstance(rows[0][0], int) and rows[0][0] > VERSION:
        raise StoreCorrupt(
            f"cannot open {path}: it is of version {rows[0][0]}, and this nodemanager knows {VERSION};"
            " run the newer nodemanager that wrote it, or restore a backup with `nodemanager server restore`"
        )
    meta = FileMeta.from_row(rows[0])
    records = _read_objects(connection, meta)
    return Contents(meta, records, _read_log(connection, meta, records))


def _read_objects(connection: sqlite3.Connection, meta: FileMeta) -> list[StoreRecord]:
    rows = connection.execute("SELECT key, value, created, revision FROM objects")
    records = [StoreRecord(*row) for row in rows]
    digest = sum(object_digest(record) for record in records) % DIGEST_SPACE
    if (len(records), digest) != (meta.objects, meta.digest):
        raise ValueError("its objects are not those of its last transaction")
    return records


def _read_log(
    connection: sqlite3.Connection, meta: FileMeta, records: list[StoreRecord]
) -> list[tuple[float, StoreEvent]]:
    """Read the events backwards from the present, which proves that each of them fits the next."""
    past = {record.key: record for record in records}
    if len(past) != len(records):
        raise ValueError("it has a key twice")
    log: list[tuple[float, StoreEvent]] = []
    for row in connection.execute("SELECT * FROM events ORDER BY revision DESC"):
        undo = StoredEvent.from_row(row)
        if undo.revision != meta.revision - len(log):
            raise ValueError(f"the event of revision {meta.revision - len(log)} is missing")
        log.append((undo.at, undo.replay(past)))
    if len(log) != meta.revision - meta.compacted:
        raise ValueError(f"it has {len(log)} events, not {meta.revision - meta.compacted}")
    log.reverse()
    return log


class Database:
    """The open file. `broken` says why it cannot be written any more, if so."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: files.FileLock, meta: FileMeta
    ) -> None:
        self.path = path
        self.broken = ""
        self._connection = connection
        self._lock = lock
        self._meta = meta

    @classmethod
    def open(cls, path: Path, *, synchronous: str = "FULL") -> tuple[Database, Contents]:
        """Open or create the file for this process alone, and read it."""
        if synchronous not in {"FULL", "NORMAL", "OFF"}:
            raise ValueError(f"cannot open {path}: synchronous must be FULL, NORMAL or OFF")
        lock = files.FileLock(path)
        try:
            _prepare(path)
            if synchronous == "FULL":
                wal.check(path)
            try:
                connection = files.connect(path)
            except sqlite3.Error as error:
                raise files.refusal(path, error) from error
            try:
                contents = read(connection, path)
                _configure(connection, path, synchronous)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            lock.release()
            raise
        return cls(path, connection, lock, contents.meta), contents

    def commit(self, events: Sequence[StoreEvent], at: float, forget: int) -> None:
        """Write changes in one transaction, and forget a few old events up to revision `forget` with them.

        Raises StoreClosed when that failed; then nothing was changed.
        """
        meta = self._meta
        objects, digest = meta.objects, meta.digest
        for event in events:
            objects += {EventType.CREATED: 1, EventType.UPDATED: 0, EventType.DELETED: -1}[event.kind]
            if event.previous is not None:
                digest -= object_digest(event.previous)
            if event.kind is not EventType.DELETED:
                digest += object_digest(event.record)
        forget = min(forget, meta.compacted + 2 * len(events) + 16)
        self._transact(
            replace(
                meta,
                revision=events[-1].record.revision,
                compacted=max(meta.compacted, forget),
                objects=objects,
                digest=digest % DIGEST_SPACE,
            ),
            events,
            at,
        )

    def forget(self, revision: int, limit: int) -> bool:
        """Forget up to `limit` events that are not younger than `revision`; return whether that was all."""
        target = min(revision, self._meta.compacted + limit)
        if target > self._meta.compacted:
            self._transact(replace(self._meta, compacted=target), (), 0.0)
        return target >= revision

    def probe(self) -> None:
        """Write what is there once more, to see whether the disk takes it."""
        self._transact(self._meta, (), 0.0)

    def close(self) -> None:
        """Close the file, folding the write-ahead log into it, and let others open it."""
        try:
            self._connection.close()
        finally:
            self._lock.release()

    def _transact(self, meta: FileMeta, events: Sequence[StoreEvent], at: float) -> None:
        if self.broken:
            raise StoreClosed(self.broken)
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for event in events:
                self._write(event, at)
            if meta.compacted != self._meta.compacted:
                connection.execute("DELETE FROM events WHERE revision <= ?", (meta.compacted,))
            connection.execute("DELETE FROM meta")
            connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?, ?)", meta.row())
            connection.execute("COMMIT")
        except (sqlite3.Error, StoreCorrupt) as error:
            raise self._failed(error) from error
        self._meta = meta
        self._give_back()

    def _give_back(self) -> None:
        """Give some of the room that forgotten events leave back to the disk: a little with each change.

        In a transaction of its own, since it may need room itself: the change before it is done, whatever
        becomes of this.
        """
        try:
            free, pages = (
                self._connection.execute(f"PRAGMA {what}").fetchone()[0]
                for what in ("freelist_count", "page_count")
            )
            if free > max(SPARE_PAGES, pages // 4):  # what is kept is used again, which costs less
                # One step is one page; `execute` would take a single one, for they have no columns.
                self._connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        except sqlite3.Error as error:
            self._failed(error)  # says whether further changes can be tried

    def _write(self, event: StoreEvent, at: float) -> None:
        record, previous = event.record, event.previous
        execute = self._connection.execute
        if previous is None:
            cursor = execute(
                "INSERT INTO objects (created, key, value, revision) VALUES (?, ?, ?, ?)",
                (record.created, record.key, record.value, record.revision),
            )
        elif event.kind is EventType.UPDATED:
            cursor = execute(
                "UPDATE objects SET value = ?, revision = ? WHERE created = ? AND revision = ?",
                (record.value, record.revision, record.created, previous.revision),
            )
        else:
            cursor = execute(
                "DELETE FROM objects WHERE created = ? AND revision = ?", (record.created, previous.revision)
            )
        if cursor.rowcount != 1:
            raise files.corrupt(self.path, f"{record.key} is not what we wrote")
        execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", event_row(event, at))

    def _failed(self, error: sqlite3.Error | StoreCorrupt) -> StoreClosed:
        """Take the transaction back, and find out whether another one may be tried."""
        name = files.error_name(error) if isinstance(error, sqlite3.Error) else "CORRUPT"
        why = f"cannot write {self.path}: {error} ({name})"
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            rows = self._connection.execute("SELECT * FROM meta").fetchall()
            intact = rows == [self._meta.row()]
        except sqlite3.Error:
            intact = False
        if name not in PASSING or not intact:
            self.broken = f"{why}; mend the disk and start again"
            return StoreClosed(self.broken)
        # Emptying the write-ahead log frees room, and removes what the failed transaction left there.
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return StoreClosed(why)


def _prepare(path: Path) -> None:
    """Refuse what an interrupted restore or a lost file left; create a new file where there is none."""
    files.check_restored(path)
    if path.exists():
        if path.stat().st_size == 0:  # to SQLite this would be a valid, empty database
            raise files.corrupt(path, "it is empty")
        return
    if files.beside(path, "-wal").exists():
        raise files.corrupt(path, "it is missing, but its -wal file is there")
    try:
        files.create(path, STATEMENTS, FileMeta(VERSION, uuid.uuid4().hex, FIRST, FIRST, 0, 0).row())
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot create {path}: {error}") from error


def _configure(connection: sqlite3.Connection, path: Path, synchronous: str) -> None:
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        _make_vacuumable(connection)
    except sqlite3.Error as error:
        raise files.refusal(path, error) from error
    if mode != "wal":
        raise StoreError(f"cannot open {path}: its file system has no write-ahead log (mode {mode})")


def _make_vacuumable(connection: sqlite3.Connection) -> None:
    """Rewrite a file of an older version once, so that it can shrink; without room for that it stays."""
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL:
        return
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
    except sqlite3.Error as error:
        if files.error_name(error) not in PASSING:
            raise
