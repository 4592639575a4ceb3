"""What a witness cosigns, what it passes on, and why it refuses."""

from __future__ import annotations

import random

import pytest

from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import evidence, witnessing
from nodemanager.fleet.audit.witnessing import CosignatureRefused, Witnessed
from nodemanager.tlog import checkpoints, cosignatures, notes
from nodemanager.tlog.checkpoints import Checkpoint
from nodemanager.tlog.cosignatures import Cosigner
from nodemanager.tlog.notes import Note, Signer
from support.audit_logs import HonestLog, sign_by, signer
from support.audit_pasts import Past

WITNESS, OTHER = Cosigner("example.org/w", bytes(32)), Cosigner("example.org/o", b"o" * 32)
KEY = signer(1).key
SIGNS = "has no checkpoint at its end"


def cosigned(
    lines: list[bytes], before: Witnessed | None = None, key: notes.Key | None = KEY, at: int = 1
) -> Witnessed:
    return witnessing.cosign(lines, before, [key] if key is not None else [], WITNESS, at)


def refused(lines: list[bytes], before: Witnessed | None = None, key: notes.Key | None = KEY) -> str:
    with pytest.raises(CosignatureRefused) as why:
        cosigned(lines, before, key)
    return str(why.value)


def size(known: Witnessed) -> int:
    return checkpoints.read(notes.read(known.note).text).size


def test_it_signs_the_newest_checkpoint_with_its_time_and_knows_the_key_that_was_given() -> None:
    past = Past("true").head().grow(3).sign().grow(2).sign()
    found = cosigned(past.lines, at=77)
    note = notes.read(found.note)
    note.verify(KEY)
    assert cosignatures.verify(note, WITNESS.key) == 77
    assert (size(found), found.keys, len(note.signatures)) == (5, [str(KEY)], 2)
    assert witnessing.origin_of(found) == checkpoints.read(note.text).origin


def test_signatures_of_others_are_not_passed_on() -> None:
    past = Past("true").head().grow(3)
    note = notes.read(sign_by(signer(1))(3, past.tree.root()))
    both = Note(note.text, (*note.signatures, OTHER.sign(note.text, 5)))
    past.lines.append(evidence.checkpoint_line(str(both)))
    found = notes.read(cosigned(past.lines).note)
    assert not found.by(OTHER.key)
    assert (bool(found.by(KEY)), bool(found.by(WITNESS.key))) == (True, True)


def test_who_was_told_no_key_asks_for_one_and_who_knows_one_does_not() -> None:
    past = Past("true").head().grow(3).sign()
    assert "give --log-key" in refused(past.lines, key=None)
    assert "give --log-key" in refused(past.lines, Witnessed(), key=None)
    seen = cosigned(past.lines)
    assert size(cosigned(past.grow(1).sign().lines, seen, key=None)) == 4
    assert cosigned(past.lines, seen, signer(1).key).keys == [str(KEY)]


def test_a_log_whose_end_is_not_signed_is_not_cosigned() -> None:
    past = Past("true").head().grow(3)
    assert SIGNS in refused(past.lines)
    past.sign()
    first = past.lines[-1]
    assert size(cosigned(past.grow(2).lines)) == 3, "what no checkpoint covers does not count"
    past.sign()
    assert SIGNS in refused([*past.lines, first]), "the last one is an older one"


def test_a_log_of_no_records_is_one_that_others_go_on_from() -> None:
    past = Past("true").head().sign()
    seen = cosigned(past.lines)
    assert size(seen) == 0
    assert size(cosigned(past.lines, seen)) == 0
    assert size(cosigned(past.grow(2).sign().lines, seen)) == 2


def test_a_log_that_was_rolled_back_is_not_cosigned() -> None:
    seen = cosigned(Past("true").head().grow(5).sign().lines)
    assert size(cosigned(Past("true").head().grow(5).sign().lines, seen)) == 5, "it may be the same"
    assert "cannot cosign: truncated" in refused(Past("true").head().grow(4).sign().lines, seen)


def test_a_checkpoint_of_before_is_not_cosigned_although_all_records_are_there() -> None:
    seen = cosigned(Past("true").head().grow(5).sign().lines)
    old = Past("true").head().grow(4).sign().grow(1).lines
    assert "the log has 4 records, and 5 were cosigned before" in refused(old, seen)


def later(first: int) -> list[bytes]:
    """Return a log whose records before that number were removed."""
    past = Past("true").grow(first)
    past.lines = []
    return past.head(1).grow(9 - first).sign().lines


@pytest.mark.parametrize(
    ("first", "why"), [(0, ""), (4, ""), (5, "begin with 5, and 5"), (6, "begin with 6")]
)
def test_a_log_is_to_have_the_last_record_that_was_cosigned(first: int, why: str) -> None:
    seen = cosigned(Past("true").head().grow(5).sign().lines)
    if why:
        assert why in refused(later(first), seen)
    else:
        assert size(cosigned(later(first), seen)) == 9


def test_another_log_is_not_cosigned_in_the_place_of_the_one_that_was() -> None:
    other = Signer("nodemanager/other", bytes([7]) * 32)
    past = Past("true").head().grow(5)
    note = Note(str(Checkpoint("nodemanager/other", 5, past.tree.root()))).signed_by(other)
    past.lines.append(evidence.checkpoint_line(str(note)))
    seen = cosigned(Past("true").head().grow(5).sign().lines)
    assert "this is the log nodemanager/other" in refused(past.lines, seen, other.key)
    assert size(cosigned(past.lines, None, other.key)) == 5


def test_who_misses_the_record_that_handed_over_is_told_to_give_the_new_key() -> None:
    hint = "give the new key as --log-key"
    log = HonestLog(random.Random(4), 20_000)
    log.grow(*[Record(verb="update")] * 5)
    log.rotate()
    log.grow(*[Record(verb="update")] * 3)
    del log.written[min(log.written)]
    lines = log.lines(log.note())
    assert hint in refused(lines)
    assert size(cosigned(lines, key=signer(2).key)) == 9
    strange = Past("true").head().grow(3)
    strange.lines.append(evidence.checkpoint_line(sign_by(signer(9))(3, strange.tree.root())))
    said = refused(strange.lines)
    assert ("unknown key" in said, hint in said) == (True, False), "nothing is missing here"
    short = Past("true").grow(1)
    short.lines = []
    short.head(1).grow(3).lines.append(evidence.checkpoint_line(sign_by(signer(9))(4, short.tree.root())))
    assert hint in refused(short.lines), "only the first record is"
    bent = later(4)
    bent[2] = bent[2].replace(b"true", b"false")
    assert hint not in refused(bent), "here, too, something else is wrong"
