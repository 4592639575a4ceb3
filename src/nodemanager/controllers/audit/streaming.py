"""Sends the records of the log to a receiver, such as a SIEM: each at least once, in their order.

a checkpoint is published  ->  signed records behind the position, a segment at a time  ->  the new position

Records do not wait in memory: the log has them until they are delivered. So a receiver that is away delays
no other work, and a kill loses no record. The position is in the status of the AuditCheckpoint, written after
each delivery; after a kill in between, the same records are delivered again, with the same numbers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from nodemanager.api.audit.auditcheckpoint import (
    AUDIT_CHECKPOINTS,
    MAX_FAILURE,
    NAME,
    AuditCheckpoint,
    WebhookState,
)
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, AuditSegment, name_of
from nodemanager.client.calls import Selection
from nodemanager.client.http.posting import NotDelivered
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit import receivers
from nodemanager.controllers.audit.receivers import RecordBatch
from nodemanager.controllers.registration import PartContext
from nodemanager.fleet.audit import segments
from nodemanager.kube import errors, times, wording
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache

log = logging.getLogger("nodemanager.operator.audit")
SETTLE_SECONDS: Final = 1.0
"""How long to wait for more records, so that those of about the same time are one delivery."""
RETRY_SECONDS: Final = 2.0
MAX_RETRY_SECONDS: Final = 300.0
PAGE: Final = 50


class Webhook:
    """Follows the log, and sends signed records."""

    name = "audit webhook"

    def __init__(self, context: PartContext) -> None:
        self._client: Client = context.client
        self._namespace = context.namespace
        self._place = context.audit.webhook
        self._now: Callable[[], datetime] = context.now
        self._published: Cache[AuditCheckpoint] = context.caches.of(AUDIT_CHECKPOINTS)
        self._changed = asyncio.Event()
        self._published.subscribe(lambda _change: self._changed.set())
        self._position: int | None = None
        """How many records were delivered; None = not read yet."""
        self._uid = ""
        """The checkpoint to which the position belongs: another one means another log."""
        self._index = 0
        """Where the next record was last found."""
        self._failures = 0
        self._missed = context.metrics.counter(
            "nodemanager_audit_webhook_missed_records_total", "Records that were removed before a delivery."
        )
        for name, text, function in (
            ("behind_records", "Signed records that were not delivered yet.", self._behind),
            ("failing", "1 while records cannot be delivered.", lambda: float(self._failures > 0)),
        ):
            gauge = context.metrics.gauge(f"nodemanager_audit_webhook_{name}", text)
            gauge.labels().set_function(function)

    def _behind(self) -> float:
        if not self._place or self._position is None:
            return 0.0
        return float(max(self._signed() - self._position, 0))

    def _signed(self) -> int:
        found = self._published.get(ObjectKey(self._namespace, NAME))
        return found.spec.size if found is not None else 0

    async def run(self) -> None:
        """Deliver until cancelled; without a receiver, wait for one."""
        if not self._place:
            await asyncio.Event().wait()
        while True:
            self._changed.clear()
            try:
                await self.deliver()
            except (NotDelivered, errors.KubeError) as error:
                await self._failed(str(error))
                await asyncio.sleep(min(RETRY_SECONDS * 2 ** min(self._failures, 16), MAX_RETRY_SECONDS))
                continue
            await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)

    async def deliver(self) -> None:
        """Deliver everything that is signed; raises NotDelivered, or KubeError."""
        published = await self._read()
        if published is None or self._position is None:
            return
        origin = published.spec.note.partition("\n")[0]
        while self._position < published.spec.size:
            first, lines = await self._next(self._position, published.spec.size)
            receiver = await receivers.read(self._client, self._namespace, self._place)
            await receiver.send(RecordBatch(origin, first, lines), int(self._now().timestamp()))
            self._position = first + len(lines)
            self._failures = 0
            await self._say(WebhookState(delivered=self._position, at=times.rfc3339(self._now())))

    async def _read(self) -> AuditCheckpoint | None:
        """Return the published checkpoint, and take the position from it if we do not know it."""
        try:
            found = await self._client.get(AUDIT_CHECKPOINTS, NAME, self._namespace)
        except errors.NotFound:
            return None
        said = found.status.webhook.delivered if found.status.webhook is not None else 0
        gone_back = (
            self._position is None or self._position > found.spec.size
        )  # for example after the API was restored from a backup
        if gone_back or self._uid != found.metadata.uid:
            self._position, self._uid, self._index = min(said, found.spec.size), found.metadata.uid, 0
        return found

    async def _next(self, position: int, end: int) -> tuple[int, list[str]]:
        """Return records from a position on: the signed ones of one segment."""
        segment = await self._segment(position)
        if segment is None:
            raise NotDelivered(
                f"the records from {position} on are not in the API; see `nodemanager audit verify`"
            )
        spec = segment.spec
        self._index = spec.index
        if spec.first > position:
            gone = spec.first - position
            self._missed.labels().inc(gone)
            log.warning("%d audit records from %d on were removed before they were sent", gone, position)
            position = spec.first
        return position, segments.lines_of(spec)[position - spec.first : end - spec.first]

    async def _segment(self, position: int) -> AuditSegment | None:
        """Return the segment with a record, or the first one after it."""
        for index in (self._index, self._index + 1):
            try:
                found = await self._client.get(AUDIT_SEGMENTS, name_of(index), self._namespace)
            except errors.NotFound:
                break
            if found.spec.first <= position < _end(found):
                return found
        token = ""
        while True:
            page = await self._client.page(
                AUDIT_SEGMENTS, Selection(self._namespace), limit=PAGE, continue_token=token
            )
            for one in page.items:  # by name, which is by index
                if position < _end(one):
                    return one
            if not (token := page.continue_token):
                return None

    async def _failed(self, why: str) -> None:
        self._failures += 1
        told = wording.shorten(why, MAX_FAILURE)
        if self._failures == 1:
            log.warning("cannot send audit records to %s: %s", self._place, told)
        if self._position is not None:
            try:
                await self._say(WebhookState(delivered=self._position, failure=told))
            except errors.KubeError as error:
                log.debug("cannot say that audit records are not sent: %s", error)

    async def _say(self, state: WebhookState) -> None:
        said: dict[str, object] = {"delivered": state.delivered, "failure": state.failure or None}
        if state.at:  # the time of the last delivery stays while others fail
            said["at"] = state.at
        patch = MergePatch({"status": {"webhook": said}})
        await self._client.patch(AUDIT_CHECKPOINTS, NAME, self._namespace, patch, subresource="status")


def _end(segment: AuditSegment) -> int:
    return segment.spec.first + len(segments.lines_of(segment.spec))
