"""What a store promises: revisioned values, atomic changes, and watches that miss nothing.

Keys are paths such as `/common.nodemanager/managednodes/ns/name`; a collection is a prefix that
ends in `/`. There is one revision for the whole store; every change takes the next one. Values are
opaque bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class StoreError(Exception):
    """Root of what a store raises."""


class KeyExists(StoreError):
    """A create met a key that is there already."""


class KeyMissing(StoreError):
    """An update or delete met a key that is not there."""


class Mismatch(StoreError):
    """An update or delete expected another revision than that of `current`, which is there."""

    def __init__(self, message: str, current: StoreRecord) -> None:
        super().__init__(message)
        self.current = current


class Compacted(StoreError):
    """The store does not remember so old a revision."""


class FutureRevision(StoreError):
    """The store has not reached that revision yet."""


class StoreClosed(StoreError):
    """The store was closed, or cannot write (a full or failing disk): nothing was changed.

    Only when the disk failed to confirm a write may the file still show it after a restart.
    """


class StoreCorrupt(StoreError):
    """The file is damaged, of a newer version, or no store at all; the message says what to do."""


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """One value, with when it was created and last changed."""

    key: str
    value: bytes = field(repr=False)
    created: int
    revision: int


class EventType(Enum):
    """What happened to a key."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One change. `record` is the new state; for a deletion the last one, with the deletion's revision."""

    kind: EventType
    record: StoreRecord
    previous: StoreRecord | None = None
    """The state before, for updates and deletions: selectors need both sides."""


@dataclass(frozen=True, slots=True)
class StoreListing:
    """A part of a collection as it was at one revision, in the order of keys."""

    records: list[StoreRecord]
    revision: int
    more: bool = False
    remaining: int = 0
    """How many keys follow after the last one."""


Listener = Callable[[Sequence[StoreEvent]], None]


class Subscription(Protocol):
    """A running watch."""

    async def next(self) -> Sequence[StoreEvent]:
        """Return the next events, at least one, in order; raise Compacted when we fell too far behind."""

    @property
    def delivered(self) -> int:
        """The revision up to which nothing is outstanding: what a bookmark may say."""

    def close(self) -> None:
        """End it."""


class Store(Protocol):
    """Revisioned objects. One event loop, one writer."""

    @property
    def revision(self) -> int:
        """The revision of the last change."""

    @property
    def compacted(self) -> int:
        """The revision before which nothing is remembered."""

    def get(self, key: str) -> StoreRecord | None:
        """Return the present state of a key."""

    def list(self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0) -> StoreListing:
        """Return keys under a prefix, now or at a revision; `after` and `limit` make pages."""

    async def create(self, key: str, value: bytes) -> StoreRecord:
        """Add a key; return when it is durable."""

    async def update(self, key: str, value: bytes, expected: int) -> StoreRecord:
        """Replace a value whose revision is `expected`; return when it is durable."""

    async def delete(self, key: str, expected: int) -> StoreRecord:
        """Remove a key whose revision is `expected`; return its last state with the deletion's revision."""

    def watch(self, prefix: str, after: int) -> Subscription:
        """Follow all changes under a prefix that came after a revision."""

    def listen(self, listener: Listener) -> None:
        """Call a listener with all changes, as soon as they have happened; it must be quick and not raise."""

    async def compact(self, revision: int) -> None:
        """Forget what is older than a revision."""

    async def probe(self) -> None:
        """Write without changing anything; raise StoreClosed when that cannot be done."""

    async def close(self) -> None:
        """Finish what is under way, and close."""
