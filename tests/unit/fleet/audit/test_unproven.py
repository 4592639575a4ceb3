"""Records that no checkpoint covers: decoded late, kept for a while only, and named all the same."""

from __future__ import annotations

import random

import msgspec
import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import ChainEntry, FileChange, Record, RecordedGate, RecordedStep
from nodemanager.fleet.audit import unproven, verifying
from nodemanager.fleet.audit.unproven import Unproven
from nodemanager.fleet.audit.verifying import VerificationReport, Verifier
from nodemanager.tlog.merkle import leaf_hash
from support.audit_logs import HonestLog, places, some_record

SEED = random.SystemRandom().randrange(2**32)
FULL = Record(
    time="x",
    aspect="x",
    host="x",
    from_="x",
    to="x",
    reason="x",
    message="x",
    plan_hash="x",
    sequence=7,
    previous="e" * 64,
    verb=unproven.ROTATE,
    approval="x",
    evidence_digest="x",
    count=1,
    late=True,
    gates=[RecordedGate(reason="x")],
    step=RecordedStep(name="x"),
    files=[FileChange(path="x")],
    chain=ChainEntry(index=1),
)


def unsigned(count: int) -> list[bytes]:
    """Return a log that nobody could sign."""
    log = HonestLog(random.Random(SEED), limit=20_000)
    log.grow(*(some_record(log.random) for _ in range(count)))
    return [line for line in log.lines() if not line.startswith(b'{"checkpoint"')]


def checked(lines: list[bytes]) -> VerificationReport:
    verifier = Verifier()
    verifier.feed(lines)
    return verifier.finish()


def test_the_line_of_a_record_that_hands_over_ends_with_its_verb_whatever_else_it_has() -> None:
    assert set(msgspec.to_builtins(FULL)) >= {one.encode_name for one in msgspec.structs.fields(Record)} - {
        "actor",
        "object",
    }
    assert records.encode(FULL).endswith(unproven.HANDS_OVER)


@pytest.mark.parametrize(("name", "most"), [("MAX_RECORDS", 50), ("MAX_BYTES", 4000)])
def test_records_without_checkpoint_are_not_kept_for_ever_and_still_named(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unproven, name, most)
    monkeypatch.setattr(verifying, "MAX_RUN", 10)
    lines = unsigned(400)
    assert checked(lines).intact
    place = places(lines)[222]
    lines[place] = lines[place].replace(b'"known":"admission"', b'"known":"bystander"')
    assert [(one.kind, one.first) for one in checked(lines).findings] == [("altered", 222)], SEED


def test_no_more_than_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unproven, "MAX_RECORDS", 50)
    monkeypatch.setattr(verifying, "MAX_RUN", 10)
    verifier = Verifier()
    kept = []
    for line in unsigned(400):
        verifier.feed([line])
        kept.append(len(verifier._new))
    assert max(kept) == 49


def chained(count: int, first: int = 0) -> tuple[list[bytes], list[bytes]]:
    """Return records in a row, and their hashes; the one before the first has the hash `before`."""
    lines: list[bytes] = []
    leaves = [b"before"] if first else []
    for number in range(first, first + count):
        lines.append(records.encode(Record(number, leaves[-1].hex() if leaves else "", verb="update")))
        leaves.append(leaf_hash(lines[-1]))
    return lines, leaves[bool(first) :]


def taken(
    lines: list[bytes], leaves: list[bytes], first: int = 0, leaf: bytes | None = b"", at: int = 1
) -> Unproven:
    """Take records, so many at a time, and look at them in between."""
    found = Unproven()
    found.begin(first, leaf)
    for place in range(0, len(lines), at):
        found.add(lines[place : place + at], leaves[place : place + at])
        assert found.links[-1].leaf == leaves[min(place + at, len(leaves)) - 1]
    return found


@pytest.mark.parametrize("at", [1, 2, 9])
def test_records_in_a_row_are_not_odd_however_they_come(at: int) -> None:
    for first, leaf in ((0, b""), (7, b"before"), (7, None)):
        lines, leaves = chained(5, first)
        found = taken(lines, leaves, first, leaf, at)
        assert not found.is_odd
        assert (len(found), found.first, found.at, found.leaf) == (5, first, first + 5, leaves[-1])
        assert found.bytes == sum(len(line) for line in lines)
        assert [(link.sequence, link.leaf) for link in found.links] == list(
            zip(range(first, first + 5), leaves, strict=True)
        )


@pytest.mark.parametrize("at", [1, 9])
def test_one_that_is_not_the_next_is_odd_and_stays_so(at: int) -> None:
    lines, leaves = chained(5)
    for bent in (
        [0, 2, 3, 4],  # one is missing
        [1, 2, 3, 4],
        [0, 2, 1, 3, 4],
        [0, 1, 2, 2],
    ):
        assert taken([lines[one] for one in bent], [leaves[one] for one in bent], at=at).is_odd, bent
    changed = [lines[0], lines[1].replace(b"update", b"create"), *lines[2:]]
    hashes = [leaf_hash(line) for line in changed]
    assert taken(changed, hashes, at=at).is_odd
    assert taken([*lines, b"garbage"], [*leaves, b"x"], at=at).is_odd
    assert taken(*chained(2, 7), first=7, leaf=b"another", at=at).is_odd


def test_what_was_proven_is_forgotten() -> None:
    found = taken([b"garbage"], [b"x"])
    assert found.is_odd
    found.begin(4, None)
    assert (len(found), found.bytes, found.links, found.is_odd) == (0, 0, [], False)
    assert (found.first, found.at, found.before, found.leaf) == (4, 4, None, None)


@pytest.mark.parametrize(
    ("more", "longer", "much"), [(0, 1, True), (1, 1, False), (1, 0, True), (0, 0, True)]
)
def test_what_is_too_much(monkeypatch: pytest.MonkeyPatch, more: int, longer: int, much: bool) -> None:
    lines, leaves = chained(3)
    monkeypatch.setattr(unproven, "MAX_RECORDS", len(lines) + more)
    monkeypatch.setattr(unproven, "MAX_BYTES", sum(map(len, lines)) + longer)
    assert taken(lines, leaves).is_much is much


@pytest.mark.parametrize(
    "line", [b"", b"garbage", b"[]", b'{"sequence":"x"}', b"[" * 100_000, b'{"a":' * 100_000]
)
def test_a_line_that_cannot_be_read_has_no_place(line: bytes) -> None:
    """However deep it is: whoever wrote it may mean harm."""
    found = unproven.place_of(line)
    assert (found.sequence, found.previous) == (-1, "")
