"""Whether a host's own chain is still the one that was seen before: pure.

The host reports the end of its chain in the status of its ManagedNode. A reader who saw an earlier end
notices when records that were reported are gone or differ. A host can always lie about records that
it has not reported yet; it cannot change those that it has reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit import diagnosing
from nodemanager.fleet.audit.diagnosing import AuditFinding, ChainLink
from nodemanager.tlog import merkle

MAX_KNOWN: Final = 64
"""How many ends of a chain are remembered: the first one and the newest ones."""
MAX_GAP: Final = 100_000
OPENINGS: Final = ("begin", "continue")
"""Verbs of records that begin a file."""


class ChainVerdict(StrEnum):
    """How a chain fits what was seen of it before."""

    FINE = "Fine"
    BEGUN = "Begun"
    """Another chain: the host was installed anew, or somebody removed the old chain."""
    SHORTENED = "Shortened"
    REWRITTEN = "Rewritten"
    FORKED = "Forked"
    """An end that was seen and later contradicted is back: there are two machines, or two copies of a disk.
    """
    UNKNOWN = "Unknown"

    @property
    def is_alarm(self) -> bool:
        """Whether a person has to look."""
        return self not in (ChainVerdict.FINE, ChainVerdict.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ChainJudgement:
    """The verdict about a chain, in words; `record` is the first one concerned, -1 = none is."""

    verdict: ChainVerdict
    message: str
    record: int = -1


@dataclass(frozen=True, slots=True)
class KnownChain:
    """What was seen of the chain of one ManagedNode, by its uid: another uid begins without memory."""

    seen: tuple[AuditChain, ...] = ()
    """The ends in the order in which they were seen; all belong to one history."""
    abandoned: tuple[AuditChain, ...] = ()
    """Ends that were seen before and then contradicted."""


def judge(known: KnownChain, now: AuditChain | None, lines: Sequence[bytes] | None = None) -> ChainJudgement:
    """Compare what a host reports now with what it reported before, and with its records if they are here."""
    last = known.seen[-1] if known.seen else None
    if now is None or not now.size:
        if last is None:
            return ChainJudgement(ChainVerdict.UNKNOWN, "the host has told nothing of a chain")
        said = f"the host told of {last.size} records, and has none any more"
        return ChainJudgement(ChainVerdict.SHORTENED, said, 0)
    if now in known.abandoned and now != last:
        said = f"record {now.size - 1} is what it was before the chain was changed: there are two of it"
        return ChainJudgement(
            ChainVerdict.FORKED, f"{said}; two machines, or two copies of a disk", now.size - 1
        )
    if last is None:
        return _read(known, now, lines) or ChainJudgement(
            ChainVerdict.FINE, "this is the first that is seen of it"
        )
    if now.id != last.id:
        return _another(known, now, last)
    return _shrunk(now, known.seen) or _read(known, now, lines) or _grown(now, last, lines)


def after(known: KnownChain, now: AuditChain | None) -> KnownChain:
    """Return what is known of the chain after the host has reported `now`, no matter how that was judged."""
    if now is None or not now.size:
        return KnownChain((), _few((*known.abandoned, *known.seen)))
    stay = tuple(one for one in known.seen if _agrees(one, now))
    gone = tuple(one for one in known.seen if not _agrees(one, now))
    kept = stay if stay and stay[-1] == now else (*stay, now)
    return KnownChain(_few(kept), _few((*(one for one in known.abandoned if one != now), *gone)))


def check(old: Sequence[bytes], new: Sequence[bytes], anchor: AuditChain | None = None) -> list[AuditFinding]:
    """Return what is wrong with the records of a host, in its older and newer file.

    With an `anchor` that was seen before, also return whether the records belong to it.
    """
    lines = [*old, *new]
    if not lines:
        return (
            [] if anchor is None else [AuditFinding(diagnosing.TRUNCATED, 0, anchor.size - 1, "all are gone")]
        )
    known = [records.decoded(line) for line in lines]
    first = next((one.sequence - place for place, one in enumerate(known) if one is not None), 0)
    opening = records.decoded(new[0]) if new else None
    if opening is not None and opening.verb == OPENINGS[1] and opening.from_.isdigit():
        first = int(opening.from_)
    elif opening is not None and opening.verb == OPENINGS[0]:
        first = 0
    links = [
        ChainLink(
            -1 if one is None else one.sequence, "" if one is None else one.previous, merkle.leaf_hash(line)
        )
        for one, line in zip(known, lines, strict=True)
    ]
    last = known[-1]
    end = last.sequence + 1 if last is not None else None
    if end is not None and not 0 <= end - first <= MAX_GAP + len(lines):  # it is no number that was written
        end = None
    found = diagnosing.by_place(links, first, None, end)
    if not found and first == 0 and known[0] is not None and known[0].previous:
        found = [AuditFinding(diagnosing.ALTERED, 0, 0, "record 0: it names one before it")]
    return found or ([] if anchor is None else _against(anchor, lines))


def compare(ends: Sequence[AuditChain], lines: Sequence[bytes]) -> list[AuditFinding]:
    """Return the first reported end at which the host's records differ from what it reported."""
    if not lines:
        return [AuditFinding(diagnosing.TRUNCATED, 0, ends[-1].size - 1, "all are gone")] if ends else []
    heads, mine = _heads(lines), _end(lines)
    for one in ends:
        if mine.id and one.id != mine.id:
            return [
                AuditFinding(diagnosing.REWRITTEN, 0, one.size - 1, "this is another chain than was told of")
            ]
        if one.size > mine.size:
            said = f"records {mine.size} to {one.size - 1} were told of, and are gone"
            return [AuditFinding(diagnosing.TRUNCATED, mine.size, one.size - 1, said)]
        if heads.get(one.size, one.head) != one.head:
            said = f"record {one.size - 1} is not the one that was told of"
            return [AuditFinding(diagnosing.REWRITTEN, one.size - 1, one.size - 1, said)]
    return []


def _against(anchor: AuditChain, lines: Sequence[bytes]) -> list[AuditFinding]:
    judged = judge(KnownChain((anchor,)), _end(lines), lines)
    if not judged.verdict.is_alarm:
        return []
    kind = diagnosing.TRUNCATED if judged.verdict == ChainVerdict.SHORTENED else diagnosing.REWRITTEN
    return [AuditFinding(kind, max(judged.record, 0), anchor.size - 1, judged.message)]


def _end(lines: Sequence[bytes]) -> AuditChain:
    first, last = records.decoded(lines[0]) or Record(), records.decoded(lines[-1]) or Record()
    head = merkle.leaf_hash(lines[-1]).hex()
    return AuditChain(first.object.uid, last.sequence + 1, head, max(first.sequence, 0))


def _another(known: KnownChain, now: AuditChain, last: AuditChain) -> ChainJudgement:
    if any(one.id == now.id for one in known.abandoned):
        said = f"the chain {now.id} is back, after {last.id}: two machines report as this host, or two disks"
        return ChainJudgement(ChainVerdict.FORKED, said, 0)
    said = (
        f"a new chain began; of the one before, {last.size} records were told of. That is so where a host was"
        " installed anew; else somebody removed it"
    )
    return ChainJudgement(ChainVerdict.BEGUN, said, 0)


def _shrunk(now: AuditChain, seen: Sequence[AuditChain]) -> ChainJudgement | None:
    longest = max(seen, key=lambda one: one.size)
    if now.size < longest.size:
        said = f"records {now.size} to {longest.size - 1} were told of, and are gone"
        return ChainJudgement(ChainVerdict.SHORTENED, said, now.size)
    if now.first_kept < max(one.first_kept for one in seen):
        said = f"records from {now.first_kept} on are there again, which were dropped before"
        return ChainJudgement(ChainVerdict.REWRITTEN, said, now.first_kept)
    for one in seen:
        if one.size == now.size and one.head != now.head:
            said = f"record {now.size - 1} is not the one that was told of"
            return ChainJudgement(ChainVerdict.REWRITTEN, said, now.size - 1)
    return None


def _read(known: KnownChain, now: AuditChain, lines: Sequence[bytes] | None) -> ChainJudgement | None:
    """Compare the records themselves; None = they are right, or there are none."""
    if not lines:
        return None
    links = [(Record() if (one := records.decoded(line)) is None else one) for line in lines]
    found = diagnosing.by_place(
        [ChainLink(one.sequence, one.previous, merkle.leaf_hash(line))
         for one, line in zip(links, lines, strict=True)], now.first_kept, None, now.size,
    )  # fmt: skip
    if found:
        return ChainJudgement(ChainVerdict.REWRITTEN, str(found[0]), found[0].first)
    heads = _heads(lines)
    if heads.get(now.size) != now.head:
        said = f"record {now.size - 1} is not the one that the status tells of"
        return ChainJudgement(ChainVerdict.REWRITTEN, said, now.size - 1)
    back = [one for one in known.abandoned if one.id == now.id and heads.get(one.size) == one.head]
    other = [one for one in known.seen if one.id == now.id and heads.get(one.size, one.head) != one.head]
    if back and other:
        said = f"record {back[0].size - 1} is what it was before the chain was changed: there are two of it"
        return ChainJudgement(ChainVerdict.FORKED, said, back[0].size - 1)
    if other:
        good = [one.size for one in known.seen if one.id == now.id and heads.get(one.size) == one.head]
        low = max((one for one in good if one < other[0].size), default=0)
        said = (
            f"record {other[0].size - 1} is not the one that was told of; it was changed after record {low}"
        )
        return ChainJudgement(ChainVerdict.REWRITTEN, said, low)
    return None


def _grown(now: AuditChain, last: AuditChain, lines: Sequence[bytes] | None) -> ChainJudgement:
    new = now.size - last.size
    if not new:
        return ChainJudgement(ChainVerdict.FINE, f"{now.size} records, as before")
    if lines is None:
        return ChainJudgement(ChainVerdict.FINE, f"{new} records more, which nobody has read yet")
    if now.first_kept > last.size:
        said = f"records {last.size} to {now.first_kept - 1} were dropped before anybody read them"
        return ChainJudgement(ChainVerdict.UNKNOWN, said, last.size)
    return ChainJudgement(ChainVerdict.FINE, f"{new} records more, which follow on those before")


def _heads(lines: Sequence[bytes]) -> dict[int, str]:
    """Return the hash at the end of the chain, by how many records it had."""
    first = records.decoded(lines[0])
    if first is None:
        return {}
    found = {first.sequence: first.previous}
    found |= {first.sequence + place + 1: merkle.leaf_hash(line).hex() for place, line in enumerate(lines)}
    return found


def _agrees(one: AuditChain, now: AuditChain) -> bool:
    if one.id != now.id or one.size > now.size:
        return False
    return one.size < now.size or one.head == now.head


def _few(ends: Sequence[AuditChain]) -> tuple[AuditChain, ...]:
    """Return some of the ends that were seen: more of the new ones than of the old ones."""
    kept = list(ends)
    while len(kept) > MAX_KNOWN:
        half = len(kept) // 2
        kept = kept[:half:2] + kept[half:]
    return tuple(kept)
