"""Writes the audit log: what the caches see becomes records, records become segments, and those are signed.

change in a cache  ->  a list in memory  ->  records  ->  segments  ->  checkpoint  ->  status

No decision waits for it: it records what decisions leave on objects. When the operator begins, or has
lost track, it reads the log, and compares what was last recorded of each object with what is there.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditcheckpoint import STOP, AuditCheckpointStatus
from nodemanager.api.audit.auditsegment import AuditSegment
from nodemanager.api.audit.record import Record
from nodemanager.client.verbs import Client
from nodemanager.controllers.audit import checking, stamping
from nodemanager.controllers.audit.checking import Soundness
from nodemanager.controllers.audit.exporting import Exporter, copy_to
from nodemanager.controllers.audit.signing import Signing
from nodemanager.controllers.audit.storing import LogStore, LostTrack
from nodemanager.fleet.audit import changes, diagnosing, evidence, segments
from nodemanager.fleet.audit.chain_merging import ChainMemory
from nodemanager.fleet.audit.changes import ObjectId, RecordMemory
from nodemanager.fleet.audit.diagnosing import AuditFinding
from nodemanager.fleet.audit.host_budget import HostBudget
from nodemanager.fleet.audit.observed import ObservedObject
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.fleet.audit.unproven import ROTATE
from nodemanager.fleet.audit.verifying import Verifier
from nodemanager.kube import errors, times
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import ReconcileResult, Retry
from nodemanager.tlog import notes

log = logging.getLogger("nodemanager.operator.audit")
CHECK: Final = timedelta(hours=1)
"""How often the whole log is read and checked again."""
KEY_CHECK: Final = timedelta(minutes=1)
"""How often to look whether a person asks for another key."""
MAX_AT_ONCE: Final = 2000
"""How many records are written together."""
MAX_PENDING: Final = 20_000
"""How many changes are kept while they cannot be written; beyond that, only the result is recorded."""
RETRY_SECONDS: Final = 2.0
MAX_RETRY: Final = timedelta(minutes=1)
"""The longest wait after failures: each try reads the whole log."""


class AuditJournal:
    """The only writer of a namespace's log."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        caches: Mapping[str, Cache[ObservedObject]],
        now: Callable[[], datetime],
        settings: AuditSettings,
        tell: Callable[[Record], None] = lambda _record: None,
    ) -> None:
        self.sound = Soundness()
        self.store = LogStore(client, namespace)
        self.signing = Signing(client, namespace, self.sound)
        self.exporter = Exporter(copy_to(settings.export), settings.retention) if settings.export else None
        self.pending: list[tuple[ObjectId, ObservedObject | None]] = []
        """Changes that are not recorded yet."""
        self.recorded = 0
        """How many records this process has written."""
        self._caches, self._now, self._settings = caches, now, settings
        self._tell = tell
        """Called with each record, once it is written."""
        self._memory, self._chains = RecordMemory(), ChainMemory()
        self._budget = HostBudget(_warn_of_flood)
        self._handed_to = ""
        """The last key that a record names as the next one."""
        self._late = 0
        """How many of the pending changes no watch has seen."""
        self._taken: list[tuple[ObjectId, ObservedObject | None]] = []
        """What is being written, while it is not known yet whether it is stored."""
        self._taken_late = 0
        self._failures = 0
        """How many tries failed in a row."""
        self._failed_at = now()
        self._written_at: datetime | None = None
        self._read_at: datetime | None = None
        self._key_at: datetime | None = None
        for kind, cache in caches.items():
            cache.subscribe(functools.partial(self._changed, kind))

    def _changed(self, kind: str, change: Change[ObservedObject]) -> None:
        if self._read_at is None:
            return  # another operator writes, or we cannot: the next one to begin compares everything anyway
        old, new = change.old, change.new
        if old is not None and new is not None and changes.is_same(old, new):
            return  # this shows that the writer is alive
        self.pending.append((ObjectId(kind, *change.key), new))
        if len(self.pending) > MAX_PENDING:
            self._forget()

    def _forget(self) -> None:
        """Forget everything, and read the log again before the next record."""
        self._read_at = None
        self.pending, self._taken, self._late, self._taken_late = [], [], 0, 0

    async def reconcile(self, _key: ObjectKey) -> ReconcileResult | None:
        """Write new records, sign them, and report whether all is well."""
        self._wait()
        if left := self._gathers():
            return ReconcileResult(left)
        if self._failures:  # after a failure, too: the next try may not end, either
            await self._say()
        try:
            await self._work()
        except asyncio.CancelledError:
            self._failed("it takes too long to read and to write it")  # or we are to stop: then nobody asks
            raise
        except Exception as error:  # whatever the error is, the log is not written, and has to report that
            self._failed(str(error))
            await self._say()
            if isinstance(error, LostTrack | segments.BrokenSegment | errors.KubeError):
                raise Retry(RETRY_SECONDS, f"cannot write the audit log: {error}") from error
            raise
        self.sound.succeeded()
        self._failures = 0
        await self._say()
        return ReconcileResult(0.0) if self.pending else None

    def _failed(self, why: str) -> None:
        self._failed_at = self._now()
        self.sound.failed(why, self._failed_at)
        self._failures += 1

    def _wait(self) -> None:
        """Raise Retry while it is too early to try again: every change of an object wakes us."""
        if self._failures < 2:  # a single failure is normal when two operators meet
            return
        pause = min(timedelta(seconds=RETRY_SECONDS * 2 ** min(self._failures, 8)), MAX_RETRY)
        since = self._now() - self._failed_at
        if timedelta(0) <= since < pause:  # a negative difference: the clock was set back
            left = (pause - since).total_seconds()
            raise Retry(left, f"cannot write the audit log: {self.sound.failure}")

    def _gathers(self) -> float:
        """Return for how many seconds to go on collecting: a write signs, and needs three requests."""
        if self._written_at is None or len(self.pending) >= MAX_AT_ONCE:
            return 0.0
        left = self._written_at + self._settings.gather - self._now()
        return left.total_seconds() if timedelta(0) < left <= self._settings.gather else 0.0

    async def _work(self) -> None:
        now = self._now()
        if unseen := [one.refused or one.name for one in self._caches.values() if not one.has_synced]:
            raise LostTrack(
                f"{unseen[0]}; bring kinds and rights of this version: nodemanager crds --install,"
                " and config/rbac or the chart"
            )  # an object that we cannot see is not deleted
        if not self.store.sure or self._taken or self._read_at is None or now - self._read_at > CHECK:
            await self._begin(now)
        elif self._key_at is None or now - self._key_at > KEY_CHECK:
            await self._look_around(now)
        await self.signing.begin_handover()
        added = self._take()
        if self._is_full():
            self._taken = []
            return
        if self.store.tail.size == 0:
            added.insert(0, self.signing.about("begin", "log", "", _own_key(self.signing)))
        if (handover := self.signing.handover(self._handed_to)) is not None:
            added.append(handover)
        if added:
            await self._append(added)
        # The seal keeps the signature of the old key, also if the author of that record did not get so far.
        if self.signing.hands_over(self._handed_to):
            await self.store.seal(times.rfc3339(self._now()), self.signing.sign)
        await self.signing.publish(self.store.tail.tree)
        await self.signing.end_handover(self._handed_to)
        if self.exporter is not None:
            await self.exporter.copy(self.store, self.signing, self._now())

    async def _look_around(self, now: datetime) -> None:
        """Find out whether a person wants another key or gave the log up, and if the API stamps users."""
        published = self.signing.published
        await self.signing.load()
        self._key_at = now
        self.sound.stamped = await stamping.condition(self.store.client)
        if published is not None and self.signing.published is None:
            await self._begin(now)  # the log was given up, so that another one begins

    def _is_full(self) -> bool:
        """Tell whether the store is full, and remember it: without a copy, no segment is ever removed."""
        size = sum(one.bytes for one in self.store.stored.values())
        full = self.exporter is None and size >= self._settings.most_bytes
        self.sound.full = (
            f"nothing more is recorded: {size} bytes are in the API, and nothing is removed without a copy;"
            " start the operator with --audit-export FOLDER or s3://BUCKET/PREFIX"
            if full
            else ""
        )
        return full

    async def _append(self, added: Sequence[Record]) -> None:
        at = times.rfc3339_micro(self._now())
        await self.store.append(
            [msgspec.structs.replace(one, time=at) for one in added], at, self.signing.sign
        )
        self.recorded += len(added)
        self._taken, self._written_at = [], self._now()
        self._memory.since = self._memory.since or at
        self._note(added)
        for one in added:
            self._tell(one)

    def _note(self, added: Sequence[Record]) -> None:
        self._handed_to = next((one.to for one in reversed(added) if one.verb == ROTATE), self._handed_to)

    # Beginning

    async def _begin(self, now: datetime) -> None:
        """Read the log, check it, and find out what happened since the last record."""
        known = self.signing.published is not None
        await self.signing.load()
        if not known and self.signing.published is not None:  # we have just started
            await self._take_over(self.signing.published.status, now)
        self.sound.stamped = await stamping.condition(self.store.client)
        memory, chains, verifier = RecordMemory(), ChainMemory(), self._verifier()
        before, lost = self.store.tail, not self.store.sure or bool(self._taken)

        def each(segment: AuditSegment) -> None:
            verifier.feed(line for line in evidence.lines_of(segment.spec) if self._checks(line))
            found = [_readable(line) for line in segments.lines_of(segment.spec)]
            memory.note(found)
            chains.note(found)
            self._note(found)

        try:
            await self.store.read(each)
        except segments.BrokenSegment:
            self._judge(verifier.finish().findings)
            raise
        self._judge(verifier.finish().findings)
        # If no other operator added records since, each change that we saw still has to be recorded.
        unchanged = self._read_at is not None and self.store.tail.leaf == before.leaf
        kept = [*self._taken, *self.pending] if unchanged else []
        if unchanged and not lost:  # reports of hosts since their last anchors
            chains.keep(self._chains)
        self._memory, self._chains, self._read_at, self._key_at = memory, chains, now, now
        self.pending, self._late = kept, self._late + self._taken_late
        self._taken, self._taken_late = [], 0
        if not kept:
            self._budget.forget()
            self.pending = self._differences()
            self._late = len(self.pending) if memory.since else 0

    async def _take_over(self, said: AuditCheckpointStatus, now: datetime) -> None:
        self.sound.take_over(said, now)
        if said.workflows != STOP and self.sound.stops(self._settings.on_failure, now):
            # At once: the operator before us was told to continue, and reading the whole log may take
            # minutes.
            await self.signing.say(msgspec.structs.replace(said, workflows=STOP))

    def _checks(self, line: bytes) -> bool:
        """Tell whether a line can be checked: signatures cannot if the package for them is missing."""
        return not (self.signing.blind and line.startswith(evidence.CHECKPOINT))

    def _judge(self, findings: list[AuditFinding]) -> None:
        if findings != self.sound.findings:
            for one in findings:
                log.error("the audit log is not what was signed: %s", one)
        self.sound.judge(findings)

    def _verifier(self) -> Verifier:
        try:
            return Verifier(self.signing.trusted(), expected=self.signing.expected())
        except notes.BadNote as error:
            found = Verifier(self.signing.trusted())
            found.report.findings.append(
                AuditFinding(diagnosing.FORGED, 0, 0, f"the published checkpoint: {error}")
            )
            return found

    def _differences(self) -> list[tuple[ObjectId, ObservedObject | None]]:
        """Return the objects that differ from their last record."""
        there = {
            ObjectId(kind, *key_of(one)): one
            for kind, cache in self._caches.items()
            for one in cache.values()
        }
        # Kinds that we do not watch may exist all the same: an operator with --edge has seen them.
        gone = [which for which in self._memory if which.kind in self._caches and which not in there]
        return [*((which, None) for which in gone), *there.items()]

    def _take(self) -> list[Record]:
        """Return the records of the changes, as many as are written together, and remember them."""
        found: list[Record] = []
        memory, at, taken = self._memory, times.rfc3339(self._now()), 0
        again = self._budget.due(self._now())
        self.pending[:0] = again  # before later changes of the same objects
        self._late += len(again)
        for which, obj in self.pending:
            if len(found) >= MAX_AT_ONCE:
                break
            seen = obj.seen if obj is not None else None  # unpacked here, one at a time, as there may be many
            news = changes.records_of(memory.get(which), seen, memory.since, at, taken < self._late)
            added = self._budget.admit(which, obj, news)
            taken += 1
            memory.note(added)
            found += added
            found += self._chains.take(which, seen, self._now())
        found += self._chains.due(self._now())
        self._taken = self.pending[:taken] if found else []
        del self.pending[:taken]
        self._taken_late = min(self._late, taken)
        self._late -= self._taken_late
        return found

    async def _say(self) -> None:
        self.sound.hosts = self._chains.alarms()
        stored = self.store.stored.values()
        sizes = len(self.store.stored), sum(one.bytes for one in stored)
        published = self.signing.published
        if published is not None:
            status = checking.status(
                published.status, self.sound, sizes, self._settings.on_failure, self._now()
            )
            try:
                await self.signing.say(status)
            except errors.KubeError as error:
                log.warning("cannot say how the audit log is: %s", error)


def _warn_of_flood(host: str) -> None:
    log.warning("host %s causes more audit records than it may in an hour; the rest waits for the next", host)


def _own_key(signing: Signing) -> str:
    return str(signing.keys.now.key) if signing.keys is not None else ""


def _readable(line: str) -> Record:
    try:
        return records.decode(line)
    except records.BadRecord:
        return Record()  # the verifier has reported it
