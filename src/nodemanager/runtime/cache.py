"""List and watch, kept as an indexed snapshot in memory.

    list (streamed where the server can, paged otherwise)
      -> watch from there, bookmarks keep the place
           -> the stream ends or breaks: watch again from the last revision
           -> 410 Gone: list again; what is missing from the new list was deleted meanwhile

Subscribers hear of every difference between two states of the snapshot, in order, exactly
once, including deletions that no event reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from nodemanager.client.calls import EVERYWHERE, Selection
from nodemanager.client.verbs import WATCH_IDLE_TIMEOUT, Client
from nodemanager.client.watch import Malformed, Watch, WatchEvent, ends_initial_events
from nodemanager.kube import errors
from nodemanager.kube.objects import HasMetadata, ObjectKey, Resource, key_of
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.indexed import IndexedObjects, IndexFunction

T = TypeVar("T", bound=HasMetadata)
log = logging.getLogger(__name__)
PASSING = (
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotFound,
    errors.Gone,
    errors.TooManyRequests,
    errors.ServiceUnavailable,
    errors.ServerTimeout,
)
"""Refusals that say nothing about whether a server can stream lists."""
NOT_SERVED = "; the API does not serve this kind yet: nodemanager crds --install"
RECONNECT = Backoff(base=0.5, maximum=30.0, jitter=0.5)


class Change(NamedTuple, Generic[T]):
    """A difference between two snapshots: `old` is None for a new object, `new` for one that is gone."""

    key: ObjectKey
    old: T | None
    new: T | None


Subscriber = Callable[[Change[T]], None]
Trim = Callable[[T], T]
"""Returns what is kept of an object: the object itself, or one that has less and the same metadata."""


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """How a cache talks to the server."""

    backoff: Backoff = RECONNECT
    watch_seconds: int = 300
    """The server ends each watch after this to twice this, so that watches spread over servers."""
    idle_timeout: float = WATCH_IDLE_TIMEOUT
    initial_timeout: float = 60.0
    """How long a streamed list may take before we ask for a paged one instead."""
    healthy_after: float = 5.0
    """A watch that lived this long resets the backoff."""
    may_be_refused: bool = False
    """Whether a refusal needs no warning: the right is still to come, and the code that waits for it reports
    that."""


class Cache(Generic[T]):
    """All objects of one kind in one selection, as the server last reported them."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        selection: Selection = EVERYWHERE,
        *,
        options: CacheOptions | None = None,
        optional: bool = False,
    ) -> None:
        self.name = f"cache of {resource.qualified_name}{selection}"
        self.malformed: dict[ObjectKey, str] = {}
        """Objects that exist but do not decode, and why; their last good state stays in the snapshot."""
        self.refused = ""
        """Why the server does not let us look, since it does not; what we knew is out of date then."""
        self._client = client
        self._resource = resource
        self._selection = selection
        self._optional = optional
        self._options = options or CacheOptions()
        self._trim: Trim[T] | None = None
        self._objects: IndexedObjects[T] = IndexedObjects()
        self._subscribers: list[Subscriber[T]] = []
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._version = ""
        self._streams = True
        self._hurry = asyncio.Event()
        self._complaint = ""
        """What we last complained about."""
        self.steady_since = -math.inf
        """Since when, by the clock of the loop, nothing can have gone unseen: the end of the last outage."""
        self.interrupted = False
        """Whether the server is out of reach now, so that changes go unseen."""

    # What others see

    def get(self, key: ObjectKey) -> T | None:
        """Return an object, or None."""
        return self._objects.get(key)

    def values(self) -> list[T]:
        """Return all objects."""
        return self._objects.values()

    def find(self, index: str, value: str) -> list[T]:
        """Return the objects that an index has under a value."""
        return self._objects.find(index, value)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Keep an index; may be called at any time."""
        self._objects.add_index(name, function)

    def trim_by(self, trim: Trim[T]) -> None:
        """Keep of each object only what `trim` returns, from now on; subscribers do not hear of that."""
        self._trim = trim
        for key, obj in self._objects.items():
            if (kept := trim(obj)) is not obj:
                self._objects.put(key, kept)

    async def read_whole(self, key: ObjectKey) -> None:
        """Read an object and keep all of it; raise KubeError if that cannot be."""
        found = await self._client.get(self._resource, key.name, key.namespace)
        known = self._objects.get(key)
        if known is None or not self._version or _is_older(found, known):
            raise errors.Unreachable(
                f"cannot read {self._resource.kind} {key}: it changes just now; try again"
            )
        if known.metadata.resource_version == found.metadata.resource_version:
            self._objects.put(key, found)
        else:
            self._put(key, found)

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Tell `subscriber` of every change from now on, beginning with what is already there."""
        self._subscribers.append(subscriber)
        for key, obj in self._objects.items():
            self._tell(Change(key, None, obj), [subscriber])

    @property
    def has_synced(self) -> bool:
        """Whether the snapshot has been complete at least once."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until the snapshot is complete; or, if we can do without, until we know that there is none."""
        await (self._answered if self._optional else self._synced).wait()

    @property
    def has_answered(self) -> bool:
        """Whether the snapshot has been complete, or the server has refused it."""
        return self._answered.is_set()

    async def answered(self) -> None:
        """Wait until the snapshot is complete, or the server has refused it."""
        await self._answered.wait()

    # The loop

    async def run(self) -> None:
        """Follow the server until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            started = loop.time()
            error = await self._follow_once()
            failures = 0 if loop.time() - started >= self._options.healthy_after else failures + 1
            await self._pause(self._delay(failures, error))

    def hurry(self) -> None:
        """Try again now, if we wait after a failure, because another request had an answer."""
        self._hurry.set()

    async def _pause(self, seconds: float) -> None:
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def _follow_once(self) -> errors.KubeError | None:
        """List if need be, then watch until the stream ends; return why it ended, None for no reason."""
        try:
            if self._version:
                await self._watch_on()
            elif not (self._streams and await self._try_stream()):
                await self._page_list()
                await self._watch_on()
        except errors.Gone as error:
            log.info("%s: our revision is gone, listing again: %s", self.name, error)
            self._version = ""
            self.interrupted = True  # until there is a new list, what we know may be old
            return error
        except errors.KubeError as error:
            self.interrupted = True
            hint = NOT_SERVED if isinstance(error, errors.NotFound) else ""
            refused = self._options.may_be_refused and isinstance(error, errors.Forbidden)
            again = str(error) == self._complaint  # an outage is worth a line, not one per try
            quiet = again or (self._optional and isinstance(error, errors.Forbidden))
            level = logging.DEBUG if quiet else logging.INFO if refused else logging.WARNING
            log.log(level, "%s: %s%s", self.name, error, hint)
            self._complaint = str(error)
            if isinstance(error, errors.Forbidden | errors.NotFound):
                self.refused = str(error)
                self._answered.set()
            return error
        return None

    def _delay(self, failures: int, error: errors.KubeError | None) -> float:
        """Return how long to wait: nothing after a long healthy watch, else backoff or what was asked."""
        if error is None and failures == 0:
            return 0.0
        asked = error.retry_after if isinstance(error, errors.StatusError) else None
        return max(self._options.backoff.delay(max(failures, 1)), asked or 0.0)

    async def _page_list(self) -> None:
        page = await self._client.list(self._resource, self._selection, self._trim)
        self._replace({key_of(obj): obj for obj in page.items}, page.malformed)
        self._version = page.resource_version
        self._complete()

    def _complete(self) -> None:
        self.refused = ""
        self._resumed()
        self._synced.set()
        self._answered.set()

    def _resumed(self) -> None:
        """Take note that nothing goes unseen from now on."""
        if self.interrupted:
            self.interrupted, self.steady_since = False, asyncio.get_running_loop().time()

    async def _watch_on(self) -> None:
        async with await self._open(self._version) as watch:
            while batch := await watch.batch():
                self._apply_all(batch)

    async def _try_stream(self) -> bool:
        """Follow by a streamed list; False when this server does not serve one, then and from then on."""
        try:
            await self._stream_list()
        except (TimeoutError, errors.StatusError) as error:
            if self._version or isinstance(error, PASSING):
                raise
            log.info("%s: streamed lists are not served, using pages: %s", self.name, str(error) or "no end")
            self._streams = False
        return self._streams

    async def _stream_list(self) -> None:
        """Receive the list as the beginning of the watch, which the server need not hold in memory."""
        async with asyncio.timeout(self._options.initial_timeout) as initial:
            async with await self._open("") as watch:
                rest = await self._initial_events(watch)
                initial.reschedule(None)
                self._apply_all(rest)
                while batch := await watch.batch():
                    self._apply_all(batch)

    async def _initial_events(self, watch: Watch[T]) -> list[WatchEvent | Malformed]:
        """Collect the present objects up to the closing bookmark; return the events behind it."""
        present: dict[ObjectKey, T] = {}
        malformed: dict[ObjectKey, Malformed] = {}
        while batch := await watch.batch():
            for position, event in enumerate(batch):
                if isinstance(event, Malformed):
                    malformed[event.key] = event
                    continue
                if event.change == "BOOKMARK":
                    if ends_initial_events(event):
                        self._version = _required_version(event)
                        self._replace(present, list(malformed.values()))
                        self._complete()
                        return batch[position + 1 :]
                    continue
                key = key_of(event.object)
                malformed.pop(key, None)
                present.pop(key, None)
                if event.change != "DELETED":
                    present[key] = self._kept(event.object)
        raise errors.Unreachable("cannot list: the stream ended before the list was complete")

    async def _open(self, version: str) -> Watch[T]:
        seconds = self._options.watch_seconds
        watch = await self._client.watch(
            self._resource,
            self._selection,
            resource_version=version,
            initial_events=not version,
            server_timeout=random.randint(seconds, 2 * seconds),  # noqa: S311 - spreads load, hides nothing
            idle_timeout=self._options.idle_timeout,
        )
        self._complaint = ""
        if version:  # what we know is whole
            self.refused = ""
            self._resumed()
        return watch

    # Changing the snapshot

    def _apply_all(self, events: list[WatchEvent | Malformed]) -> None:
        for event in events:
            if isinstance(event, Malformed):
                self._version = event.resource_version or self._version
                self._note_malformed(event)
                continue
            obj, change = event.object, event.change
            meta = obj.metadata
            if change != "BOOKMARK":
                key = ObjectKey(meta.namespace, meta.name)
                read = self._objects.get(key) if self._trim is not None else None
                if read is not None and _is_older(obj, read):
                    pass  # we have read a newer one meanwhile (`read_whole`)
                elif change == "DELETED":
                    self._remove(key)
                elif read is None or read.metadata.resource_version != meta.resource_version:
                    self._put(key, self._kept(obj))
            self._version = meta.resource_version or self._version

    def _kept(self, obj: T) -> T:
        return obj if self._trim is None else self._trim(obj)

    def _replace(self, present: Mapping[ObjectKey, T], malformed: list[Malformed]) -> None:
        """Make the snapshot equal to a fresh list; what the list does not have is gone."""
        unreadable = {item.key for item in malformed}
        for key in [key for key in self._objects if key not in present and key not in unreadable]:
            self._remove(key)
        for key in [key for key in self.malformed if key not in unreadable]:
            del self.malformed[key]
        for item in malformed:
            self._note_malformed(item)
        for key, obj in present.items():
            if key in unreadable:
                continue
            known = self._objects.get(key)
            if known is None or known.metadata.resource_version != obj.metadata.resource_version:
                self._put(key, obj)

    def _put(self, key: ObjectKey, obj: T) -> None:
        if self.malformed:
            self.malformed.pop(key, None)
        old = self._objects.put(key, obj)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and created anew while we were not looking: another object of the same name.
            self._tell(Change(key, old, None))
            old = None
        self._tell(Change(key, old, obj))

    def _remove(self, key: ObjectKey) -> None:
        self.malformed.pop(key, None)
        old = self._objects.pop(key)
        if old is not None:
            self._tell(Change(key, old, None))

    def _note_malformed(self, item: Malformed) -> None:
        if self.malformed.get(item.key) != item.message:
            log.error("%s: cannot read %s, keeping what we knew of it: %s", self.name, item.key, item.message)
        self.malformed[item.key] = item.message
        known = self._objects.get(item.key)
        self._tell(Change(item.key, known, known))

    def _tell(self, change: Change[T], subscribers: Sequence[Subscriber[T]] | None = None) -> None:
        for subscriber in self._subscribers if subscribers is None else subscribers:
            try:
                subscriber(change)
            except Exception:  # one bad subscriber must not keep the others from hearing
                log.exception("%s: a subscriber failed on %s", self.name, change.key)


def _is_older(one: HasMetadata, other: HasMetadata) -> bool:
    """Tell whether an object is older than another one of its name: revisions are numbers (KEP-5504)."""
    versions = one.metadata.resource_version, other.metadata.resource_version
    return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])


def _required_version(bookmark: WatchEvent) -> str:
    version: str = bookmark.object.metadata.resource_version
    if not version:
        raise errors.ProtocolError("cannot read the list: its closing bookmark has no resourceVersion")
    return version
