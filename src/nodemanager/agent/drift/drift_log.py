"""Every drift in order and numbered, on disk until it is reported: also through an outage or a crash.

    add -> (about a second, many at once) -> on disk -> waiting -> reported -> forgotten but for the newest

Drifts are on disk before they are reported, or shown in the status (`settle`). A crash may lose the
drifts of the last second, which were not reported yet, but a number that was reported is never used
again. Drifts are not synced one by one: memory cards wear out, and a storm of drifts must not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.api.common.managednode import Drift, DriftRecord
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.threads import in_thread, to_the_end
from nodemanager.host.state.journal import STATE
from nodemanager.host.state.line_file import LineFile
from nodemanager.kube import wording

log = logging.getLogger(__name__)
NAME: Final = "drift.log"
MAX_RECORDS: Final = 4096
"""How many drifts wait to be reported; beyond that, the oldest are counted and not kept."""
MAX_RECENT: Final = 64
MAX_MESSAGE: Final = 1024
MAX_BYTES: Final = 32 * 1024 * 1024
INTERVAL: Final = 1.0
"""Seconds between two writes, at least."""
RETRY: Final = 30.0
"""Seconds until a disk that failed is tried again."""


class _Head(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The first line: what is known of drifts that have no line any more."""

    version: int = 1
    rooted: bool = False
    sequence: int = 0
    """Drifts up to this number are counted here, although lines with the newest of them may follow."""
    reported: int = 0
    repaired: int = 0
    observed: int = 0
    last_time: str | None = None
    last_resource: str = ""


class _Line(msgspec.Struct, omit_defaults=True):
    """Any other line: one more drift, or the progress of reporting."""

    drift: DriftRecord | None = None
    reported: int = 0


@dataclass(slots=True)
class _Batch:
    """The content of one write."""

    lines: list[bytes]
    whole: bool
    sequence: int


class DriftLog:
    """The drifts of this host; a part of the agent that writes them down in the background."""

    name = "drift log"

    def __init__(
        self, root: str = "/", folder: str = STATE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._moments: deque[float] = deque(maxlen=MAX_RECENT)
        """When the newest records were added, by the monotonic clock; only those that this process added."""
        self._tree = Tree(root)  # a tree of its own, because a thread uses it
        self._file = LineFile(self._tree, folder, NAME, MAX_BYTES)
        self._head = _Head()
        self._records: deque[DriftRecord] = deque()
        """The waiting drifts, after the newest ones that were reported."""
        self._saved = 0
        """The newest drift on disk."""
        self._said = 0
        """The progress of reporting that is on disk."""
        self._lines = 0
        self._whole = True
        """Whether the file has to be written anew: it is missing, torn, or differs."""
        self._failed = False
        self._adopted = False
        self._wake = asyncio.Event()
        self._storing = asyncio.Lock()
        self._stored = asyncio.Event()
        self._load()
        self._moments.clear()

    # What is known

    @property
    def sequence(self) -> int:
        """The number of the newest drift."""
        return self._head.sequence

    @property
    def adopted(self) -> bool:
        """Whether it is known which drifts earlier processes reported to the API."""
        return self._adopted

    @property
    def reported_sequence(self) -> int:
        """The number of the newest drift that was reported."""
        return self._head.reported

    def add(self, record: DriftRecord) -> DriftRecord:
        """Number a drift and return it; it is on disk about a second later."""
        head = self._head
        record = msgspec.structs.replace(record, sequence=head.sequence + 1, message=_bounded(record.message))
        self._records.append(record)
        self._moments.append(self._clock())
        _count(head, record)
        self._trim()
        self._wake.set()
        return record

    def waiting(self) -> list[DriftRecord]:
        """Return what is on disk and not reported, in order; nothing until it is known what was reported.

        If there is a gap after the last reported number, the drifts between were too many to keep.
        """
        first, last = self._head.reported, self._saved if self._adopted else 0
        return [one for one in self._records if first < one.sequence <= last]

    async def stored(self) -> None:
        """Wait until a drift is on disk that was not there at the last call."""
        await self._stored.wait()
        self._stored.clear()

    def reported(self, sequence: int) -> None:
        """Remember that everything up to a drift has been reported."""
        if sequence > self._head.reported:
            self._head.reported = min(sequence, self._saved)
            self._trim()
            self._wake.set()

    def adopt(self, known: Drift | None) -> None:
        """Continue from what the API knows; called once, when it answers for the first time.

        What it knows tells, after a crash, what was reported. Where our own numbers are new, because
        the file was lost, or are behind, because the disk was put back, those that wait go on behind it.
        """
        head, known, self._adopted = self._head, known or Drift(), True
        self._stored.set()
        if head.rooted and known.sequence <= head.sequence:
            self.reported(known.sequence)
            return
        waiting = [one for one in self._records if one.sequence > head.reported]
        ours = head.sequence > 0
        if not head.rooted:
            head.repaired += known.repaired
            head.observed += known.observed
            head.last_time = head.last_time or known.last_time
            head.last_resource = head.last_resource or known.last_resource
        head.reported = known.sequence
        head.sequence = known.sequence + len(waiting)
        head.rooted = True
        renumbered = [
            msgspec.structs.replace(one, sequence=number)
            for number, one in enumerate(waiting, known.sequence + 1)
        ]
        self._records = deque([*known.recent, *renumbered])
        self._saved, self._whole = 0, True
        if ours:  # before the API gets the sum: else the next process would find it there and add it again
            self._wake.set()
            self.flush()

    def newest(self, count: int) -> list[DriftRecord]:
        """Return the newest drifts in order, reported or not."""
        return list(self._records)[-count:]

    def moments(self) -> dict[int, float]:
        """Return when the newest drifts were, by number and the steady clock; older ones only have a time."""
        pairs = zip(reversed(self._records), reversed(self._moments), strict=False)
        return {record.sequence: moment for record, moment in pairs}

    def known(self) -> Drift | None:
        """Return the same as `drift`; None if there never was any, or the API may know more than we do."""
        head = self._head
        return self.drift() if self._adopted and (head.repaired or head.sequence) else None

    def drift(self) -> Drift:
        """Return the drift part of the ManagedNode's status: counts, and the newest reported drifts."""
        head = self._head
        done = [one for one in self._records if one.sequence <= head.reported]
        return Drift(
            repaired=head.repaired,
            last_time=head.last_time,
            last_resource=head.last_resource,
            observed=head.observed,
            sequence=head.reported,
            recent=done[-MAX_RECENT:],
        )

    # Keeping it

    async def run(self) -> None:
        """Write new drifts, not too often, until cancelled; then write the rest."""
        try:
            while True:
                await self._wake.wait()
                await to_the_end(self._store())  # else it would be unknown which of them are on disk
                await asyncio.sleep(RETRY if self._failed else INTERVAL)
        finally:
            self.flush()

    async def settle(self) -> bool:
        """Write to disk what was added until now, without the usual delay; tell whether it is there."""
        sequence = self.sequence
        if not self._failed:  # if not, `run` tries again later
            await to_the_end(self._store())
        return self._saved >= sequence

    async def _store(self) -> None:
        async with self._storing:  # one write at a time: each continues where the last one ended
            if self._wake.is_set():
                batch = self._batch()
                self._settle(batch, await in_thread(lambda: self._write(batch)))

    def flush(self) -> None:
        """Write everything now; for the end, and for callers that do not wait for the disk."""
        if self._wake.is_set():
            batch = self._batch()
            self._settle(batch, self._write(batch))

    def close(self) -> None:
        """Write down what came last, and give back what is held open."""
        self.flush()
        self._tree.close()

    def _batch(self) -> _Batch:
        """Return what has to be written; drifts that are added later belong to the next write."""
        self._wake.clear()
        head = self._head
        if self._whole or self._lines > 2 * MAX_RECORDS:
            self._lines = len(self._records)
            lines = [msgspec.json.encode(head), *map(_encoded, self._records)]
            self._whole, self._said = False, head.reported
            return _Batch(lines, whole=True, sequence=head.sequence)
        lines = [_encoded(one) for one in self._records if one.sequence > self._saved]
        if head.reported > self._said:
            lines.append(msgspec.json.encode(_Line(reported=head.reported)))
            self._said = head.reported
        self._lines += len(lines)
        return _Batch(lines, whole=False, sequence=head.sequence)

    def _write(self, batch: _Batch) -> OSError | None:
        """Write a batch to disk; it touches no shared state, so that it may run in a thread."""
        try:
            if batch.whole:
                self._file.replace(batch.lines)
            elif batch.lines:
                self._file.append(batch.lines)
        except OSError as error:
            return error
        return None

    def _settle(self, batch: _Batch, error: OSError | None) -> None:
        if error is not None:
            if not self._failed:
                log.error(
                    "cannot record drifts in %s: %s; they are reported when this is possible, if the agent"
                    " runs so long", self._file.shown, error.strerror or error,
                )  # fmt: skip
            self._failed = True
            self._rewrite()  # the remains of a failed write must not be continued
            return
        self._failed = False
        if not self._whole:  # if not, everything got new numbers meanwhile
            self._saved = batch.sequence
            self._stored.set()

    def _rewrite(self) -> None:
        self._whole = True
        self._wake.set()

    def _trim(self) -> None:
        """Keep the newest reported drifts, and not too many waiting ones."""
        records, reported = self._records, self._head.reported
        done = sum(1 for _ in _until(records, reported))
        for _ in range(done - MAX_RECENT):
            records.popleft()
        while len(records) - min(done, MAX_RECENT) > MAX_RECORDS:
            lost = records.popleft()
            done = max(done - 1, 0)
            if lost.sequence > reported and lost.sequence % MAX_RECORDS == 1:
                log.warning("more than %d drifts wait to be reported: the oldest are dropped", MAX_RECORDS)

    # At the start

    def _load(self) -> None:
        try:
            found = self._file.read()
            if found.good:
                self._take(found.good)
            if found.damaged:
                raise ValueError("some of its lines are damaged")
            self._lines = len(found.good)
            self._whole = found.torn or not found.good
        except (OSError, ValueError, RecursionError) as error:
            self._salvage(error)

    def _take(self, lines: list[bytes]) -> None:
        head = msgspec.json.decode(lines[0], type=_Head)
        if head.version != 1:
            raise ValueError(f"its version {head.version} is not known to this agent")
        for line in lines[1:]:
            one = msgspec.json.decode(line, type=_Line)
            head.reported = max(head.reported, one.reported)
            if one.drift is not None:
                self._records.append(one.drift)
                if one.drift.sequence > head.sequence:
                    _count(head, one.drift)
        self._head = head
        self._saved, self._said = head.sequence, head.reported
        self._trim()

    def _salvage(self, error: Exception) -> None:
        """Begin a new file with what is still readable; its numbers may be wrong, so new ones are given."""
        waiting = [one for one in self._records if one.sequence > self._head.reported]
        self._head, self._saved, self._said = _Head(), 0, 0
        self._records.clear()
        where = "it is left as it is"
        with contextlib.suppress(OSError):
            where = f"it is {self._file.set_aside()} now"
        log.error(
            "cannot use the record of drifts %s: %s; %s, and of those that wait to be reported %d are saved",
            self._file.shown, error, where, len(waiting),
        )  # fmt: skip
        for one in waiting:
            self.add(one)
        self._rewrite()


def _count(head: _Head, record: DriftRecord) -> None:
    head.sequence = record.sequence
    if record.outcome == "repaired":
        head.repaired += 1
        head.last_time, head.last_resource = record.time, record.resource
    elif record.outcome == "observed":
        head.observed += 1


def _until(records: Iterable[DriftRecord], sequence: int) -> Iterable[DriftRecord]:
    for one in records:
        if one.sequence > sequence:
            return
        yield one


def _encoded(record: DriftRecord) -> bytes:
    return msgspec.json.encode(_Line(drift=record))


def _bounded(text: str) -> str:
    """Return a message as it may be kept: file names are bytes, and what is no Unicode in one is replaced."""
    text = text.encode("utf-8", "replace").decode()
    return wording.shorten(text, MAX_MESSAGE)
