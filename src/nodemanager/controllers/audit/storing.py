"""The log in the API: read completely when an operator begins, then extended by one writer at a time.

A segment is created under the name of its index, and added to with the resourceVersion that was read last. So
of two operators that both think they lead, one is refused, reads again, and goes on behind the other: the log
neither forks nor has a gap. Also one whose answer was lost on the way reads again, and sees what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, AuditSegment, AuditSegmentSpec, name_of
from nodemanager.api.audit.record import Record
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.fleet.audit import segments
from nodemanager.fleet.audit.segments import Sign, Tail
from nodemanager.kube import errors

PAGE: Final = 50
"""Segments in one answer: a few megabytes."""


class LostTrack(Exception):
    """Another writer was faster, or the fate of our write is unknown: the store must be read again."""


@dataclass(slots=True)
class StoredSegment:
    """What is known about a segment in the API."""

    index: int
    version: str
    bytes: int
    sealed_at: str = ""
    exported: bool = False


@dataclass(slots=True)
class LogStore:
    """The segments of one namespace."""

    client: Client
    namespace: str
    tail: Tail = segments.EMPTY
    stored: dict[int, StoredSegment] = field(default_factory=dict)
    sure: bool = False
    """Whether we know what is stored: not during a write, whose answer may be lost."""

    async def read(self, each: Callable[[AuditSegment], None]) -> None:
        """Read all segments in order, call `each` with them, and take the log's end from the last one."""
        found: dict[int, StoredSegment] = {}
        last: AuditSegmentSpec | None = None
        token = ""
        while True:
            page = await self.client.page(
                AUDIT_SEGMENTS, Selection(self.namespace), limit=PAGE, continue_token=token
            )
            for one in page.items:  # by name, which is by index
                found[one.spec.index] = _stored(one)
                last = one.spec
                each(one)
            if not (token := page.continue_token):
                break
        self.stored = found
        self.tail = segments.tail_of(last) if last is not None else segments.EMPTY
        self.sure = True

    async def append(self, records: Sequence[Record], at: str, sign: Sign) -> list[AuditSegmentSpec]:
        """Add records; return the segments that were written. Raises LostTrack."""
        specs, tail = segments.grow(self.tail, records, at, sign)
        for spec in specs:
            await self._write(spec)
        self.tail = tail
        return specs

    async def seal(self, at: str, sign: Sign) -> None:
        """Close the last segment, if it is open; the next record begins another one. Raises LostTrack."""
        last = self.tail.spec
        if last is None or last.sealed is not None:
            return
        spec = segments.sealed(last, self.tail.tree, at, sign)
        await self._write(spec)
        self.tail = Tail(spec, self.tail.tree, self.tail.leaf)

    async def _write(self, spec: AuditSegmentSpec) -> None:
        if not self.sure:
            raise LostTrack("a write was interrupted")
        known = self.stored.get(spec.index)
        self.sure = False
        try:
            if known is None:
                body = {"metadata": {"name": name_of(spec.index)}, "spec": msgspec.to_builtins(spec)}
                written = await self.client.create(AUDIT_SEGMENTS, body, self.namespace)
            else:
                change = {"lines": spec.lines, "sealed": msgspec.to_builtins(spec.sealed)}
                if spec.sealed is None:
                    del change["sealed"]
                patch = MergePatch({"metadata": {"resourceVersion": known.version}, "spec": change})
                written = await self.client.patch(AUDIT_SEGMENTS, name_of(spec.index), self.namespace, patch)
        except errors.KubeError as error:  # somebody else has written, or it may be there, or it was refused
            raise LostTrack(str(error)) from error
        if written.spec != spec:
            raise LostTrack(f"segment {spec.index} is not stored as it was written")
        self.stored[spec.index] = _stored(written)
        self.sure = True


def _stored(one: AuditSegment) -> StoredSegment:
    spec, status = one.spec, one.status
    return StoredSegment(
        spec.index,
        one.metadata.resource_version,
        len(spec.lines.encode()),
        spec.sealed.at if spec.sealed else "",
        status.exported is not None,
    )
