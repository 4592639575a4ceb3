"""How records become segments, byte by byte, and what does not count as one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditsegment import MAX_LINES, AuditSegmentSpec, Seal
from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import segments
from nodemanager.fleet.audit.segments import BrokenSegment, Tail
from nodemanager.tlog.merkle import Frontier, leaf_hash
from support.audit_logs import AT, sign_by, signer

SIGN = sign_by(signer(1))
ROOM = 10_000


def grown(tail: Tail, *messages: str, limit: int = ROOM) -> tuple[list[AuditSegmentSpec], Tail]:
    return segments.grow(tail, [Record(verb="update", message=one) for one in messages], AT, SIGN, limit)


def read(spec: AuditSegmentSpec) -> list[Record]:
    return [records.decode(line) for line in segments.lines_of(spec)]


def test_records_are_numbered_and_linked_and_counted_into_the_tree() -> None:
    (first,), tail = grown(segments.EMPTY, "a", "b")
    (longer,), tail = grown(tail, "c")
    assert (first.index, first.first, first.previous, first.frontier) == (0, 0, segments.NOTHING, [])
    assert longer.lines.startswith(first.lines), "the same segment, with one more line"
    lines = segments.lines_of(longer)
    assert [(one.sequence, one.message) for one in read(longer)] == [(0, "a"), (1, "b"), (2, "c")]
    assert [one.previous for one in read(longer)] == [
        "",
        *(leaf_hash(one.encode()).hex() for one in lines[:2]),
    ]
    whole = Frontier()
    whole.extend(segments.leaves_of(longer))
    assert (tail.size, tail.tree.root(), tail.leaf) == (3, whole.root(), segments.leaves_of(longer)[-1])
    assert (tail.spec, tail.is_open) == (longer, True)
    assert not segments.EMPTY.is_open
    assert segments.EMPTY.size == 0, "what was grown from is left as it was"


def test_where_nothing_is_added_nothing_is_written() -> None:
    _, tail = grown(segments.EMPTY, "a")
    for end in (tail, segments.EMPTY):
        written, same = grown(end)
        assert (written, same.spec, same.size, same.leaf) == ([], end.spec, end.size, end.leaf)


def test_a_segment_takes_what_fits_to_the_last_byte_and_is_sealed_when_more_comes() -> None:
    (both,), _ = grown(segments.EMPTY, "a", "b")
    exact = len(both.lines)
    (fits,), tail = grown(segments.EMPTY, "a", "b", limit=exact)
    assert (fits, tail.is_open) == (both, True)
    sealed, second = grown(segments.EMPTY, "a", "b", limit=exact - 1)[0]
    assert ([one.message for one in read(sealed)], [one.message for one in read(second)]) == (["a"], ["b"])
    assert sealed.sealed is not None
    assert second.sealed is None
    # What a segment has already counts, too.
    _, begun = grown(segments.EMPTY, "a", limit=exact)
    assert len(grown(begun, "b", limit=exact)[0]) == 1
    assert len(grown(begun, "b", limit=exact - 1)[0]) == 2


def test_each_segment_goes_on_where_the_one_before_was_sealed() -> None:
    (one,), _ = grown(segments.EMPTY, "a")
    written, tail = grown(segments.EMPTY, *"abcde", limit=len(one.lines) + 1)
    assert [(spec.index, spec.first, spec.sealed is not None) for spec in written] == [
        (0, 0, True), (1, 1, True), (2, 2, True), (3, 3, True), (4, 4, False),
    ]  # fmt: skip
    before, frontier = segments.NOTHING, Frontier()
    for spec in written:
        assert (spec.previous, spec.frontier) == (before, [one.hex() for one in frontier.hashes])
        assert segments.frontier_of(spec).root() == frontier.root()
        frontier.extend(segments.leaves_of(spec))
        if spec.sealed is not None:
            assert spec.sealed == Seal(
                size=frontier.size, digest=segments.digest_of(spec), root=frontier.root().hex(),
                note=SIGN(frontier.size, frontier.root()), at=AT,
            )  # fmt: skip
            before = spec.sealed.digest
    assert (tail.size, tail.spec) == (5, written[-1])


def test_after_a_sealed_end_another_segment_is_begun() -> None:
    (one,), tail = grown(segments.EMPTY, "a")
    closed = segments.sealed(one, tail.tree, AT, SIGN)
    end = segments.tail_of(closed)
    assert (end.is_open, end.size, end.leaf) == (False, 1, tail.leaf)
    (second,), _ = grown(end, "b")
    assert (second.index, second.first, read(second)[0].previous) == (1, 1, tail.leaf.hex())


def test_other_ends_of_lines_are_part_of_a_record() -> None:
    (one,), tail = grown(segments.EMPTY, "a\u2028b\x85c")
    assert len(segments.lines_of(one)) == 1
    assert segments.tail_of(one).tree.root() == tail.tree.root()


def test_a_segment_has_room_for_what_the_api_takes() -> None:
    written, _ = segments.grow(segments.EMPTY, [Record(message="x" * 200)] * 400, AT, SIGN)
    assert all(len(one.lines) <= MAX_LINES for one in written)
    assert len(written[0].lines) > MAX_LINES - 1000


def sealed_one() -> AuditSegmentSpec:
    (first,), tail = grown(segments.EMPTY, "a", "b")
    return segments.sealed(first, tail.tree, AT, SIGN)


GOOD = sealed_one()
assert GOOD.sealed is not None
SEAL = GOOD.sealed


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lines": ""}, "it has no records"),
        ({"lines": GOOD.lines.replace('"a"', '"c"')}, "it is not what its seal says"),
        ({"lines": GOOD.lines.replace('"sequence":1', '"sequence":4')}, "has the number 4, not 1"),
        ({"lines": GOOD.lines + "garbage\n"}, "cannot go on from segment 0: "),
        ({"first": 1}, "cannot go on from segment 0: "),
        ({"first": 1, "frontier": ["zz"]}, "cannot go on from segment 0: "),
        ({"index": 3}, "segment 3: it is not what its seal says"),
        ({"previous": "e" * 64}, "it is not what its seal says"),
        ({"sealed": msgspec.structs.replace(SEAL, size=3)}, "it is not what its seal says"),
        ({"sealed": msgspec.structs.replace(SEAL, root="e" * 64)}, "it is not what its seal says"),
        ({"sealed": msgspec.structs.replace(SEAL, digest="e" * 64)}, "it is not what its seal says"),
    ],
)
def test_nobody_goes_on_from_what_is_no_end_of_a_log(changes: dict[str, Any], why: str) -> None:
    assert segments.tail_of(GOOD).size == 2
    with pytest.raises(BrokenSegment, match=why):
        segments.tail_of(msgspec.structs.replace(GOOD, **changes))


def test_all_of_a_segment_is_in_its_digest() -> None:
    changed = ({"index": 1}, {"first": 1}, {"previous": "x"}, {"frontier": ["x"]}, {"lines": "x"})
    digests = {segments.digest_of(msgspec.structs.replace(GOOD, **one)) for one in changed}
    assert len(digests | {segments.digest_of(GOOD)}) == 6
    assert segments.digest_of(msgspec.structs.replace(GOOD, sealed=None)) == segments.digest_of(GOOD)
