"""How records become segments: numbered, linked, counted into the tree, and sealed when a segment is full."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditsegment import MAX_LINES, AuditSegmentSpec, Seal
from nodemanager.api.audit.record import Record
from nodemanager.tlog.merkle import Frontier, leaf_hash

NOTHING: Final = "0" * 64
"""Stands for the digest of a segment before the first one."""

Sign = Callable[[int, bytes], str]
"""Returns the signed checkpoint for a size and a root; empty where no key can sign."""


class BrokenSegment(ValueError):
    """A segment is not what it should be; the message says which one, and why."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of the log, from which it continues."""

    spec: AuditSegmentSpec | None
    """The last segment; None = the log is empty."""
    tree: Frontier
    """The tree of all records, those of the last segment included."""
    leaf: bytes
    """The hash of the last record; empty if there is none."""

    @property
    def size(self) -> int:
        """How many records there are."""
        return self.tree.size

    @property
    def is_open(self) -> bool:
        """Whether the last segment may get more records."""
        return self.spec is not None and self.spec.sealed is None


EMPTY: Final = Tail(None, Frontier(), b"")


def leaves_of(spec: AuditSegmentSpec) -> list[bytes]:
    """Return the hashes of the records in a segment."""
    return [leaf_hash(line.encode()) for line in lines_of(spec)]


def lines_of(spec: AuditSegmentSpec) -> list[str]:
    """Return the records of a segment. `splitlines` would not do, as it knows other line ends, too."""
    return spec.lines.split("\n")[:-1]


def digest_of(spec: AuditSegmentSpec) -> str:
    """Return the digest by which the next segment names this one."""
    head = f"{spec.index}\n{spec.first}\n{spec.previous}\n{','.join(spec.frontier)}\n"
    return hashlib.sha256((head + spec.lines).encode()).hexdigest()


def frontier_of(spec: AuditSegmentSpec) -> Frontier:
    """Return the tree of all records before a segment; raises BrokenSegment."""
    try:
        return Frontier(spec.first, [bytes.fromhex(one) for one in spec.frontier])
    except ValueError as error:
        raise BrokenSegment(f"cannot go on from segment {spec.index}: {error}") from None


def tail_of(spec: AuditSegmentSpec) -> Tail:
    """Return the end of a log whose last segment this is; raises BrokenSegment."""
    tree, leaves = frontier_of(spec), leaves_of(spec)
    tree.extend(leaves)
    if not leaves:
        raise BrokenSegment(f"cannot go on from segment {spec.index}: it has no records")
    last = _read(spec, lines_of(spec)[-1])
    if last.sequence != tree.size - 1:
        raise BrokenSegment(
            f"cannot go on from segment {spec.index}: its last record has the number {last.sequence}, not"
            f" {tree.size - 1}"
        )
    seal = spec.sealed
    if seal is not None and (seal.size, seal.root, seal.digest) != (
        tree.size,
        tree.root().hex(),
        digest_of(spec),
    ):
        raise BrokenSegment(f"cannot go on from segment {spec.index}: it is not what its seal says")
    return Tail(spec, tree, leaves[-1])


def _read(spec: AuditSegmentSpec, line: str) -> Record:
    try:
        return records.decode(line)
    except records.BadRecord as error:
        raise BrokenSegment(f"cannot go on from segment {spec.index}: {error}") from None


def grow(
    tail: Tail, added: Iterable[Record], at: str, sign: Sign, limit: int = MAX_LINES
) -> tuple[list[AuditSegmentSpec], Tail]:
    """Return the segments that have to be written to add records, in this order, and the end of the log then.

    The first of them may be the last segment with more lines; the others are new. All but the last are
    sealed.
    """
    written: list[AuditSegmentSpec] = []
    tree, leaf, last = tail.tree.copy(), tail.leaf, tail.spec
    lines: list[str] = []
    room = limit - _taken(last)
    for one in added:
        numbered = msgspec.structs.replace(one, sequence=tree.size, previous=leaf.hex())
        line = records.encode(records.bounded(numbered))
        if last is not None and last.sealed is None and len(line) + 1 > room:
            last = sealed(_with(last, lines), tree, at, sign)
            written.append(last)
        if last is None or last.sealed is not None:
            last, lines = _next(last, tree), []
            room = limit
        lines.append(line.decode())
        room -= len(line) + 1
        leaf = leaf_hash(line)
        tree.append(leaf)
    if lines and last is not None:
        last = _with(last, lines)
        written.append(last)
    return written, Tail(last, tree, leaf)


def _taken(spec: AuditSegmentSpec | None) -> int:
    return len(spec.lines.encode()) if spec is not None else 0


def _with(spec: AuditSegmentSpec, lines: list[str]) -> AuditSegmentSpec:
    return msgspec.structs.replace(spec, lines=spec.lines + "".join(f"{line}\n" for line in lines))


def _next(before: AuditSegmentSpec | None, tree: Frontier) -> AuditSegmentSpec:
    if before is None or before.sealed is None:
        return AuditSegmentSpec(index=0, first=0, previous=NOTHING)
    return AuditSegmentSpec(
        index=before.index + 1,
        first=tree.size,
        previous=before.sealed.digest,
        frontier=[one.hex() for one in tree.hashes],
    )


def sealed(spec: AuditSegmentSpec, tree: Frontier, at: str, sign: Sign) -> AuditSegmentSpec:
    """Return a segment that is closed: no record is added to it any more."""
    root = tree.root()
    seal = Seal(size=tree.size, digest=digest_of(spec), root=root.hex(), note=sign(tree.size, root), at=at)
    return msgspec.structs.replace(spec, sealed=seal)
