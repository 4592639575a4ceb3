"""Kubernetes Events: aggregated, rate limited, and never in the way of the work they report on.

`event` returns at once. Equal events within ten minutes become one with a count; an object
that reports too much is cut off until its bucket fills again; a server that does not take
events costs a log line, not a reconcile.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors, printable, times
from nodemanager.kube.objects import HasMetadata, ObjectMeta, Resource
from nodemanager.runtime.backoff import Backoff

log = logging.getLogger(__name__)

MAX_PENDING = 1000
MAX_REMEMBERED = 512
MAX_ATTEMPTS = 12
FLUSH_SECONDS = 3.0
RETRY = Backoff(base=1.0, maximum=60.0)


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How talkative one object may be; the defaults are those of other Kubernetes components."""

    window: float = 600.0
    """Equal events within this time are counted, not repeated."""
    similar: int = 10
    """After so many different messages for one reason within the window, further ones are combined into one
    event."""
    burst: int = 25
    refill: float = 300.0
    """Seconds until one more event about the same object is allowed."""


@dataclass(slots=True)
class _Seen:
    """An event that was sent, and may be counted up."""

    name: str
    namespace: str
    count: int
    last: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    last: float


@dataclass(frozen=True, slots=True)
class _Note:
    """One occurrence, waiting to be sent."""

    reference: core.ObjectReference
    kind: str
    reason: str
    message: str
    at: datetime
    name: str
    combined: bool = False


class EventRecorder:
    """Queues events and sends them in the background."""

    name = "events"

    def __init__(
        self,
        client: Client,
        component: str,
        host: str = "",
        *,
        limits: EventLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.dropped = 0
        """Events that were never sent: too many, or not taken by the server."""
        self._client = client
        self._source = core.EventSource(component=component, host=host)
        self._limits = limits or EventLimits()
        self._now = now
        self._pending: deque[_Note] = deque()
        self._wake = asyncio.Event()
        self._sequence = itertools.count()
        self._seen: OrderedDict[tuple[str, ...], _Seen] = OrderedDict()
        self._messages: OrderedDict[tuple[str, ...], OrderedDict[str, float]] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def normal(self, resource: Resource[Any], obj: HasMetadata, reason: str, message: str) -> None:
        """Report that something went as it should."""
        self._add("Normal", resource, obj, reason, message)

    def warning(self, resource: Resource[Any], obj: HasMetadata, reason: str, message: str) -> None:
        """Report that something went wrong."""
        self._add("Warning", resource, obj, reason, message)

    def _add(self, kind: str, resource: Resource[Any], obj: HasMetadata, reason: str, message: str) -> None:
        meta = obj.metadata
        reference = core.ObjectReference(
            api_version=resource.api_version,
            kind=resource.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        if len(self._pending) >= MAX_PENDING:
            self._drop("too many are waiting")
            return
        if not self._allowed(meta.uid or f"{meta.namespace}/{meta.name}"):
            self.dropped += 1
            log.debug("not recording an event: %s %s reports too much", resource.kind, meta.name)
            return
        now = self._now()
        # Named here, once: if an answer gets lost, the second try must not make a second event.
        name = f"{meta.name}.{int(now.timestamp() * 1_000_000):x}{next(self._sequence) & 0xFFFF:04x}"
        text = core.event_message(printable.text(message))
        self._pending.append(_Note(reference, kind, reason, text, now, name))
        self._wake.set()

    async def run(self) -> None:
        """Send events until cancelled; then send what is left, but not for long."""
        try:
            while True:
                await self._wake.wait()
                await self._send_pending()
        finally:
            try:
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._send_pending()
            except TimeoutError:
                self._drop(f"{len(self._pending)} were still waiting at the end")

    async def _send_pending(self) -> None:
        self._wake.clear()
        attempts = 0
        while self._pending:
            try:
                await self._send(self._pending[0])
            except errors.KubeError as error:
                attempts += 1
                if attempts < MAX_ATTEMPTS and _may_pass(error):
                    await asyncio.sleep(RETRY.delay(attempts))
                    continue
                self._drop(str(error))
            self._pending.popleft()
            attempts = 0

    async def _send(self, note: _Note) -> None:
        now = asyncio.get_running_loop().time()
        note = self._combined(note, now)
        key = (_subject(note), note.kind, note.reason, "" if note.combined else note.message)
        seen = self._seen.get(key)
        if seen is not None and now - seen.last <= self._limits.window and await self._count_up(seen, note):
            seen.last = now
        else:
            self._seen[key] = await self._create(note, now)
        _keep_newest(self._seen, key)

    async def _count_up(self, seen: _Seen, note: _Note) -> bool:
        """Patch the count; False when the server has forgotten the event."""
        body = {"count": seen.count + 1, "lastTimestamp": times.rfc3339(note.at), "message": note.message}
        patch = MergePatch(body)
        try:
            await self._client.patch(core.EVENTS, seen.name, seen.namespace, patch)
        except errors.NotFound:
            return False
        seen.count += 1
        return True

    async def _create(self, note: _Note, now: float) -> _Seen:
        namespace = note.reference.namespace or "default"
        event = core.Event(
            metadata=ObjectMeta(name=note.name, namespace=namespace),
            involved_object=note.reference,
            type=note.kind,
            reason=note.reason,
            message=note.message,
            source=self._source,
            count=1,
            first_timestamp=times.rfc3339(note.at),
            last_timestamp=times.rfc3339(note.at),
            reporting_component=self._source.component,
            reporting_instance=self._source.host,
        )
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(core.EVENTS, event, namespace)
        return _Seen(event.metadata.name, namespace, 1, now)

    def _combined(self, note: _Note, now: float) -> _Note:
        """Fold many different messages for one reason into one event."""
        key = (_subject(note), note.kind, note.reason)
        messages = self._messages.setdefault(key, OrderedDict())
        messages[note.message] = now
        messages.move_to_end(note.message)
        while messages and now - next(iter(messages.values())) > self._limits.window:
            messages.popitem(last=False)
        _keep_newest(self._messages, key)
        if len(messages) <= self._limits.similar:
            return note
        while len(messages) > self._limits.similar + 1:
            messages.popitem(last=False)
        text = core.event_message(f"(combined from similar events): {note.message}")
        return replace(note, message=text, combined=True)

    def _allowed(self, subject: str) -> bool:
        """Take a token from the object's bucket."""
        now = asyncio.get_running_loop().time()
        bucket = self._buckets.setdefault(subject, _Bucket(self._limits.burst, now))
        bucket.tokens = min(self._limits.burst, bucket.tokens + (now - bucket.last) / self._limits.refill)
        bucket.last = now
        _keep_newest(self._buckets, subject)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _drop(self, why: str) -> None:
        self.dropped += 1
        log.warning("cannot record an event: %s", why)


def _subject(note: _Note) -> str:
    return note.reference.uid or f"{note.reference.namespace}/{note.reference.name}"


def _may_pass(error: errors.KubeError) -> bool:
    """Tell whether the same event may be taken later."""
    return isinstance(error, errors.TransportError) or (
        isinstance(error, errors.StatusError) and (error.code == 429 or error.code >= 500)
    )


def _keep_newest(memory: OrderedDict[Any, Any], key: Any) -> None:
    """Bound what we remember; what was used longest ago goes first."""
    if key in memory:
        memory.move_to_end(key)
    while len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)
