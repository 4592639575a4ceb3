"""Checks a log line by line: whether it is what the operator signed, and if not, what was altered.

Between two checkpoints all records are hashed into the tree. When the root is not what was signed, their
numbers and links tell which of them was changed (`diagnosing`). When even these are consistent, somebody has
written all of them anew, and all that can be said is which ones. After that, the head of the next segment has
the tree to go on with.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from nodemanager.api.audit import record as records
from nodemanager.fleet.audit import diagnosing, evidence, unproven
from nodemanager.fleet.audit.diagnosing import AuditFinding
from nodemanager.fleet.audit.keyring import Keyring, UntrustedCheckpoint
from nodemanager.fleet.audit.unproven import Unproven
from nodemanager.tlog import checkpoints, cosignatures, notes
from nodemanager.tlog.merkle import Frontier
from nodemanager.tlog.notes import Key

MAX_FINDINGS: Final = 100
MAX_RUN: Final = 512
"""How many records are looked at together."""
_ACTOR: Final = b'{"a'
_MARKS: Final = (evidence.SEGMENT, evidence.CHECKPOINT, evidence.KEY)


@dataclass(frozen=True, slots=True)
class _Head:
    """The state from which a segment says that it continues."""

    index: int
    tree: Frontier


@dataclass(slots=True)
class VerificationReport:
    """The result of a check."""

    first: int = 0
    """Number of the first record there."""
    size: int = 0
    """Number after the last record there."""
    signed: int = 0
    """How many records the last good checkpoint covers."""
    checkpoints: int = 0
    """How many of the checkpoints were good."""
    findings: list[AuditFinding] = field(default_factory=list)
    """At most MAX_FINDINGS."""
    keys: list[str] = field(default_factory=list)
    """The keys that signed, in their order."""
    assumed: bool = False
    """Whether the first key comes from the log itself: nobody compared it with one that was noted before."""
    witnessed: dict[str, int] = field(default_factory=dict)
    """When each witness has last seen a checkpoint, in seconds since 1970."""

    @property
    def intact(self) -> bool:
        """Whether the check found no fault."""
        return not self.findings

    def note_witnesses(self, kept: str, witnesses: Iterable[Key]) -> None:
        """Count the cosignatures of a checkpoint that was kept elsewhere, if it is one of this log.

        `Verifier` compares its root with that of the records, where the checkpoint is expected.
        """
        note = notes.read(kept)
        if not self.intact or not self.first < checkpoints.read(note.text).size <= self.size:
            return
        for key in witnesses:
            with contextlib.suppress(notes.NotSigned):
                seen = cosignatures.verify(note, key)
                self.witnessed[key.name] = max(seen, self.witnessed.get(key.name, 0))


class Verifier:
    """Reads a log from its beginning."""

    def __init__(
        self,
        trusted: Iterable[Key] = (),
        witnesses: Iterable[Key] = (),
        expected: Mapping[int, bytes] | None = None,
    ) -> None:
        """Take roots by size as `expected`: those of checkpoints that were kept elsewhere."""
        self.report = VerificationReport()
        self._keys = Keyring(trusted, witnesses)
        self._expected = dict(expected or {})
        self._roots: dict[int, bytes] = {}
        self._begun = False
        self._index = -1
        self._head: _Head | None = None
        """A head that does not fit; the next record decides whether the head, or something before it, is
        wrong."""
        self._tree: Frontier | None = Frontier()
        """None = a part before this differs from what was signed, so only links can be checked."""
        self._proven = 0
        self._new = Unproven()
        self._differ: list[int] = []
        """Sizes at which the tree differs from what is expected, while numbers or links may still show why.
        """

    def feed(self, lines: Iterable[bytes]) -> None:
        """Read lines, without their newlines."""
        each = iter(lines)
        while some := list(itertools.islice(each, MAX_RUN)):
            done = 0
            # Most records begin with their actor: a quick way to see that a line is a record.
            ends = unproven.HANDS_OVER
            for place in [
                at for at, line in enumerate(some) if not line.startswith(_ACTOR) or line.endswith(ends)
            ]:
                line = some[place]
                if line.startswith(_MARKS):
                    self._records(some[done:place])
                    self._mark(line)
                    done = place + 1
                elif line.endswith(ends):
                    self._records(some[done:place])
                    self._hand_over(line)
                    done = place
            self._records(some[done:])

    def _records(self, lines: list[bytes]) -> None:
        """Read records; those up to a checkpoint that was kept elsewhere apart from the others."""
        if lines and self._head is not None:
            self._decide_head(unproven.place_of(lines[0]).sequence)
        while lines:
            end = min((size for size in self._expected if size > self._new.at), default=0)
            count = end - self._new.at if end else len(lines)
            self._take(lines[:count])
            lines = lines[count:]
            if self._new.at in self._expected or self._new.is_much:
                self._look()

    def _take(self, lines: list[bytes]) -> None:
        sha256 = hashlib.sha256
        leaves = [sha256(b"\x00" + line).digest() for line in lines]
        self._new.add(lines, leaves)
        if self._tree is not None:
            self._tree.extend(leaves)

    def finish(self) -> VerificationReport:
        """Return what was found, after the last line."""
        if self._head is not None:
            self._go_on(self._head)
        self._judge(None)
        if self.report.intact:
            self._name_forks()
        size = self._new.at
        if (beyond := [one for one in self._expected if one > size]) and self.report.intact:
            self._find(
                diagnosing.TRUNCATED,
                size,
                min(beyond) - 1,
                f"a checkpoint that was kept elsewhere covers {min(beyond)} records, and here are {size}",
            )
        report, keys = self.report, self._keys
        report.size = size
        report.keys, report.assumed = [str(key) for key in keys.used], keys.assumed
        report.witnessed = keys.seen_by
        return report

    def _find(self, kind: str, first: int, last: int, message: str) -> None:
        if len(self.report.findings) < MAX_FINDINGS:
            self.report.findings.append(AuditFinding(kind, first, last, message))

    # Lines that are no records

    def _mark(self, line: bytes) -> None:
        try:
            if line.startswith(evidence.CHECKPOINT):
                self._settle(line)
            elif line.startswith(evidence.SEGMENT):
                self._segment(line)
            else:
                self._keys.declare(evidence.key_of(line))
        except UntrustedCheckpoint as error:
            what = "the checkpoint" if line.startswith(evidence.CHECKPOINT) else "the key"
            self._find(
                error.kind,
                max(self._new.at - 1, 0),
                max(self._new.at - 1, 0),
                f"{what} after record {self._new.at - 1}: {error}",
            )

    def _hand_over(self, line: bytes) -> None:
        number = self._new.at
        try:
            self._keys.hand_over(records.decode(line).to)
        except UntrustedCheckpoint as error:
            self._find(error.kind, number, number, f"record {number}: {error}")
        except records.BadRecord:
            pass  # it differs from what was signed, or its number shows that it cannot be read

    def _segment(self, line: bytes) -> None:
        head = _read_head(line)
        if head is None:
            self._find(
                diagnosing.HEAD,
                self._new.at,
                self._new.at,
                f"the head before record {self._new.at} cannot be read",
            )
        elif not self._begun and not self._new.at:
            self._begun = True
            self.report.first = head.tree.size
            self._index = head.index
            self._start(head)
        elif self._tree is None or self._new.is_odd:
            self._go_on(head)
        elif head.tree.size != self._new.at:
            self._head = head
        else:
            if head.tree.hashes != self._tree.hashes or head.index != self._index + 1:
                self._distrust(head)
            self._index = head.index

    def _distrust(self, head: _Head) -> None:
        """Report that a segment does not continue from what is before it."""
        if self._new and head.index == self._index + 1:
            low, high = self._proven, self._new.at - 1
            self._find(
                diagnosing.REWRITTEN,
                low,
                high,
                f"records {low} to {high} are not those that segment {head.index} goes on from",
            )
            self._start(head)
        else:
            self._find(
                diagnosing.HEAD,
                self._new.at,
                self._new.at,
                f"segment {head.index} does not go on from the records before it",
            )

    def _decide_head(self, sequence: int) -> None:
        """Decide by the next record whether a head is wrong, or something before it is missing."""
        head, self._head = self._head, None
        if head is None:
            return
        if sequence == self._new.at:
            self._find(
                diagnosing.HEAD,
                self._new.at,
                self._new.at,
                f"segment {head.index} says that it begins with record {head.tree.size}, and begins"
                f" with {self._new.at}",
            )
            self._index += 1
        else:
            self._go_on(head)

    def _go_on(self, head: _Head) -> None:
        """Continue with the tree that a segment says is before it, where ours is not right."""
        if self._tree is not None and head.tree.size < self._new.first:
            low, high = head.tree.size, self._new.first - 1
            self._find(
                diagnosing.FORKED,
                low,
                high,
                f"segment {head.index} goes back to record {low}, although records up to {high} are signed",
            )
        self._judge(head.tree.size)
        self._index = head.index
        self._start(head)

    def _start(self, head: _Head) -> None:
        if self._expected.get(head.tree.size, root := head.tree.root()) != root:
            self._fork(head.tree.size)
        self._tree = head.tree.copy()
        self._new.begin(head.tree.size, b"" if head.tree.size == 0 else None)
        self._proven = head.tree.size

    # Comparing

    def _settle(self, line: bytes) -> None:
        """Compare what was read with what was signed."""
        point = self._keys.open(evidence.note_of(line))
        known = self._roots.get(point.size)
        if known is not None and known != point.root:
            self._find(
                diagnosing.FORKED,
                0,
                point.size - 1,
                f"two checkpoints of {point.size} records are signed, and have different roots",
            )
        elif known is not None:
            return  # one that was there already
        elif point.size < self._new.first:
            self._find(
                diagnosing.FORKED,
                point.size,
                self._new.at - 1,
                f"a checkpoint of {point.size} records is signed, which is none of this log",
            )
        elif self._tree is not None and (point.size, point.root) == (self._new.at, self._tree.root()):
            self._name_forks()  # these records are signed, whatever their numbers and links are
            self._roots[point.size] = point.root
            self.report.signed = self._proven = point.size
            self.report.checkpoints += 1
            self._keys.proven()
            self._new.begin(self._new.at, self._new.leaf)
        else:
            if not self._judge(point.size) and self._tree is not None:
                low, high = self._proven, point.size - 1
                self._find(
                    diagnosing.REWRITTEN,
                    low,
                    high,
                    f"records {low} to {high} are not those that were signed: they were written anew, or"
                    " two operators have signed different logs",
                )
            self._tree = None
            self._new.begin(point.size, None)
            self._proven = point.size

    def _judge(self, end: int | None) -> bool:
        """Look for altered records since the last checkpoint; return whether there are any."""
        if not self._new.is_odd and end in (None, self._new.at):
            return False
        found = diagnosing.by_place(self._new.links, self._new.first, self._new.before, end)
        for one in found:
            self._find(one.kind, one.first, one.last, one.message)
        return bool(found)

    def _look(self) -> None:
        """Compare with what was kept elsewhere, and keep no more than we need."""
        root = self._expected.get(self._new.at)
        if root is not None and self._tree is not None and root != self._tree.root():
            self._differ.append(self._new.at)
            if not self._new.is_odd:
                self._name_forks()
        if self._new.is_much:
            if self._judge(None):
                self._tree = None
            self._new.begin(self._new.at, self._new.leaf)

    def _name_forks(self) -> None:
        for size in self._differ:
            self._fork(size)
        self._differ.clear()

    def _fork(self, size: int) -> None:
        low, high = self._proven if self._proven < size else 0, size - 1
        self._find(
            diagnosing.FORKED,
            low,
            high,
            f"records {low} to {high} are not those of a checkpoint that was kept elsewhere",
        )
        self._expected.pop(size, None)


def _read_head(line: bytes) -> _Head | None:
    said = evidence.head_of(line)
    try:
        tree = Frontier(said.first, [bytes.fromhex(one) for one in said.frontier]) if said else None
    except ValueError:
        return None
    return _Head(said.index, tree) if said and tree else None
