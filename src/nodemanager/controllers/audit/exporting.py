"""A copy of the log outside the API, in a folder or in object storage.

It continues after an interruption: a segment counts as copied when its status says so, which is written
after the copy. What was copied and is old enough is removed from the API.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from nodemanager.api.audit.auditcheckpoint import AuditCheckpointSpec
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, AuditSegment, AuditSegmentSpec, name_of
from nodemanager.client.calls import DeleteOptions
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.audit import s3_copy
from nodemanager.controllers.audit.copies import Copy, Newest
from nodemanager.controllers.audit.folder_copy import FolderCopy
from nodemanager.controllers.audit.s3_copy import S3Copy
from nodemanager.controllers.audit.signing import Signing
from nodemanager.controllers.audit.storing import LogStore, LostTrack, StoredSegment
from nodemanager.fleet.audit import evidence
from nodemanager.kube import errors, times

AT_ONCE: Final = 20
"""How many segments are copied or removed in one go, as other work waits meanwhile."""
MAX_NAME: Final = 512


def copy_to(place: str) -> Copy:
    """Return the place that was asked for, s3://BUCKET/PREFIX or a folder; raises ConfigError."""
    return S3Copy(place) if place.startswith(f"{s3_copy.SCHEME}:") else FolderCopy(Path(place))


class Exporter:
    """Copies to a place."""

    def __init__(self, copy: Copy, retention: timedelta) -> None:
        self._copy = copy
        self._retention = retention
        self._copied = (-1, "")
        """Size and checkpoint of the copy."""

    async def copy(self, store: LogStore, signing: Signing, now: datetime) -> None:
        """Copy new segments and remove old ones; raises LostTrack where the copy cannot be written."""
        published = signing.published
        if published is None:
            return
        for one in [each for each in store.stored.values() if each.sealed_at and not each.exported][:AT_ONCE]:
            await self._copy_sealed(one, store, published.spec.keys, now)
        wanted = store.tail.size, published.spec.note
        if wanted != self._copied and await self._copy.show(_newest(store, published.spec), now):
            self._copied = wanted
        await self._remove_old(store, now)

    async def _copy_sealed(
        self, one: StoredSegment, store: LogStore, keys: Iterable[str], now: datetime
    ) -> None:
        segment = await self._read(one, store)
        if segment.status.exported is None:
            await self._copy.keep(name_of(one.index), _file(segment.spec, keys, ""))
            said = {"exported": {"at": times.rfc3339(now), "to": self._copy.name[:MAX_NAME]}}
            await self._say(one, store, said)
        one.exported = True

    async def _remove_old(self, store: LogStore, now: datetime) -> None:
        """Remove segments that are copied and old, the oldest first, and never the last one."""
        last = store.tail.spec.index if store.tail.spec is not None else -1
        old = [one for one in sorted(store.stored.values(), key=lambda one: one.index) if one.index < last]
        for one in old[:AT_ONCE]:
            sealed = times.parse(one.sealed_at)
            if not one.exported or sealed is None or now - sealed < self._retention:
                return
            with contextlib.suppress(errors.NotFound):  # an earlier answer was lost
                await self._remove(one, store, now)
            del store.stored[one.index]

    async def _remove(self, one: StoredSegment, store: LogStore, now: datetime) -> None:
        if (await self._read(one, store)).status.expired is None:
            await self._say(one, store, {"expired": times.rfc3339(now)})
        options = DeleteOptions(resource_version=one.version)
        await store.client.delete(AUDIT_SEGMENTS, name_of(one.index), store.namespace, options=options)

    async def _read(self, one: StoredSegment, store: LogStore) -> AuditSegment:
        """Return a segment as it is now: it may have been annotated, or an answer to us was lost."""
        segment = await store.client.get(AUDIT_SEGMENTS, name_of(one.index), store.namespace)
        one.version = segment.metadata.resource_version
        return segment

    async def _say(self, one: StoredSegment, store: LogStore, status: Mapping[str, object]) -> None:
        patch = MergePatch({"metadata": {"resourceVersion": one.version}, "status": status})
        try:
            written = await store.client.patch(
                AUDIT_SEGMENTS, name_of(one.index), store.namespace, patch, subresource="status"
            )
        except errors.Conflict as error:
            raise LostTrack(str(error)) from error
        one.version = written.metadata.resource_version


def _newest(store: LogStore, published: AuditCheckpointSpec) -> Newest:
    last, note = store.tail.spec, published.note
    is_open = last is not None and last.sealed is None
    name = name_of(last.index) if last is not None and is_open else ""
    data = _file(last, published.keys, note) if last is not None and is_open else b""
    return Newest(store.tail.size, name, data, tuple(published.keys), note)


def _file(spec: AuditSegmentSpec, keys: Iterable[str], note: str) -> bytes:
    first = list(keys)[:1] if spec.index == 0 else []
    return b"".join(line + b"\n" for line in evidence.lines_of_log([spec], first, note))
