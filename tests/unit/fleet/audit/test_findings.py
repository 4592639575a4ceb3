"""What a check says of a log that is not as it was signed: exactly that, once, and of which records."""

from __future__ import annotations

import random

import pytest

from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import evidence
from nodemanager.fleet.audit.verifying import MAX_FINDINGS, VerificationReport, Verifier
from nodemanager.tlog import checkpoints, notes
from nodemanager.tlog.cosignatures import Cosigner
from support.audit_logs import HonestLog, sign_by, signer
from support.audit_pasts import Past

Found = list[tuple[str, int, int]]


def checked(
    lines: list[bytes], expected: dict[int, bytes] | None = None, chunk: int = 0
) -> VerificationReport:
    verifier = Verifier([signer(1).key], expected=expected)
    for place in range(0, len(lines), chunk or len(lines)):
        verifier.feed(lines[place : place + (chunk or len(lines))])
    return verifier.finish()


def found(report: VerificationReport) -> Found:
    return [(one.kind, one.first, one.last) for one in report.findings]


def root(message: str, size: int) -> dict[int, bytes]:
    """Return what somebody has who kept a checkpoint of a past."""
    return {size: Past(message).grow(size).tree.root()}


def bent(past: Past, number: int) -> list[bytes]:
    """Return its lines with another record in the place of one."""
    lines = list(past.lines)
    lines[number + 1] = lines[number + 1].replace(b'"message":"true"', b'"message":"false"')
    return lines


@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_a_log_that_hands_its_key_over_is_fine_and_all_of_it_counts(chunk: int) -> None:
    log = HonestLog(random.Random(4), 20_000)
    log.grow(*[Record(verb="update")] * 5)
    log.rotate()
    log.grow(*[Record(verb="update")] * 3)
    report = checked(log.lines(log.note()), chunk=chunk)
    assert (found(report), report.size, report.signed, report.first) == ([], 9, 9, 0)
    assert report.keys == [str(signer(1).key), str(signer(2).key)]
    assert (report.assumed, report.checkpoints) == (False, 2)


def test_a_log_whose_first_records_have_no_head_goes_on_with_the_first_segment() -> None:
    lines = Past("true").grow(3).head(0).grow(2).sign().lines
    assert found(checked(lines)) == []
    assert found(checked(Past("true").grow(3).head(1).grow(2).sign().lines)) == [("altered head", 3, 3)]


def test_a_head_that_nobody_can_read_is_said_and_nothing_else() -> None:
    past = Past("true").head().grow(3)
    past.lines.append(evidence.SEGMENT + b"?")
    assert found(checked(past.grow(2).sign().lines)) == [("altered head", 3, 3)]
    odd = Past("true").head().grow(3)
    odd.lines.append(b'{"segment":{"first":3,"frontier":["xx"],"index":1}}')
    assert found(checked(odd.grow(2).sign().lines)) == [("altered head", 3, 3)]


def test_a_segment_that_is_no_next_one_is_said() -> None:
    assert found(checked(Past("true").head(0).head(5).grow(2).sign().lines)) == [("altered head", 0, 0)]
    assert found(checked(Past("true").head(4).grow(3).head(5).grow(2).sign().lines)) == []
    assert found(checked(Past("true").head(4).grow(3).head(6).grow(2).sign().lines)) == [
        ("altered head", 3, 3)
    ]


def test_a_head_that_says_another_beginning_than_its_records_have_is_wrong() -> None:
    other = Past("true").grow(5).tree
    past = Past("true").head().grow(3).head(1, other).grow(2).head(2).grow(1).sign()
    report = checked(past.lines)
    assert (found(report), report.signed) == ([("altered head", 3, 3)], 6)
    assert "says that it begins with record 5, and begins with 3" in report.findings[0].message


def test_where_records_before_a_head_are_missing_these_are_said() -> None:
    past = Past("true").head().grow(3)
    kept = list(past.lines)
    past.grow(2)
    past.lines = kept
    report = checked(past.head(1).grow(2).sign().lines)
    assert (found(report), report.signed, report.size) == ([("dropped", 3, 4)], 7, 7)
    gone = Past("true").head().grow(3)
    kept = list(gone.lines)
    gone.grow(2)
    gone.lines = kept
    assert found(checked(gone.head(1).lines)) == [("dropped", 3, 4)], "also where nothing follows"


def test_records_that_the_next_segment_does_not_go_on_from_were_rewritten_and_the_rest_is_fine() -> None:
    true = Past("true").grow(3)
    past = Past("false").head().grow(3).head(1, true.tree)
    true.lines = past.lines
    report = checked(true.grow(2).sign().lines)
    assert (found(report), report.signed) == ([("rewritten", 0, 2)], 5)


def test_what_the_signed_records_do_not_have_was_rewritten() -> None:
    other = Past("other").grow(3)
    true = Past("true").head().grow(3)
    true.lines.append(evidence.checkpoint_line(sign_by(signer(1))(3, other.tree.root())))
    report = checked(true.lines)
    assert (found(report), report.signed, report.checkpoints) == ([("rewritten", 0, 2)], 0, 0)


@pytest.mark.parametrize("later", [0, 1, 2])
def test_a_fork_is_said_once_however_often_the_log_is_signed_after_it(later: int) -> None:
    past = Past("other").head().grow(5).sign()
    for _ in range(later):
        past.grow(2).sign()
    assert found(checked(past.lines, root("true", 5))) == [("forked", 0, 4)]
    assert found(checked(Past("other").head().grow(5).lines, root("true", 5))) == [("forked", 0, 4)]


def test_a_fork_is_said_also_where_what_follows_is_bent() -> None:
    past = Past("other").head().grow(5).grow(2)
    past.lines.append(evidence.checkpoint_line(sign_by(signer(1))(7, bytes(32))))
    assert found(checked(past.lines, root("true", 5))) == [("forked", 0, 4), ("rewritten", 0, 6)]


def test_a_log_that_is_shorter_than_what_somebody_kept_is_truncated() -> None:
    kept = {**root("true", 9), **root("true", 7), **root("true", 2)}
    report = checked(Past("true").head().grow(5).sign().lines, kept)
    assert found(report) == [("truncated", 5, 6)]
    assert report.findings[0].message.endswith("covers 7 records, and here are 5")
    assert found(checked(Past("true").head().grow(7).sign().lines, root("true", 7))) == []
    lines = bent(Past("true").head().grow(5).sign(), 1)
    assert found(checked(lines, root("true", 9))) == [("altered", 1, 1)], "what is bent comes first"


def test_two_checkpoints_of_one_size_are_a_fork_unless_they_are_one() -> None:
    past = Past("true").head().grow(3).sign()
    note = past.lines[-1]
    assert found(checked([*past.lines, note])) == []
    assert checked([*past.lines, note]).checkpoints == 1
    other = evidence.checkpoint_line(sign_by(signer(1))(3, Past("other").grow(3).tree.root()))
    assert found(checked([*past.lines, other])) == [("forked", 0, 2)]
    past.grow(4).sign()
    back = evidence.checkpoint_line(sign_by(signer(1))(2, bytes(32)))
    assert found(checked([*past.lines, back])) == [("forked", 2, 6)]


@pytest.mark.parametrize(("records", "place"), [(0, 0), (1, 0), (4, 3)])
def test_a_checkpoint_of_somebody_else_is_said_of_the_record_before_it(records: int, place: int) -> None:
    past = Past("true").head().grow(records)
    past.lines.append(evidence.checkpoint_line(sign_by(signer(9))(records, past.tree.root())))
    report = checked(past.grow(1).sign().lines)
    assert found(report) == [("unknown key", place, place)]
    assert report.findings[0].message.startswith(f"the checkpoint after record {records - 1}: ")


def test_a_key_that_nobody_can_read_is_said() -> None:
    verifier = Verifier()
    verifier.feed([b'{"key":"?"}', *Past("true").head().grow(1).lines])
    [one] = verifier.finish().findings
    assert (one.kind, one.first, one.message[:27]) == ("unknown key", 0, "the key after record -1: ca"), one


def test_a_rotation_to_no_key_is_said_of_its_record() -> None:
    past = Past("true").head().grow(2).grow(1, verb="rotate", to="nobody").grow(1).sign()
    report = checked(past.lines)
    assert found(report) == [("unknown key", 2, 2)]
    assert report.signed == 4


def test_a_segment_that_goes_back_behind_what_is_signed_is_a_fork() -> None:
    past = Past("true").head().grow(3)
    before = past.tree.copy()
    lines = past.grow(3).sign().lines
    back = Past("true").grow(3)
    back.lines = lines
    assert before.root() == back.tree.root()
    report = checked(back.head(1).grow(1).lines)
    assert ("forked", 3, 5) in found(report)


def test_no_more_is_listed_than_anybody_reads() -> None:
    past = Past("true").head()
    for _ in range(MAX_FINDINGS + 20):
        past.lines.append(evidence.SEGMENT + b"?")
    assert len(checked(past.grow(1).sign().lines).findings) == MAX_FINDINGS


def test_a_witness_counts_with_its_newest_look_at_a_checkpoint_of_this_log() -> None:
    witness = Cosigner("example.org/w", bytes(32))

    def kept(size: int, seconds: int, origin: int = 1) -> str:
        note = notes.read(sign_by(signer(origin))(size, Past("true").grow(size).tree.root()))
        return str(notes.Note(note.text, (*note.signatures, witness.sign(note.text, seconds))))

    assert checkpoints.read(notes.read(kept(3, 1)).text).size == 3
    report = checked(Past("true").head().grow(5).sign().lines)
    for size, seconds in ((3, 70), (5, 90), (4, 80), (6, 99)):
        report.note_witnesses(kept(size, seconds), [witness.key])
    assert report.witnessed == {"example.org/w": 90}
    later = Past("true").grow(5)
    later.lines = []
    report = checked(later.head(1).grow(2).sign().lines)
    report.note_witnesses(kept(5, 70), [witness.key])
    assert report.witnessed == {}, "of a size that is not here"
    report = checked(bent(Past("true").head().grow(5).sign(), 1))
    report.note_witnesses(kept(4, 70), [witness.key])
    assert report.witnessed == {}, "nobody has seen this"
