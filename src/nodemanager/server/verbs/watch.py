"""Watches: the changes of a collection as a stream of JSON lines, until somebody ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
from aiohttp import web

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.http import answers, refusals
from nodemanager.server.http.answers import WatchLine
from nodemanager.server.http.response_memory_limit import ResponseMemoryLimit
from nodemanager.server.hub import ApiCall, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import read, selection, stored
from nodemanager.store.base import (
    Compacted,
    EventType,
    FutureRevision,
    StoreClosed,
    StoreEvent,
    StoreRecord,
    Subscription,
)

LOG = logging.getLogger(__name__)
BOOKMARK_EVERY = 60.0
LOOK_EVERY = 10.0
"""How often an idle watch checks whether its client is still there."""
WRITE_TIMEOUT = 30.0
"""A client that takes nothing for so long is cut off: it can resume from its last revision."""
DEFAULT_TIMEOUT = 1800
"""Least seconds of a watch that names none; at most double, so that clients do not return at once."""
INITIAL_END = {"k8s.io/initial-events-end": "true"}


class WatchStart(NamedTuple):
    """Where a watch begins: what it shows first, and after which revision it follows."""

    initial: list[StoreRecord]
    revision: int
    skip: int
    """Changes up to here are not shown: the client asked for a revision that is yet to come."""


class Batch(NamedTuple):
    """What to send at once, and about how large it is; lines are made when they are asked for."""

    lines: Iterable[WatchLine]
    size: int = 0


async def serve(
    hub: Hub, call: ApiCall, request: web.Request, memory: ResponseMemoryLimit
) -> web.StreamResponse:
    """Answer a watch; refusals that Kubernetes answers before the stream begins are raised."""
    options = selection.list_options(call.query, watch=True)
    start, subscription = begin(hub, call, options)
    with contextlib.closing(subscription):
        response = answers.Stream(headers={"Content-Type": call.form.content_type})
        response.enable_chunked_encoding()
        await response.prepare(request)
        seconds = options.timeout or DEFAULT_TIMEOUT + random.randrange(DEFAULT_TIMEOUT)  # noqa: S311
        stream = _Stream(hub, call, subscription, start, options)
        try:
            async with contextlib.aclosing(stream.batches(seconds, request)) as batches:
                sender = _Sender(response, answers.EventShaper(call, hub.now), memory, request.transport)
                await sender.send(batches)
        except TimeoutError:
            if request.transport is not None:  # records that are still in the buffers would never be read
                request.transport.abort()
        except ConnectionError:
            LOG.debug("the client of a watch of %s is gone", call.kind.qualified_name)
    return response


@dataclass(frozen=True, slots=True)
class _Sender:
    """Writes batches no faster than the client takes them."""

    response: answers.Stream
    shaper: answers.EventShaper
    memory: ResponseMemoryLimit
    transport: asyncio.Transport | None

    async def send(self, batches: AsyncGenerator[Batch, None]) -> None:
        """Write until the batches end, or raise TimeoutError when the client does not take them."""
        try:
            async for lines, size in batches:
                if size <= 2 * answers.PIECE:  # as every ordinary batch is
                    await self._write(lines)
                    continue
                async with self.memory.waiting(size, self.transport):
                    await self._write(lines)
        except Expired as error:  # too late for a refusal: the stream has begun
            async with asyncio.timeout(WRITE_TIMEOUT):
                await self.response.write(error_line(error))
        async with asyncio.timeout(WRITE_TIMEOUT):
            await self.response.write_eof()

    async def _write(self, lines: Iterable[WatchLine]) -> None:
        for piece in self.shaper.pieces(lines):
            await answers.write_pieces(self.response, piece, WRITE_TIMEOUT)


def begin(hub: Hub, call: ApiCall, options: selection.ListOptions) -> tuple[WatchStart, Subscription]:
    """Return where a watch starts, already subscribed, so that nothing falls in between."""
    try:
        wanted = selection.revision_number(options.version)
    except ValueError as error:
        cause = refusals.value_invalid("resourceVersion", options.version, str(error))
        raise refusals.internal(f"{cause.field}: {cause.message}") from error
    selection.select(call.query, call.kind)  # what cannot be read is refused before the stream begins
    current = hub.store.revision
    shows = options.initial if options.initial is not None else not wanted
    if shows:
        if wanted > current:
            raise refusals.too_large_version(wanted, current)
        query = {key: value for key, value in call.query.items() if key.endswith("Selector")}
        listed = read.page(hub, replace(call, query=query))
        start = WatchStart(listed.records, listed.revision, 0)
    else:
        start = WatchStart([], min(wanted or current, current), wanted)
    try:
        return start, hub.store.watch(call.kind.prefix(call.namespace), start.revision)
    except Compacted as error:
        raise Expired(f"too old resource version: {wanted} ({hub.store.compacted})") from error
    except FutureRevision as error:
        raise refusals.too_large_version(wanted, current) from error


def _groups(records: Iterable[StoreRecord]) -> Iterator[list[StoreRecord]]:
    """Yield records in groups of about one piece, so that a long list does not delay other clients."""
    group: list[StoreRecord] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.value)
        if size >= answers.PIECE:
            yield group
            group, size = [], 0
    if group:
        yield group


class Expired(errors.Gone):
    """A watch that cannot begin any more: answered as an event of a stream, not as a refusal."""


class _Stream:
    """Turns the store's events into what one client sees."""

    def __init__(
        self,
        hub: Hub,
        call: ApiCall,
        subscription: Subscription,
        start: WatchStart,
        options: selection.ListOptions,
    ) -> None:
        self._hub, self._call, self._subscription = hub, call, subscription
        self._start, self._options = start, options
        self._chosen = selection.select(call.query, call.kind)
        if call.info.name:
            test = selection.FieldTest("metadata.name", call.info.name, True)
            self._chosen = selection.ObjectSelector(self._chosen.labels, (*self._chosen.fields, test))
        self._sent = 0 if options.initial else start.revision

    async def batches(self, seconds: float, request: web.Request) -> AsyncGenerator[Batch, None]:
        """Yield what to send, until the time is over, the client is gone or the server stops."""
        for records in _groups(self._start.initial):
            await self._hub.turn.take()
            yield Batch(self._shown(records), sum(len(record.value) for record in records))
        if self._options.initial and self._options.bookmarks:
            yield Batch([self._bookmark(self._start.revision, INITIAL_END)])
        loop = asyncio.get_running_loop()
        end, bookmark_at = loop.time() + seconds, loop.time() + BOOKMARK_EVERY
        async with contextlib.aclosing(self._events(end, request)) as changes:
            async for events in changes:
                yield Batch(self._changes(events), max((len(e.record.value) for e in events), default=0))
                if loop.time() >= bookmark_at:
                    bookmark_at = loop.time() + BOOKMARK_EVERY
                    # Also where nothing changed: clients take a long silence for a stream that is dead.
                    yield Batch(self._due_bookmark(again=True))
        yield Batch(self._due_bookmark())

    def _shown(self, records: Iterable[StoreRecord]) -> Iterator[WatchLine]:
        for record in records:
            yield WatchLine("ADDED", read.shown(self._call, record))

    async def _events(self, end: float, request: web.Request) -> AsyncGenerator[Sequence[StoreEvent], None]:
        """Yield events as they come, and nothing now and then, so that the caller can look at the clock."""
        loop = asyncio.get_running_loop()
        closing = asyncio.ensure_future(self._hub.closing.wait())
        closing.add_done_callback(lambda _: self._subscription.close())
        try:
            while loop.time() < end and not closing.done() and not _is_gone(request):
                yield await self._next(min(LOOK_EVERY, end - loop.time()))
        except Compacted as error:
            raise Expired("The resourceVersion for the provided watch is too old.") from error
        except StoreClosed:
            return
        finally:
            closing.cancel()

    async def _next(self, seconds: float) -> Sequence[StoreEvent]:
        """Return what comes within that time, maybe nothing."""
        try:
            async with asyncio.timeout(seconds):
                return await self._subscription.next()
        except TimeoutError:
            return ()

    def _changes(self, events: Sequence[StoreEvent]) -> Iterator[WatchLine]:
        for event in events:
            line = self._seen(event)
            if line is not None:
                self._sent = event.record.revision
                yield line

    def _seen(self, event: StoreEvent) -> WatchLine | None:
        """Return what a client with these selectors sees of a change."""
        if event.record.revision <= self._start.skip:
            return None
        if self._chosen.everything:
            return WatchLine(_NAMES[event.kind], read.shown(self._call, event.record))
        kind = self._call.kind
        new = stored.load(kind, event.record)
        was = event.previous is not None and self._chosen.matches(stored.load(kind, event.previous))
        if event.kind is EventType.DELETED:
            return WatchLine("DELETED", new) if was else None
        if self._chosen.matches(new):
            return WatchLine("MODIFIED" if was else "ADDED", new)
        if was and event.previous is not None:
            # It left the selection: the client sees the last state it knew, at the new revision.
            old = stored.load(kind, event.previous)
            old["metadata"]["resourceVersion"] = new["metadata"]["resourceVersion"]
            return WatchLine("DELETED", old)
        return None

    def _due_bookmark(self, *, again: bool = False) -> list[WatchLine]:
        """Return a bookmark, unless the client knows as much; with `again`, also then."""
        revision, told = self._subscription.delivered, max(self._sent, self._start.skip)
        if not self._options.bookmarks or revision < told or (revision == told and not again):
            return []
        self._sent = revision
        return [self._bookmark(revision, {})]

    def _bookmark(self, revision: int, annotations: dict[str, str]) -> WatchLine:
        return WatchLine("BOOKMARK", bookmark(self._call.kind, revision, annotations))


_NAMES = {EventType.CREATED: "ADDED", EventType.UPDATED: "MODIFIED", EventType.DELETED: "DELETED"}


def bookmark(kind: ServedKind, revision: int, annotations: dict[str, str]) -> Untyped:
    """Return the object of a BOOKMARK: nothing but a revision."""
    meta: Untyped = {"resourceVersion": str(revision)}
    if annotations:
        meta["annotations"] = annotations
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}


def error_line(error: errors.StatusError) -> bytes:
    """Return a refusal as the event that ends a stream."""
    return msgspec.json.encode({"type": "ERROR", "object": answers.status_body(error)}) + b"\n"


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
