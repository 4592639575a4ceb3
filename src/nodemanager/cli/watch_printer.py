"""Follow objects as they change, for as long as somebody looks: through lost links and lost history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from nodemanager.cli.sources import ListedObject, Listing, Source
from nodemanager.client.calls import Selection
from nodemanager.client.watch import Deleted, Malformed, WatchEvent
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.backoff import Backoff

BACKOFF: Final = Backoff(base=0.5, maximum=30.0)
HEALTHY_AFTER: Final = 5.0
"""A watch that lived this long was a good one: what comes next is not a failure in a row."""


class WatchPrinter:
    """Shows every change after a listing, including those while the watch was interrupted."""

    def __init__(
        self,
        source: Source,
        selection: Selection,
        *,
        show: Callable[[list[ListedObject]], None],
        warn: Callable[[str], None],
        backoff: Backoff = BACKOFF,
    ) -> None:
        self._source = source
        self._selection = selection
        self._show = show
        self._warn = warn
        self._backoff = backoff
        self._known: dict[ObjectKey, ListedObject] = {}
        self._version = ""

    async def run(self, start: Listing) -> NoReturn:
        """Follow from a listing on, until cancelled or refused."""
        self._known = {item.key: item for item in start.items}
        self._version = start.version
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            started = loop.time()
            error = await self._follow_once()
            failures = 0 if loop.time() - started >= HEALTHY_AFTER else failures + 1
            if error is not None and failures <= 1:
                self._warn(f"{error}; trying again")
            await asyncio.sleep(self._delay(failures, error))

    def _delay(self, failures: int, error: errors.KubeError | None) -> float:
        asked = error.retry_after if isinstance(error, errors.StatusError) else None
        return max(self._backoff.delay(failures if error is None else max(failures, 1)), asked or 0.0)

    async def _follow_once(self) -> errors.KubeError | None:
        """Watch until the stream ends; return what broke it, if that may pass."""
        try:
            if not self._version:
                await self._catch_up()
            await self._watch()
        except errors.Gone:  # the server forgot what we saw last: compare with what there is now
            self._version = ""
        except errors.KubeError as error:
            if not may_pass(error):
                raise
            return error
        return None

    async def _catch_up(self) -> None:
        listing = await self._source.fetch(self._selection)
        present = {item.key: item for item in listing.items}
        gone = [item._replace(deleted=True) for key, item in self._known.items() if key not in present]
        changed = [item for key, item in present.items() if self._is_news(key, item)]
        self._known = present
        self._version = listing.version
        if gone or changed:
            self._show(gone + changed)

    def _is_news(self, key: ObjectKey, item: ListedObject) -> bool:
        known = self._known.get(key)
        return known is None or known.version != item.version

    async def _watch(self) -> None:
        client, resource = self._source.client, self._source.resource
        async with await client.watch(resource, self._selection, resource_version=self._version) as watch:
            while batch := await watch.batch():
                if news := [item for event in batch for item in self._take(event)]:
                    self._show(news)

    def _take(self, event: WatchEvent | Malformed) -> list[ListedObject]:
        """Return what an event brings, and remember how far we have come."""
        if isinstance(event, Malformed):
            self._version = event.resource_version or self._version
            return []
        if event.change == "BOOKMARK" or isinstance(event, Deleted):  # metadata is all they have
            self._version = event.object.metadata.resource_version or self._version
            return []
        items = [
            item._replace(deleted=event.change == "DELETED") for item in self._source.items(event.object)
        ]
        for item in items:
            self._version = item.version or self._version
            if item.deleted:
                self._known.pop(item.key, None)
            else:
                self._known[item.key] = item
        return items


def may_pass(error: errors.KubeError) -> bool:
    """Tell whether an error is worth another try after a moment."""
    if isinstance(error, errors.StatusError):
        return error.code == 429 or error.code >= 500
    return isinstance(error, errors.TransportError) and not isinstance(error, errors.TlsError)
