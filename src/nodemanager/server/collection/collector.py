"""The garbage collector: it deletes objects whose owners are all gone.

store's events -> graph of owners -> queue of objects to look at -> decision about each, a few at a time

It needs no memory across a restart. The objects alone show what is left to do, so
every start looks once at each object that has owners or waits for its dependents.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from itertools import islice

from nodemanager.kube import errors
from nodemanager.server.collection.owner_gc_decision import AT_ONCE, OwnerGcDecision, Unknown
from nodemanager.server.collection.ownership import Graph
from nodemanager.server.hub import Hub
from nodemanager.store.base import Compacted, EventType, Mismatch, StoreClosed, StoreError

LOG = logging.getLogger(__name__)
PAGE = 500
"""How many objects are read at the start before other tasks have their turn."""
FIRST_RETRY, AFTER_CONFLICT, AFTER_FAILURE = 0.005, 1.0, 300.0
"""Seconds before the next try: the first time, and at most after a lost race or another failure."""
PATIENCE = 8
"""After so many failures in a row, about a second, other work does not wait for the object any more."""
SETTLE_TIMEOUT = 30.0
_FAILURES = (
    errors.StatusError, StoreError, AssertionError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


class Collector:
    """Follows a hub's store and collects until cancelled."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._graph = Graph()
        self._disposal = OwnerGcDecision(hub, self._graph)
        self._queue: dict[str, None] = {}
        self._busy = 0
        self._unknown: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._seen = self._done = 0
        self._work_to_do, self._moved = asyncio.Event(), asyncio.Event()
        hub.catalogue.on_change(self._reconsider)
        hub.collected = self.collected

    async def run(self) -> None:
        """Collect until cancelled, or until the store is closed."""
        working = asyncio.create_task(self._work(), name="garbage collector's work")
        try:
            with contextlib.suppress(StoreClosed):
                while True:
                    await self._follow()
        finally:
            working.cancel()
            for timer in self._timers.values():
                timer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working

    async def collected(self, revision: int) -> None:
        """Wait until all that follows from changes up to a revision is done; TimeoutError after 30 s."""
        async with asyncio.timeout(SETTLE_TIMEOUT):
            while self._done < revision:
                await self._moved.wait()

    async def _follow(self) -> None:
        """Look at everything once, then follow changes; return when we fell behind and must begin again."""
        start = self._hub.store.revision
        with contextlib.closing(self._hub.store.watch("/", start)) as subscription:
            await self._look_at_everything()
            self._see(start)
            while True:
                try:
                    events = await subscription.next()
                except Compacted:
                    LOG.warning("the garbage collector fell behind and looks at everything again")
                    self._graph.clear()
                    return
                for event in events:
                    if event.kind is EventType.DELETED:
                        self._unknown.discard(event.record.key)
                    self._look_at(self._graph.apply(event))
                self._see(events[-1].record.revision)

    async def _look_at_everything(self) -> None:
        after = ""
        while True:
            page = self._hub.store.list("/", after=after, limit=PAGE)
            for record in page.records:
                self._look_at(self._graph.add(record))
            if not page.more:
                return
            after = page.records[-1].key
            await asyncio.sleep(0)

    def _look_at(self, keys: Iterable[str]) -> None:
        self._queue.update(dict.fromkeys(keys))
        if self._queue:
            self._work_to_do.set()

    def _reconsider(self) -> None:
        """Look again at objects that could not be decided about: other kinds are served now."""
        unknown, self._unknown = self._unknown, set()
        self._look_at(unknown)

    def _see(self, revision: int) -> None:
        self._seen = revision
        self._rest()

    def _rest(self) -> None:
        """Say how far we are, if nothing is left to do."""
        if self._queue or self._busy or any(tries < PATIENCE for tries in self._failures.values()):
            return
        self._work_to_do.clear()
        self._done = self._seen
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _work(self) -> None:
        while True:
            await self._work_to_do.wait()
            keys = list(islice(self._queue, AT_ONCE))
            for key in keys:
                del self._queue[key]
            self._busy = len(keys)
            await asyncio.gather(*(self._attend(key) for key in keys))
            self._busy = 0
            if not self._queue:
                self._work_to_do.clear()
            self._rest()
            await asyncio.sleep(0)

    async def _attend(self, key: str) -> None:
        try:
            await self._disposal.attend(key)
        except errors.NotFound:
            pass  # another writer was faster
        except Unknown:
            self._unknown.add(key)
        except StoreClosed:
            return
        except (errors.Conflict, Mismatch):
            self._try_again(key, AFTER_CONFLICT)
            return
        except _FAILURES as error:
            LOG.warning("cannot collect %s: %s: %s", key, type(error).__name__, error)
            self._try_again(key, AFTER_FAILURE)
            return
        self._failures.pop(key, None)

    def _try_again(self, key: str, longest: float) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_RETRY * 2 ** min(failures, 32), longest)
        if key not in self._timers:
            self._timers[key] = asyncio.get_running_loop().call_later(delay, self._again, key)

    def _again(self, key: str) -> None:
        del self._timers[key]
        self._look_at((key,))
