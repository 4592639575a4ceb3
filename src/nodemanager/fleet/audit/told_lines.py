"""Records of its own chain that a host reports: read, compared with earlier reports, taken to the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.api.audit import actors, host_records
from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import (
    HOST,
    Actor,
    BadRecord,
    ChainEntry,
    FileChange,
    Record,
    RecordedObject,
)
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit.host_chains import ChainJudgement, ChainVerdict
from nodemanager.tlog import merkle

MAX_FILES: Final = 8
MAX_COUNT: Final = 2**53 - 1
"""The largest number that every reader of JSON understands."""


@dataclass(frozen=True, slots=True)
class ToldLine:
    """A record as a host reported it."""

    record: Record
    digest: str

    @property
    def index(self) -> int:
        """The number of the record in the chain."""
        return self.record.sequence

    @property
    def notable(self) -> bool:
        """Whether the record is taken to the log."""
        return host_records.is_notable(self.record)


def read(lines: Sequence[str], end: AuditChain | None) -> list[ToldLine]:
    """Return the readable lines that belong to a chain with this end, in their order."""
    found = {}
    for line in lines:
        try:
            one = records.decode(line)
        except BadRecord:
            continue
        if end is not None and 0 <= one.sequence < end.size:
            found[one.sequence] = ToldLine(one, merkle.leaf_hash(line.encode()).hex())
    return [found[index] for index in sorted(found)]


def linked(before: AuditChain | None, end: AuditChain, lines: Sequence[ToldLine]) -> ChainJudgement | None:
    """Return what is wrong with reported records; None = they fit each other, and earlier reports.

    An end alone does not show whether records were changed before others were added.
    """
    heads = {end.size: end.head}
    if before is not None and before.id == end.id:
        heads[before.size] = before.head
    for line in lines:
        for size, head in ((line.index, line.record.previous), (line.index + 1, line.digest)):
            if heads.setdefault(size, head) != head:
                said = f"record {size - 1} is not the one that was told of"
                return ChainJudgement(ChainVerdict.REWRITTEN, said, size - 1)
    return None


def merged(line: ToldLine, about: RecordedObject, end: AuditChain) -> Record:
    """Return the record of the log for a record of a host: its text, cut to a bounded length."""
    one = line.record
    by_agent = one.actor.name in ("", host_records.AGENT)
    who = about.name if by_agent else _text(one.actor.name)
    return Record(
        actor=Actor(name=who, known=HOST, claimed=_text(one.actor.claimed)),
        verb=_text(one.verb),
        aspect=_text(one.aspect),
        object=about,
        host=about.name,
        from_=_text(one.from_),
        to=_text(one.to),
        reason=_text(one.reason),
        message=_text(one.message),
        files=[_file(each) for each in one.files[:MAX_FILES]],
        count=min(max(one.count, 0), MAX_COUNT),
        chain=ChainEntry(line.index, line.digest, end.id, end.first_kept, _text(one.time)),
    )


def _file(one: FileChange) -> FileChange:
    return msgspec.structs.replace(
        one, path=_text(one.path), before=_text(one.before)[:64], after=_text(one.after)[:64]
    )


def _text(text: str) -> str:
    return actors.printable(text, records.MAX_TEXT)
