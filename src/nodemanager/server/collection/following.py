"""How a controller follows the store: it first gets all objects, then each change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from nodemanager.kube import errors
from nodemanager.store.base import Compacted, Store, StoreError

log = logging.getLogger(__name__)
RETRY_SECONDS = 10.0

Act = Callable[[Collection[str] | None], Awaitable[float | None]]
"""Acts on the keys that changed, or on everything (None); returns after how long to act on everything."""


class StoreFollower:
    """Calls a listener about the changes below some prefixes of a store, many changes at a time."""

    def __init__(self, store: Store, prefixes: Sequence[str], act: Act) -> None:
        self._store = store
        self._prefixes = prefixes
        self._act = act
        self._changed: set[str] | None = None
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled; what fails is logged and tried again."""
        async with asyncio.TaskGroup() as group:
            for prefix in self._prefixes:
                group.create_task(self._listen(prefix))
            await self._work()

    async def _listen(self, prefix: str) -> None:
        while True:
            watch = self._store.watch(prefix, self._store.revision)
            self._note(None)
            try:
                while True:
                    self._note({event.record.key for event in await watch.next()})
            except Compacted:
                continue  # too far behind to know what changed, so everything did
            finally:
                watch.close()

    def _note(self, keys: set[str] | None) -> None:
        self._changed = None if keys is None or self._changed is None else self._changed | keys
        self._woken.set()

    async def _work(self) -> None:
        delay = None
        while True:
            try:
                async with asyncio.timeout(delay):
                    await self._woken.wait()
            except TimeoutError:
                self._changed = None
            self._woken.clear()
            changed, self._changed = self._changed, set()
            try:
                delay = await self._act(changed)
            except (errors.StatusError, StoreError, LookupError, TypeError, ValueError) as error:
                log.warning("cannot act on a change: %s: %s", type(error).__name__, error)
                self._changed, delay = None, RETRY_SECONDS
