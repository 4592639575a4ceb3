"""A writer of the audit log on a real API, looked at step by step."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, NAME, AuditCheckpoint
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, AuditSegmentSpec
from nodemanager.api.audit.record import Record
from nodemanager.api.audit.record import decode as decode_record
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit.journal import AuditJournal
from nodemanager.controllers.registration import THE_ONE
from nodemanager.fleet.audit import aspects, evidence, observed, segments
from nodemanager.fleet.audit.observed import ObservedObject
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.fleet.audit.verifying import VerificationReport, Verifier
from nodemanager.kube.objects import Resource
from nodemanager.runtime import tasks
from nodemanager.runtime.cache import Cache
from nodemanager.store.sqlite import SqliteStore
from support.scripted_server import until


@dataclass
class Clock:
    """A time that a test moves."""

    at: datetime = datetime(2026, 11, 17, 8, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at


@dataclass
class Site:
    """A writer, and what it sees."""

    client: Client
    namespace: str
    caches: dict[str, Cache[ObservedObject]]
    clock: Clock
    journal: AuditJournal
    edge: bool = False

    async def write(self) -> None:
        """Have the writer do what there is to do, once it has seen all that is there."""
        await self.caught_up()
        await self.journal.reconcile(THE_ONE)

    async def caught_up(self) -> None:
        """Wait until the caches have all that the API has."""
        for one in observed.kinds_seen(edge=self.edge):
            page = await self.client.list(one, _where(one, self.namespace))
            there = {(item.metadata.name, item.metadata.resource_version) for item in page.items}
            cache = self.caches[one.kind]
            await until(
                lambda cache=cache, there=there: (  # type: ignore[misc]
                    {(item.metadata.name, item.metadata.resource_version) for item in cache.values()} == there
                )
            )

    async def log(self) -> list[AuditSegmentSpec]:
        """Return what is stored."""
        page = await self.client.list(AUDIT_SEGMENTS, Selection(self.namespace))
        return sorted((one.spec for one in page.items), key=lambda spec: spec.index)

    async def records(self) -> list[Record]:
        """Return all records."""
        return [decode_record(line) for spec in await self.log() for line in segments.lines_of(spec)]

    async def checkpoint(self) -> AuditCheckpoint:
        """Return what is published."""
        return await self.client.get(AUDIT_CHECKPOINTS, NAME, self.namespace)

    async def verified(self) -> VerificationReport:
        """Check what is stored as somebody from outside does."""
        published = (await self.checkpoint()).spec
        verifier = Verifier()
        verifier.feed(evidence.lines_of_log(await self.log(), published.keys, published.note))
        return verifier.finish()


def _where(resource: Resource[ObservedObject], namespace: str) -> Selection:
    return Selection(namespace if resource.namespaced else "")


@contextlib.asynccontextmanager
async def writing(
    client: Client,
    namespace: str,
    settings: AuditSettings | None = None,
    clock: Clock | None = None,
    gather: timedelta = timedelta(0),
    *,
    edge: bool = False,
) -> AsyncIterator[Site]:
    """Be the operator, as far as its log is concerned; a second one is one that has started anew."""
    kinds = observed.kinds_seen(edge=edge)
    caches = {one.kind: Cache(client, one, _where(one, namespace)) for one in kinds}
    for kind, cache in caches.items():
        cache.trim_by(functools.partial(aspects.look, kind))
    following = [asyncio.create_task(cache.run()) for cache in caches.values()]
    now = clock or Clock()
    try:
        await asyncio.gather(*(cache.synced() for cache in caches.values()))
        asked = replace(settings or AuditSettings(), gather=gather)
        journal = AuditJournal(client, namespace, caches, now, asked)
        yield Site(client, namespace, caches, now, journal, edge)
    finally:
        await tasks.end(following)


async def bend(path: Path) -> None:
    """Change who began the log, past the API, as somebody does who can write the disk."""
    store = await SqliteStore.open(path)
    listed = store.list("/").records
    (segment,) = [one for one in listed if one.key.endswith("/segment-000000000000")]
    forged = segment.value.replace(b"nodemanager-operator", b"nodemanager-visitors")
    assert forged != segment.value
    await store.update(segment.key, forged, segment.revision)
    await store.close()
