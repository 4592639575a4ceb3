"""The content of a durable store's file, and how damage in it shows.

`objects` is the present, `events` the recent past: each event with the state *before* it, for the
state after it is in `objects` or in the next event of the same key. `meta` is one row that every
transaction rewrites: a sum of digests over all objects, and a seal over itself. SQLite notices damage
to its own structure, but not a flipped bit in a value, nor a page that is an older one of itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from nodemanager.store.base import EventType, StoreEvent, StoreRecord

APPLICATION_ID = 0x4E4D5354
VERSION = 1
STATEMENTS = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    """CREATE TABLE meta (
        version INTEGER NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, compacted INTEGER NOT NULL,
        objects INTEGER NOT NULL, digest INTEGER NOT NULL, seal INTEGER NOT NULL
    )""",
    # The revision that created an object is unique, short and grows: no index on keys is needed.
    """CREATE TABLE objects (
        created INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL
    )""",
    """CREATE TABLE events (
        revision INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL,
        value BLOB, created INTEGER, previous INTEGER, digest INTEGER NOT NULL
    )""",
)
DIGEST_SPACE = 1 << 63


@dataclass(frozen=True, slots=True)
class FileMeta:
    """The row that describes the rest of the file."""

    version: int
    id: str
    revision: int
    compacted: int
    objects: int
    digest: int

    def row(self) -> tuple[object, ...]:
        """Return the columns of `meta`, sealed."""
        fields = astuple(self)
        return (*fields, _digest(*fields))

    @classmethod
    def from_row(cls, row: Sequence[object]) -> FileMeta:
        """Read the columns of `meta`; raise ValueError when the seal does not fit."""
        *fields, seal = row
        if seal != _digest(*fields):
            raise ValueError("the seal of its meta row does not fit")
        return cls(*fields)  # type: ignore[arg-type]  # the seal covers types, too


def object_digest(record: StoreRecord) -> int:
    """Return what an object adds to the sum in `meta`."""
    return _digest(record.key, record.created, record.revision, record.value)


def event_row(event: StoreEvent, at: float) -> tuple[object, ...]:
    """Return the columns of `events`."""
    old = event.previous
    before = (old.value, old.created, old.revision) if old else (None, None, None)
    fields = (event.record.revision, event.kind.value, event.record.key, at, *before)
    return (*fields, _digest(*fields))


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it is in the file: what happened when, and what was before."""

    revision: int
    kind: EventType
    key: str
    at: float
    previous: StoreRecord | None

    @classmethod
    def from_row(cls, row: Sequence[object]) -> StoredEvent:
        """Read the columns of `events`; raise ValueError when the digest does not fit."""
        *fields, digest = row
        if digest != _digest(*fields):
            raise ValueError(f"the event of revision {row[0]} does not fit its digest")
        revision, kind, key, at, value, created, previous = fields
        old = None if value is None else StoreRecord(key, value, created, previous)  # type: ignore[arg-type]
        return cls(revision, EventType(kind), key, at, old)  # type: ignore[arg-type]  # the digest covers types

    def replay(self, records: dict[str, StoreRecord]) -> StoreEvent:
        """Undo the event in `records`, the state after it, and return it; ValueError if it does not fit."""
        after, before = records.get(self.key), self.previous
        if self.kind is EventType.DELETED:
            if after is not None or before is None:
                raise ValueError(f"revision {self.revision} deleted {self.key}, which is there")
            after = StoreRecord(self.key, before.value, before.created, self.revision)
        elif after is None or after.revision != self.revision:
            raise ValueError(f"{self.key} is not as revision {self.revision} left it")
        if before is None:
            del records[self.key]
        else:
            records[self.key] = before
        return StoreEvent(self.kind, after, before)


def _digest(*fields: object) -> int:
    """Return 63 bits over values with their types and lengths."""
    digest = hashlib.blake2b(digest_size=8)
    for field in fields:
        data = field if isinstance(field, bytes) else repr(field).encode("utf-8", "backslashreplace")
        digest.update(f"{type(field).__name__}:{len(data)}:".encode())
        digest.update(data)
    return int.from_bytes(digest.digest(), "big") % DIGEST_SPACE
