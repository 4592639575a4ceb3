"""The durable store: reads come from memory, and a change is reported only after it is on disk.

Changes are decided in the loop's thread and written by one writer thread. While it writes, further
changes gather, and go into its next transaction together. Only after the commit is memory changed, are
watches told and callers answered; when it fails, the callers of that transaction get StoreClosed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nodemanager.store import state as state_
from nodemanager.store.base import (
    EventType,
    Listener,
    StoreClosed,
    StoreError,
    StoreEvent,
    StoreListing,
    StoreRecord,
    Subscription,
)
from nodemanager.store.broadcast import BUFFER, Broadcast
from nodemanager.store.database import Contents, Database
from nodemanager.store.state import Retention, StoreChange, StoreState

MAX_BATCH = 256
COMPACTION_STEP = 500


@dataclass(frozen=True, slots=True)
class SqliteOptions:
    """How a durable store behaves."""

    retention: Retention = field(default_factory=Retention)
    buffer: int = BUFFER
    """How many events a watch may be behind."""
    synchronous: str = "FULL"
    """SQLite's setting: with less than FULL, a power cut may take back what was acknowledged."""
    now: Callable[[], float] = time.time


@dataclass(slots=True)
class _Batch:
    """One transaction: its events, and what to answer once it is through."""

    events: list[StoreEvent] = field(default_factory=list)
    answers: list[tuple[asyncio.Future[StoreRecord], StoreRecord | StoreError]] = field(default_factory=list)
    at: float = 0.0


class SqliteStore:
    """A Store in one SQLite file. Open it with `open`."""

    def __init__(
        self, database: Database, contents: Contents, writer: ThreadPoolExecutor, options: SqliteOptions
    ) -> None:
        self._database = database
        self._writer = writer
        self._now = options.now
        self._state = StoreState(
            contents.records, contents.log, revision=contents.meta.revision, retention=options.retention
        )
        self._state.trim(self._now())
        self._broadcast = Broadcast(self._state.revision, options.buffer)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[StoreChange, asyncio.Future[StoreRecord]]] = deque()
        self._writing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing: asyncio.Task[None] | None = None
        self.id = contents.meta.id

    @classmethod
    async def open(cls, path: Path, options: SqliteOptions | None = None) -> SqliteStore:
        """Open or create a file; raise StoreCorrupt for a damaged one, StoreError when it is in use."""
        options = options or SqliteOptions()
        writer = ThreadPoolExecutor(1, "store-writer")
        opening = writer.submit(lambda: Database.open(path, synchronous=options.synchronous))
        try:
            database, contents = await asyncio.wrap_future(opening)
        except BaseException:
            opening.add_done_callback(_close_unused)  # when we were cancelled, it may yet succeed
            writer.shutdown(wait=False)
            raise
        return cls(database, contents, writer, options)

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        return self._state.revision

    @property
    def compacted(self) -> int:
        """The revision before which nothing is remembered."""
        return self._state.compacted

    @property
    def broken(self) -> str:
        """Why nothing can be written until the store is opened again; empty when all is well."""
        return self._database.broken

    def get(self, key: str) -> StoreRecord | None:
        """Return the present state of a key."""
        return self._state.get(key)

    def list(self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0) -> StoreListing:
        """Return keys under a prefix, now or at a revision; `after` and `limit` make pages."""
        return self._state.page(prefix, revision, after, limit)

    async def create(self, key: str, value: bytes) -> StoreRecord:
        """Add a key; return when it is durable."""
        return await self._change(StoreChange(EventType.CREATED, key, value))

    async def update(self, key: str, value: bytes, expected: int) -> StoreRecord:
        """Replace a value whose revision is `expected`; return when it is durable."""
        return await self._change(StoreChange(EventType.UPDATED, key, value, expected))

    async def delete(self, key: str, expected: int) -> StoreRecord:
        """Remove a key whose revision is `expected`; return its last state with the deletion's revision."""
        return await self._change(StoreChange(EventType.DELETED, key, expected=expected))

    def watch(self, prefix: str, after: int) -> Subscription:
        """Follow all changes under a prefix that came after a revision."""
        return self._broadcast.subscribe(prefix, self._state.history(prefix, after))

    def listen(self, listener: Listener) -> None:
        """Call a listener with all changes, as soon as they have happened."""
        self._broadcast.listen(listener)

    async def compact(self, revision: int) -> None:
        """Forget what is older than a revision, in small steps between which others may write."""
        if self._closing is not None:
            raise StoreClosed("cannot compact: the store is closed")
        self._state.compact(revision)
        done = False
        while not done:
            done = await self._loop.run_in_executor(
                self._writer, self._database.forget, revision, COMPACTION_STEP
            )

    async def probe(self) -> None:
        """Write to the disk without changing anything; raise StoreClosed when that cannot be done."""
        if self._closing is not None:
            raise StoreClosed("cannot write: the store is closed")
        await self._loop.run_in_executor(self._writer, self._database.probe)

    async def close(self) -> None:
        """Finish what is under way, and close; a second call waits for the first."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(), name="close the store")
        await asyncio.shield(self._closing)  # a caller that gives up must not leave the file half open

    async def _close(self) -> None:
        await self._idle.wait()
        self._broadcast.close()
        try:
            await self._loop.run_in_executor(self._writer, self._database.close)
        finally:
            self._writer.shutdown(wait=False)

    async def _change(self, change: StoreChange) -> StoreRecord:
        state_.check_key(change.key)
        state_.check_value(change.key, change.value)
        if self._closing is not None:
            raise StoreClosed(f"cannot change {change.key}: the store is closed")
        answer: asyncio.Future[StoreRecord] = self._loop.create_future()
        self._queue.append((change, answer))
        self._kick()
        return await answer

    def _kick(self) -> None:
        """Start the next transaction, unless one is under way."""
        while self._queue and not self._writing:
            batch = self._gather()
            if batch.events:
                self._writing = True
                self._idle.clear()
                self._submit(batch)

    def _gather(self) -> _Batch:
        """Decide the changes that wait, as if those before them in the batch had happened."""
        batch = _Batch(at=self._now())
        ahead: dict[str, StoreRecord | None] = {}
        while self._queue and len(batch.events) < MAX_BATCH:
            change, answer = self._queue.popleft()
            if answer.done():  # its caller gave up before anything happened
                continue
            key = change.key
            current = ahead[key] if key in ahead else self._state.get(key)
            try:
                event = state_.decide(change, current, self._state.revision + len(batch.events) + 1)
            except StoreError as refused:
                if key in ahead:  # the refusal is true only if the transaction succeeds
                    batch.answers.append((answer, refused))
                else:
                    answer.set_exception(refused)
                continue
            ahead[key] = None if event.kind is EventType.DELETED else event.record
            batch.events.append(event)
            batch.answers.append((answer, event.record))
        return batch

    def _submit(self, batch: _Batch) -> None:
        writing = self._writer.submit(self._database.commit, batch.events, batch.at, self._state.compacted)

        def tell(written: Future[None]) -> None:
            # The loop is gone when it was ended without closing the store; then no task listens.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._written, batch, written.exception())

        writing.add_done_callback(tell)

    def _written(self, batch: _Batch, failure: BaseException | None) -> None:
        self._writing = False
        if failure is None:
            self._apply(batch.events, batch.at)
        for answer, outcome in batch.answers:
            if answer.done():
                continue
            if failure is not None:
                # Every caller gets an exception of its own, for raising one adds to its traceback.
                answer.set_exception(StoreClosed(str(failure)))
            elif isinstance(outcome, StoreError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)
        self._kick()
        if not self._writing:
            self._idle.set()

    def _apply(self, events: Sequence[StoreEvent], at: float) -> None:
        for event in events:
            self._state.apply(event, at)
        self._state.trim(at)
        self._broadcast.publish(events)


def _close_unused(opening: Future[tuple[Database, Contents]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[0].close()
