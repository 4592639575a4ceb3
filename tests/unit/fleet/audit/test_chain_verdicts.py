"""What exactly is thought of the chain of a host, of which records, and what is remembered of it."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record, RecordedObject
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit import host_chains
from nodemanager.fleet.audit.diagnosing import AuditFinding
from nodemanager.fleet.audit.host_chains import (
    MAX_GAP,
    MAX_KNOWN,
    ChainJudgement,
    ChainVerdict,
    KnownChain,
    judge,
)
from nodemanager.tlog import merkle

BEGUN = ChainVerdict.BEGUN
FINE = ChainVerdict.FINE
FORKED = ChainVerdict.FORKED
REWRITTEN = ChainVerdict.REWRITTEN
SHORTENED = ChainVerdict.SHORTENED
UNKNOWN = ChainVerdict.UNKNOWN


def grown(lines: list[bytes], count: int, word: str, chain: str = "aa") -> list[bytes]:
    """Return a chain with that many records more."""
    lines = list(lines)
    for _ in range(count):
        number = len(lines)
        previous = merkle.leaf_hash(lines[-1]).hex() if lines else ""
        verb, about = ("apply", RecordedObject()) if lines else ("begin", RecordedObject(uid=chain))
        one = Record(number, previous, verb=verb, object=about, message=f"{word} {number}")
        lines.append(records.encode(one))
    return lines


def end(lines: list[bytes], chain: str = "aa", first: int = 0) -> AuditChain:
    return AuditChain(chain, len(lines), merkle.leaf_hash(lines[-1]).hex(), first)


def changed(line: bytes, **fields: object) -> bytes:
    return records.encode(msgspec.structs.replace(records.decode(line), **fields))


A = grown([], 9, "a")
B = grown(A[:5], 4, "b")
"""The same up to record 4."""


def places(found: list[AuditFinding]) -> list[tuple[str, int, int]]:
    return [(one.kind, one.first, one.last) for one in found]


def verdict(
    known: KnownChain, now: AuditChain | None, lines: list[bytes] | None = None
) -> tuple[ChainVerdict, int]:
    found = judge(known, now, lines)
    return found.verdict, found.record


def seen(*ends: AuditChain, abandoned: tuple[AuditChain, ...] = ()) -> KnownChain:
    return KnownChain(ends, abandoned)


EMPTY = AuditChain()


@pytest.mark.parametrize(
    ("known", "now", "lines", "wanted"),
    [
        pytest.param(seen(), None, None, (UNKNOWN, -1), id="nothing ever"),
        pytest.param(seen(), EMPTY, None, (UNKNOWN, -1), id="an empty one"),
        pytest.param(seen(end(A)), EMPTY, None, (SHORTENED, 0), id="all gone"),
        pytest.param(seen(), end(A), None, (FINE, -1), id="the first"),
        pytest.param(seen(), end(A), A, (FINE, -1), id="the first, read"),
        pytest.param(seen(), end(A), B, (REWRITTEN, 8), id="the first, and its records are others"),
        pytest.param(seen(end(A)), end(A[:8]), None, (SHORTENED, 8), id="one fewer"),
        pytest.param(seen(end(A[:4]), end(A)), end(B), None, (REWRITTEN, 8), id="another end"),
        pytest.param(
            seen(end(A, first=3)), end(grown(A, 1, "a"), first=2), None, (REWRITTEN, 2),
            id="dropped records are back",
        ),
        pytest.param(
            seen(end(A, first=3)), end(grown(A, 1, "a"), first=4), None, (FINE, -1), id="some dropped"
        ),
        pytest.param(
            seen(end(A[:3])), end(A, first=4), A[4:], (UNKNOWN, 3), id="dropped before they were read"
        ),
        pytest.param(
            seen(end(A[:4])), end(A, first=4), A[4:], (FINE, -1), id="none dropped before it was read"
        ),
        pytest.param(seen(end(A[:4])), end(A, first=5), None, (FINE, -1), id="nobody reads them"),
        pytest.param(
            seen(end(A[:5]), end(A[:7]), end(A[:8])), end(grown(B, 2, "b")), grown(B, 2, "b"),
            (REWRITTEN, 5), id="changed after the fifth",
        ),
        pytest.param(
            seen(end(A[:7])), end(grown(B, 2, "b")), grown(B, 2, "b"), (REWRITTEN, 0),
            id="changed, nobody knows after which",
        ),
        pytest.param(
            seen(end(A), abandoned=(end(B),)), end(B), None, (FORKED, 8), id="what was before is back"
        ),
        pytest.param(
            seen(end(A), abandoned=(end(A),)), end(A), None, (FINE, -1), id="it was back before"
        ),
        pytest.param(
            seen(end(A[:7]), abandoned=(end(B[:8]),)), end(B), B, (FORKED, 7),
            id="what was before is back and has grown",
        ),
        pytest.param(
            seen(end(A[:3]), end(A[:7])), end(grown(B, 2, "b"), first=5), grown(B, 2, "b")[5:],
            (REWRITTEN, 0), id="changed, and what is older was dropped: nobody knows after which",
        ),
        pytest.param(
            seen(end(A[:7]), abandoned=(end(grown(A[:5], 3, "c")),)), end(B), B, (REWRITTEN, 0),
            id="it is neither what was told of nor what was before",
        ),
        pytest.param(
            seen(end(A[:5]), abandoned=(end(B[:8]),)), end(B), B, (FINE, -1),
            id="what was before is back, and contradicts nothing",
        ),
        pytest.param(
            seen(end(A)), end(grown([], 2, "x", "bb"), "bb"), None, (BEGUN, 0), id="another chain"
        ),
        pytest.param(
            seen(end(A), abandoned=(end(A[:2], "bb"),)), end(A[:3], "bb"), None, (FORKED, 0),
            id="the chain of before is back",
        ),
    ],
)  # fmt: skip
def test_what_is_thought_of_a_chain(
    known: KnownChain, now: AuditChain | None, lines: list[bytes] | None, wanted: tuple[ChainVerdict, int]
) -> None:
    assert verdict(known, now, lines) == wanted


def test_it_is_said_in_words_how_many_records_that_is_about() -> None:
    assert judge(seen(end(A)), end(A)) == ChainJudgement(FINE, "9 records, as before")
    assert judge(seen(end(A[:4])), end(A)).message == "5 records more, which nobody has read yet"
    assert judge(seen(end(A[:4])), end(A), A).message == "5 records more, which follow on those before"
    assert judge(seen(end(A)), end(A[:6])).message == "records 6 to 8 were told of, and are gone"
    assert judge(seen(end(A)), None).message == "the host told of 9 records, and has none any more"
    assert judge(seen(end(A[:3])), end(A, first=5), A[5:]).message.startswith("records 3 to 4 were dropped")
    assert "of the one before, 9 records" in judge(seen(end(A)), end(A[:1], "bb")).message


def test_records_that_do_not_hang_together_are_named_by_the_first_that_is_bent() -> None:
    lines = [*A[:3], changed(A[3], message="other"), *A[4:]]
    assert verdict(seen(end(A)), end(A), lines) == (REWRITTEN, 3)
    assert verdict(seen(end(A)), end(A), [*A[:3], b"no record", *A[4:]]) == (REWRITTEN, 3)
    assert verdict(seen(end(A)), end(A), A[:-1]) == (REWRITTEN, 8)


@pytest.mark.parametrize("alarm", [one for one in ChainVerdict if one not in (FINE, UNKNOWN)])
def test_all_but_what_is_fine_or_unknown_is_an_alarm(alarm: ChainVerdict) -> None:
    assert alarm.is_alarm
    assert not FINE.is_alarm
    assert not UNKNOWN.is_alarm


def test_what_is_contradicted_is_remembered_apart() -> None:
    four, nine, other = end(A[:4]), end(A), end(B)
    assert host_chains.after(seen(four), nine) == seen(four, nine)
    assert host_chains.after(seen(four, nine), nine) == seen(four, nine)
    assert host_chains.after(seen(four, nine), other) == seen(four, other, abandoned=(nine,))
    back = host_chains.after(seen(four, other, abandoned=(nine,)), nine)
    assert back == seen(four, nine, abandoned=(other,))
    shorter = host_chains.after(seen(four, nine), end(A[:6]))
    assert shorter == seen(four, end(A[:6]), abandoned=(nine,))
    for gone in (None, EMPTY):
        assert host_chains.after(seen(nine, abandoned=(four,)), gone) == seen(abandoned=(four, nine))
    assert host_chains.after(seen(nine), end(A, "bb")) == seen(end(A, "bb"), abandoned=(nine,))


def test_of_many_ends_the_newest_stay_and_ever_fewer_of_the_older_ones() -> None:
    found, total = KnownChain(), 3 * MAX_KNOWN
    for size in range(1, total + 1):
        found = host_chains.after(found, AuditChain("aa", size, f"{size:064x}", 0))
        assert len(found.seen) <= MAX_KNOWN
    sizes = [one.size for one in found.seen]
    assert (sizes[0], sizes[-10:]) == (1, list(range(total - 9, total + 1)))
    assert len(sizes) > MAX_KNOWN // 2
    gaps = [later - before for before, later in itertools.pairwise(sizes)]
    assert gaps[0] > gaps[-1]


def test_records_of_a_host_are_checked_by_themselves() -> None:
    assert host_chains.check([], A) == []
    assert host_chains.check(A[:4], A[4:]) == []
    assert host_chains.check([], []) == []
    assert places(host_chains.check([], [], end(A))) == [("truncated", 0, 8)]
    first = [changed(A[0], previous="e" * 64)]
    assert places(host_chains.check([], first)) == [("altered", 0, 0)]
    assert places(host_chains.check([], A[2:])) == [], "the older ones were dropped"
    assert places(host_chains.check([], [*A[:3], *A[4:]])) == [("dropped", 3, 3)]
    assert places(host_chains.check([], [*A[:2], b"no record", *A[3:]])) == [("altered", 2, 2)]
    assert places(host_chains.check([], [b"no record", *A[1:]])) == [("altered", 0, 0)]


def test_a_file_says_with_which_record_it_begins() -> None:
    def opened(verb: str, said: str, number: int) -> list[bytes]:
        first = Record(number, "", verb=verb, from_=said, object=RecordedObject(uid="aa"))
        lines = [records.encode(first)]
        for place in range(2):
            previous = merkle.leaf_hash(lines[-1]).hex()
            lines.append(records.encode(Record(number + 1 + place, previous, verb="apply")))
        return lines

    assert host_chains.check([], opened("continue", "7", 7)) == []
    assert places(host_chains.check([], opened("continue", "5", 7))) == [("dropped", 5, 6)]
    assert host_chains.check([], opened("continue", "soon", 7)) == []
    assert host_chains.check([], opened("apply", "5", 7)) == []
    assert places(host_chains.check([], opened("begin", "", 2))) == [("dropped", 0, 1)]


@pytest.mark.parametrize("number", [MAX_GAP * 3, 2**53])
def test_a_number_that_nobody_wrote_is_no_end(number: int) -> None:
    lines = [*A[:-1], changed(A[-1], sequence=number)]
    found = host_chains.check([], lines)
    assert found
    assert max(one.last for one in found) <= number
    assert sum(one.last - one.first for one in found) <= 10, "nobody lists what never was"


def test_records_are_held_against_what_somebody_saw_of_them() -> None:
    assert host_chains.check([], A, end(A)) == []
    assert host_chains.check([], A, end(A[:4])) == []
    assert places(host_chains.check([], A[:6], end(A))) == [("truncated", 6, 8)]
    assert places(host_chains.check([], B, end(A))) == [("rewritten", 8, 8)]
    assert places(host_chains.check([], grown(B, 2, "b"), end(A))) == [("rewritten", 0, 8)]
    assert places(host_chains.check([], grown([], 9, "x", "bb"), end(A))) == [("rewritten", 0, 8)]
    bent = [*A[:3], changed(A[3], message="other"), *A[4:]]
    assert places(host_chains.check([], bent, end(A[:8]))) == [("altered", 3, 3)], "and that is said once"


@pytest.mark.parametrize(
    ("ends", "lines", "wanted"),
    [
        pytest.param([], [], [], id="nothing told, nothing there"),
        pytest.param([end(A)], [], [("truncated", 0, 8)], id="all gone"),
        pytest.param([], A, [], id="nothing told"),
        pytest.param([end(A[:4]), end(A)], A, [], id="as told"),
        pytest.param([end(A[:4]), end(A)], A[:6], [("truncated", 6, 8)], id="shortened"),
        pytest.param([end(A[:4]), end(A[:7]), end(A)], B, [("rewritten", 6, 6)], id="others from there on"),
        pytest.param([end(A, "bb")], A, [("rewritten", 0, 8)], id="of another chain"),
        pytest.param([end(A[:4])], A[6:], [], id="dropped by now"),
        pytest.param([end(A[:6])], A[6:], [], id="dropped up to there"),
        pytest.param([end(B[:7])], A[7:], [("rewritten", 6, 6)], id="dropped, and the next knew another one"),
    ],
)
def test_records_are_held_against_what_a_host_told(
    ends: list[AuditChain], lines: list[bytes], wanted: list[tuple[str, int, int]]
) -> None:
    assert places(host_chains.compare(ends, lines)) == wanted
