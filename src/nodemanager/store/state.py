"""The present in memory, and the recent past as a log of changes.

The log holds every change after `compacted`, one per revision, and each change carries the state
before it. So the past is never stored: a list at an older revision is the present with the changes
since then undone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nodemanager.store.base import (
    Compacted,
    EventType,
    FutureRevision,
    KeyExists,
    KeyMissing,
    Mismatch,
    StoreEvent,
    StoreListing,
    StoreRecord,
)

FIRST = 1
"""The revision of a store without any change; it is not 0, which in Kubernetes means "any revision"."""

MAX_KEY = 2048
MAX_VALUE = 8 << 20


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the past to remember: an event that is beyond any of these is forgotten."""

    events: int = 10_000
    size: int = 64 << 20
    """Bytes of earlier values."""
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class StoreChange:
    """A requested change; `expected` is the revision it is based on."""

    kind: EventType
    key: str
    value: bytes = b""
    expected: int = 0


def decide(change: StoreChange, current: StoreRecord | None, revision: int) -> StoreEvent:
    """Return the event that the change amounts to at `revision`, or raise why it is refused."""
    key = change.key
    if change.kind is EventType.CREATED:
        if current is not None:
            raise KeyExists(f"cannot create {key}: it exists already")
        return StoreEvent(EventType.CREATED, StoreRecord(key, change.value, revision, revision))
    verb = "update" if change.kind is EventType.UPDATED else "delete"
    if current is None:
        raise KeyMissing(f"cannot {verb} {key}: it does not exist")
    if current.revision != change.expected:
        raise Mismatch(
            f"cannot {verb} {key}: it is at revision {current.revision}, not {change.expected}", current
        )
    value = current.value if change.kind is EventType.DELETED else change.value
    return StoreEvent(change.kind, replace(current, value=value, revision=revision), current)


def check_key(key: str) -> None:
    """Raise ValueError for what cannot be a key."""
    if not key.startswith("/") or key.endswith("/") or "\0" in key:
        raise ValueError(f"cannot use {key!r} as a key: it must start with a slash and not end with one")
    if len(key.encode()) > MAX_KEY:
        raise ValueError(f"cannot use {key[:64]!r}... as a key: it is longer than {MAX_KEY} bytes")


def check_value(key: str, value: bytes) -> None:
    """Raise ValueError for a value that is too large to keep."""
    if len(value) > MAX_VALUE:
        raise ValueError(f"cannot store {key}: {len(value)} bytes are more than {MAX_VALUE}")


def check_prefix(prefix: str) -> None:
    """Raise ValueError for what cannot be a collection."""
    if not prefix.startswith("/") or not prefix.endswith("/"):
        raise ValueError(f"cannot use {prefix!r} as a collection: it must start and end with a slash")


class StoreState:
    """The records, their keys in order, and the log. It knows no clock and no file."""

    def __init__(
        self,
        records: Iterable[StoreRecord] = (),
        log: Sequence[tuple[float, StoreEvent]] = (),
        *,
        revision: int = FIRST,
        retention: Retention | None = None,
    ) -> None:
        self.revision = revision
        self.compacted = revision - len(log)
        self._retention = retention or Retention()
        self._records = {record.key: record for record in records}
        self._keys = sorted(self._records)
        # Index i of both is revision compacted + 1 + i.
        self._log = [event for _, event in log]
        self._times = [at for at, _ in log]
        self._size = sum(_weight(event) for event in self._log)

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._records)

    def get(self, key: str) -> StoreRecord | None:
        """Return the present state of a key."""
        return self._records.get(key)

    def page(self, prefix: str, revision: int, after: str, limit: int) -> StoreListing:
        """Return up to `limit` records (0: all) behind the key `after`, as of a revision (0: now)."""
        check_prefix(prefix)
        if limit < 0:
            raise ValueError(f"cannot list {limit} records")
        at = revision or self.revision
        changed = self._before(prefix, self.events_after(at)) if at != self.revision else {}
        keys, low, high = self._keys, *self._range(prefix)
        gone = {key for key, record in changed.items() if record is None}
        back = [key for key, record in changed.items() if record and key not in self._records]
        if gone or back:
            keys = sorted([*(key for key in keys[low:high] if key not in gone), *back])
            low, high = 0, len(keys)
        low = min(high, max(low, bisect_right(keys, after)))
        stop = min(high, low + limit) if limit else high
        records = [changed.get(key) or self._records[key] for key in keys[low:stop]]
        return StoreListing(records, at, more=stop < high, remaining=high - stop)

    def events_after(self, revision: int) -> Sequence[StoreEvent]:
        """Return every change after a revision."""
        if revision > self.revision:
            raise FutureRevision(
                f"cannot go to revision {revision}: it has not happened yet, we are at {self.revision}"
            )
        if max(revision, FIRST) < self.compacted:  # nothing ever happened before the first
            raise Compacted(
                f"cannot go back to revision {revision}: what happened before {self.compacted} is forgotten"
            )
        return self._log[max(revision, FIRST) - self.compacted :]

    def history(self, prefix: str, after: int) -> Sequence[StoreEvent]:
        """Return the changes under a prefix that came after a revision."""
        check_prefix(prefix)
        return [event for event in self.events_after(after) if event.record.key.startswith(prefix)]

    def apply(self, event: StoreEvent, at: float) -> None:
        """Make a decided change, which must be the next one."""
        record = event.record
        if record.revision != self.revision + 1:
            raise ValueError(f"cannot apply revision {record.revision}: we are at {self.revision}")
        if event.kind is EventType.CREATED:
            self._keys.insert(bisect_left(self._keys, record.key), record.key)
        if event.kind is EventType.DELETED:
            del self._keys[bisect_left(self._keys, record.key)]
            del self._records[record.key]
        else:
            self._records[record.key] = record
        self._log.append(event)
        self._times.append(at)
        self._size += _weight(event)
        self.revision = record.revision

    def compact(self, revision: int) -> None:
        """Forget the changes up to a revision; what is forgotten already stays so."""
        if revision > self.revision:
            raise FutureRevision(
                f"cannot compact to revision {revision}: it has not happened yet, we are at {self.revision}"
            )
        self._forget(revision - self.compacted)

    def trim(self, now: float) -> None:
        """Forget what the retention does not cover."""
        keep, count, size = self._retention, 0, self._size
        total, horizon = len(self._log), now - keep.seconds
        while count < total and (
            total - count > keep.events or size > keep.size or self._times[count] < horizon
        ):
            size -= _weight(self._log[count])
            count += 1
        self._forget(count)

    def _forget(self, count: int) -> None:
        if count > 0:
            self._size -= sum(_weight(event) for event in self._log[:count])
            del self._log[:count], self._times[:count]
            self.compacted += count

    def _range(self, prefix: str) -> tuple[int, int]:
        """Return where the keys of a collection are; "0" is the character behind the slash."""
        return bisect_left(self._keys, prefix), bisect_left(self._keys, prefix[:-1] + "0")

    @staticmethod
    def _before(prefix: str, events: Sequence[StoreEvent]) -> dict[str, StoreRecord | None]:
        """Return what the keys that these events touch were before them."""
        before: dict[str, StoreRecord | None] = {}
        for event in events:
            if event.record.key.startswith(prefix):
                before.setdefault(event.record.key, event.previous)
        return before


def _weight(event: StoreEvent) -> int:
    """What remembering an event costs: the value that is not the present one."""
    return 0 if event.previous is None else len(event.previous.value)
