"""A log as a file that is checked while it is read. Each line is one of these:

{"key": "name+hash+base64"}                           a public key that signed, before the first use of it
{"segment": {"first": 0, "frontier": [], "index": 0}} what the tree is, before the records of a segment
{"actor": ..., "sequence": 0, ...}                    a record: these bytes are the leaf
{"checkpoint": "the text of a signed note"}           size and root of all records so far
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditsegment import AuditSegmentSpec
from nodemanager.fleet.audit import segments
from nodemanager.kube.objects import Struct
from nodemanager.tlog import checkpoints, notes

_UNREADABLE: Final = 1 << 62
"""Stands for a size that cannot be read, so that a reader of the log sees that there is such a checkpoint."""
KEY: Final = b'{"key":'
SEGMENT: Final = b'{"segment":'
CHECKPOINT: Final = b'{"checkpoint":'


class SegmentHead(Struct, omit_defaults=False):
    """The beginning of a segment: the state from which it continues."""

    index: int = 0
    first: int = 0
    frontier: list[str] = []


class SegmentLine(Struct):
    """A line that begins a segment."""

    segment: SegmentHead = SegmentHead()


class CheckpointLine(Struct):
    """A line with a checkpoint."""

    checkpoint: str = ""


class KeyLine(Struct):
    """A line with a key."""

    key: str = ""


def key_line(key: notes.Key | str) -> bytes:
    """Return the line of a key."""
    return records.canonical(KeyLine(key=str(key)))


def checkpoint_line(note: str) -> bytes:
    """Return the line of a checkpoint."""
    return records.canonical(CheckpointLine(checkpoint=note))


def segment_line(spec: AuditSegmentSpec) -> bytes:
    """Return the line before the records of a segment."""
    head = SegmentHead(index=spec.index, first=spec.first, frontier=spec.frontier)
    return records.canonical(SegmentLine(segment=head))


def lines_of(spec: AuditSegmentSpec) -> Iterator[bytes]:
    """Return the lines of a segment; with a checkpoint at its end, if it is sealed and somebody signed."""
    yield segment_line(spec)
    for line in segments.lines_of(spec):
        yield line.encode()
    if spec.sealed is not None and spec.sealed.note:
        yield checkpoint_line(spec.sealed.note)


def lines_of_log(log: Iterable[AuditSegmentSpec], keys: Iterable[str], note: str = "") -> Iterator[bytes]:
    """Return the lines of a log; its newest checkpoint, `note`, follows the records that it covers."""
    for key in keys:
        yield key_line(key)
    size, at = _size(note), -1
    for spec in log:
        for line in lines_of(spec):
            if at == size and not line.startswith(
                CHECKPOINT
            ):  # after that of a seal, which may hand over a key
                yield checkpoint_line(note)
                size = -2
            yield line
            at = spec.first if line.startswith(SEGMENT) else at + (not line.startswith(CHECKPOINT))
    if size >= max(at, 0):  # it covers all records, or claims more than there are: a reader has to see that
        yield checkpoint_line(note)


def _size(note: str) -> int:
    try:
        return checkpoints.read(notes.read(note).text).size if note else -2
    except notes.BadNote:
        return _UNREADABLE


def head_of(line: bytes) -> SegmentHead | None:
    """Return the head of a segment, if a line is one that can be read."""
    try:
        return msgspec.json.decode(line, type=SegmentLine).segment
    except (msgspec.DecodeError, RecursionError):
        return None


def note_of(line: bytes) -> str:
    """Return the note of a line with a checkpoint; empty if it cannot be read."""
    try:
        return msgspec.json.decode(line, type=CheckpointLine).checkpoint
    except (msgspec.DecodeError, RecursionError):
        return ""


def key_of(line: bytes) -> str:
    """Return the key of a line with one; empty if it cannot be read."""
    try:
        return msgspec.json.decode(line, type=KeyLine).key
    except (msgspec.DecodeError, RecursionError):
        return ""
