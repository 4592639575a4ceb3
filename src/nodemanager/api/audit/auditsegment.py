"""AuditSegment: some records of the audit log. The operator adds to the last one; nobody changes any."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.audit.actors import GROUP
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

VERSION: Final = "v1alpha1"
MAX_LINES: Final = 65_536
"""Bytes of the lines in one segment: far below what etcd takes, for each append writes them all again."""
DIGEST: Final = "^[0-9a-f]{64}$"
NOTE_MAX: Final = 16_384


class Seal(Struct):
    """How a segment ended."""

    size: Annotated[
        int, meta("How many records the log has with this segment.", required=True, minimum=1)
    ] = 0
    digest: Annotated[
        str,
        meta(
            "SHA-256 of the segment, which the next one names.", required=True, pattern=DIGEST, max_length=64
        ),
    ] = ""
    root: Annotated[
        str, meta("Root of the log's tree with this segment, in hexadecimal digits.", required=True,
                  pattern=DIGEST, max_length=64),
    ] = ""  # fmt: skip
    note: Annotated[
        str,
        meta(
            "The same as a signed note (C2SP tlog-checkpoint); empty = nobody could sign.",
            max_length=NOTE_MAX,
        ),
    ] = ""
    at: Annotated[str, meta("When it was sealed.", required=True, format="date-time", max_length=64)] = ""


class AuditSegmentSpec(Struct):
    """Records, and how they go on from those before."""

    index: Annotated[int, meta("Counts the segments, from 0.", required=True, minimum=0)] = -1
    first: Annotated[int, meta("Sequence number of its first record.", required=True, minimum=0)] = -1
    previous: Annotated[
        str,
        meta(
            "Digest of the segment before; zeros = there is none.",
            required=True,
            pattern=DIGEST,
            max_length=64,
        ),
    ] = ""
    frontier: Annotated[
        list[Annotated[str, meta("A hash, in hexadecimal digits.", pattern=DIGEST, max_length=64)]],
        meta("Roots of the complete subtrees of all records before it, the largest first.", max_items=64),
    ] = []
    lines: Annotated[
        str,
        meta("The records: canonical JSON, each on a line that ends with a newline.", max_length=MAX_LINES),
    ] = ""
    sealed: Annotated[Seal | None, meta("Set when nothing more is added.", atomic=True)] = None


class Exported(Struct):
    """Where a copy of a segment is."""

    at: Annotated[str, meta("When it was copied.", required=True, format="date-time", max_length=64)] = ""
    to: Annotated[str, meta("Where to.", pattern=PRINTABLE, max_length=512)] = ""


class AuditSegmentStatus(Struct):
    """What became of a segment that is sealed."""

    exported: Annotated[Exported | None, meta("Where a copy of it is.", atomic=True)] = None
    expired: Annotated[
        str | None,
        meta("Since when it need not be kept: the retention is over.", format="date-time", max_length=64),
    ] = None
    conditions: Annotated[
        list[Condition], meta("What is true of it.", list_map_keys=("type",), max_items=8)
    ] = []


class AuditSegment(Struct):
    """Some records of the audit log, in their order."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        AuditSegmentSpec,
        meta(
            "The records.",
            Rule(
                "self.index == oldSelf.index && self.first == oldSelf.first"
                " && self.previous == oldSelf.previous && has(self.frontier) == has(oldSelf.frontier)"
                " && (!has(self.frontier) || self.frontier == oldSelf.frontier)",
                "cannot be changed: only lines are added, and only at the end",
            ),
            Rule(
                "!has(oldSelf.lines) || (has(self.lines) && self.lines.startsWith(oldSelf.lines))",
                "cannot be changed: lines are added at the end, and none is changed or removed",
                ".lines",
            ),
            Rule(
                "!has(oldSelf.sealed) || (has(self.sealed) && self.sealed == oldSelf.sealed"
                " && has(self.lines) == has(oldSelf.lines)"
                " && (!has(self.lines) || self.lines == oldSelf.lines))",
                "cannot be changed: the segment is sealed",
            ),
            required=True,
        ),
    ] = AuditSegmentSpec()
    status: Annotated[AuditSegmentStatus, meta("What became of it.")] = AuditSegmentStatus()


AUDIT_SEGMENTS: Final = Resource(GROUP, VERSION, "AuditSegment", "auditsegments", AuditSegment)


def name_of(index: int) -> str:
    """Return the name of a segment: the same for everybody, so that none is made twice."""
    return f"segment-{index:012d}"
