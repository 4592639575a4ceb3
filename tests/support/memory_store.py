"""The twin of the durable store, which forgets everything when it is closed."""

from __future__ import annotations

import time
from collections.abc import Callable

from nodemanager.store import state as state_
from nodemanager.store.base import EventType, Listener, StoreClosed, StoreListing, StoreRecord, Subscription
from nodemanager.store.broadcast import BUFFER, Broadcast
from nodemanager.store.state import Retention, StoreChange, StoreState


class MemoryStore:
    """A Store in memory."""

    def __init__(
        self,
        *,
        retention: Retention | None = None,
        buffer: int = BUFFER,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._state = StoreState(retention=retention)
        self._broadcast = Broadcast(self._state.revision, buffer)

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        return self._state.revision

    @property
    def compacted(self) -> int:
        """The revision before which nothing is remembered."""
        return self._state.compacted

    def get(self, key: str) -> StoreRecord | None:
        """Return the present state of a key."""
        return self._state.get(key)

    def list(self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0) -> StoreListing:
        """Return keys under a prefix, now or at a revision; `after` and `limit` make pages."""
        return self._state.page(prefix, revision, after, limit)

    async def create(self, key: str, value: bytes) -> StoreRecord:
        """Add a key."""
        return self._change(StoreChange(EventType.CREATED, key, value))

    async def update(self, key: str, value: bytes, expected: int) -> StoreRecord:
        """Replace a value whose revision is `expected`."""
        return self._change(StoreChange(EventType.UPDATED, key, value, expected))

    async def delete(self, key: str, expected: int) -> StoreRecord:
        """Remove a key whose revision is `expected`; return its last state with the deletion's revision."""
        return self._change(StoreChange(EventType.DELETED, key, expected=expected))

    def watch(self, prefix: str, after: int) -> Subscription:
        """Follow all changes under a prefix that came after a revision."""
        return self._broadcast.subscribe(prefix, self._state.history(prefix, after))

    def listen(self, listener: Listener) -> None:
        """Call somebody with all changes, as soon as they have happened."""
        self._broadcast.listen(listener)

    async def compact(self, revision: int) -> None:
        """Forget what is older than a revision."""
        self._state.compact(revision)

    async def probe(self) -> None:
        """Raise StoreClosed when changes are refused."""
        if self._broadcast.closed:
            raise StoreClosed("cannot write: the store is closed")

    async def close(self) -> None:
        """End all watches and refuse all changes from now on."""
        self._broadcast.close()

    def _change(self, change: StoreChange) -> StoreRecord:
        state_.check_key(change.key)
        state_.check_value(change.key, change.value)
        if self._broadcast.closed:
            raise StoreClosed(f"cannot change {change.key}: the store is closed")
        event = state_.decide(change, self._state.get(change.key), self._state.revision + 1)
        now = self._now()
        self._state.apply(event, now)
        self._state.trim(now)
        self._broadcast.publish([event])
        return event.record
