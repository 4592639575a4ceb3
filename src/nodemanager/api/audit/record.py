"""A record of the audit log: one decision, or one change of a spec, and who made it.

A record is written as one line of canonical JSON (RFC 8785: sorted keys, no spaces, UTF-8). All its keys are
ASCII and all its numbers integers, so sorting is simple. The bytes of that line are a leaf of the log's tree.
What is empty is left out. No record holds a secret or the content of a file: specs, arguments, files and
evidence are in it as digests.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from nodemanager.api.audit.actors import ADMISSION, FIELD_MANAGER, HOST, UNKNOWN
from nodemanager.kube.objects import Struct

__all__ = ["ADMISSION", "FIELD_MANAGER", "HOST", "OPERATOR", "UNKNOWN"]

MAX_RECORD: Final = 8192
"""Bytes of one line; what is longer is cut when a record is made."""
MAX_TEXT: Final = 512
MAX_GROUPS: Final = 32
MAX_GATES: Final = 32
MAX_FILES: Final = 64

OPERATOR: Final = "operator"
"""The operator, which decided it; the other ways to know who is behind something are those of `actors`."""


class Actor(Struct):
    """Who is behind something, and how that is known."""

    name: str = ""
    groups: list[str] = []
    known: str = UNKNOWN
    claimed: str = ""
    """An author that the actor names, such as that of a commit. A claim."""


class RecordedObject(Struct):
    """What it is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    generation: int = 0
    spec_digest: str = ""
    """SHA-256 of the spec as JSON with sorted keys."""
    labels: str = ""
    """Beginning of the SHA-256 of its labels; in the first record of a ConfigSet or ManagedNode only."""
    change: str = ""
    """Where the change came from, such as the URL of a commit. A claim."""


class RecordedGate(Struct):
    """What a gate, a window or a budget said."""

    reason: str = ""
    object: str = ""
    hosts: int = 0
    """How many hosts it holds up; 0 = it does not count them."""


class RecordedStep(Struct):
    """A step of a task that ended."""

    name: str = ""
    argv_digest: str = ""
    exit_code: int | None = None
    attempts: int = 0


class FileChange(Struct):
    """A file that was changed, by SHA-256; empty = there was none, or there is none."""

    path: str = ""
    before: str = ""
    after: str = ""


class ChainEntry(Struct):
    """Which entry of a host's own chain a record is made of."""

    index: int = 0
    """Its number; -1 = the host has no chain any more."""
    digest: str = ""
    """Its hash, which is the head of the chain up to it."""
    id: str = ""
    """Of the chain."""
    first_kept: int = 0
    """Number of the first entry that the host still had."""
    at: str = ""
    """When the host wrote it, by its own clock."""


class Record(Struct):
    """One line of the log."""

    sequence: int = -1
    """Counts from 0, without gaps; -1 = not written yet."""
    previous: str = ""
    """Hash of the leaf before, as digits; empty for the first one. So one that was changed is known."""
    time: str = ""
    """When the operator wrote it, by its clock."""
    actor: Actor = Actor()
    verb: str = ""
    """What happened: create, update, delete, observe, start, end, wait, retry, undo, halt, ..."""
    aspect: str = ""
    """Of which part of the object: spec, phase, run, visit, wait/REASON, step/NAME, ..."""
    object: RecordedObject = RecordedObject()
    host: str = ""
    from_: str = msgspec.field(name="from", default="")
    to: str = ""
    reason: str = ""
    """A reason code, as in the status."""
    message: str = ""
    gates: list[RecordedGate] = []
    plan_hash: str = ""
    approval: str = ""
    """Name of the MaintenanceApproval, or hash that it was for; of an alarm, what accepts it."""
    step: RecordedStep | None = None
    files: list[FileChange] = []
    evidence_digest: str = ""
    count: int = 0
    """How often, where a record sums up several of the same kind."""
    late: bool = False
    """Noticed when an operator started, so it happened some time before."""
    chain: ChainEntry | None = None


class BadRecord(ValueError):
    """A line is no record; the message says why."""


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value whose keys are ASCII and whose numbers are integers."""
    return msgspec.json.encode(value, order="sorted")


def digest(value: Any) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys, in hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def encode(record: Record) -> bytes:
    """Return the line of a record, without its newline."""
    return canonical(record)


def decode(line: bytes | str) -> Record:
    """Return the record that a line is; fields that a newer version has are left out. Raises BadRecord."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRecord(f"cannot read a record: {error}") from None


def decoded(line: bytes | str) -> Record | None:
    """Return the record that a line is; None = it is none."""
    try:
        return decode(line)
    except BadRecord:
        return None


_DECODER: Final = msgspec.json.Decoder(Record)


def bounded(record: Record) -> Record:
    """Return a record that fits into a line: long texts and lists are cut, and texts say so by `...`."""
    found = _cut(record, MAX_TEXT, MAX_GROUPS, MAX_GATES, MAX_FILES)
    if len(encode(found)) > MAX_RECORD:  # the fields about who and what stay
        found = _cut(record, 96, 2, 2, 0)
    return found


def _cut(record: Record, text: int, groups: int, gates: int, files: int) -> Record:
    actor = record.actor
    return msgspec.structs.replace(
        record,
        actor=msgspec.structs.replace(
            actor,
            name=cut(actor.name, text),
            claimed=cut(actor.claimed, text),
            groups=[cut(one, 128) for one in actor.groups[:groups]],
        ),
        object=msgspec.structs.replace(record.object, change=cut(record.object.change, text)),
        host=cut(record.host, 253),
        from_=cut(record.from_, text),
        to=cut(record.to, text),
        reason=cut(record.reason, 64),
        message=cut(record.message, text),
        approval=cut(record.approval, 253),
        gates=[
            RecordedGate(reason=cut(one.reason, 64), object=cut(one.object, text), hosts=one.hosts)
            for one in record.gates[:gates]
        ],
        files=record.files[:files],
    )


def cut(text: str, length: int = MAX_TEXT) -> str:
    """Return a text that is not longer than this."""
    return text if len(text) <= length else f"{text[: length - 3]}..."
