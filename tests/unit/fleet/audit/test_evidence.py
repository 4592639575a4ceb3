"""Which lines an exported log has, and where its checkpoint is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import evidence
from nodemanager.fleet.audit.evidence import CHECKPOINT, KEY, SEGMENT
from nodemanager.tlog.merkle import Frontier
from support.audit_logs import HonestLog, sign_by, signer

SIGN = sign_by(signer(1))
WORDS = {KEY: "key", SEGMENT: "segment", CHECKPOINT: "checkpoint"}


def shape(lines: list[bytes]) -> str:
    """Return which lines there are: records as a dot."""
    return " ".join(
        next((word for mark, word in WORDS.items() if one.startswith(mark)), ".") for one in lines
    )


def of_size(size: int) -> str:
    return SIGN(size, b"r" * 32)


def log_of(*counts: int) -> HonestLog:
    """Return a log whose segments have so many records; all but the last are sealed."""
    log = HonestLog(Random(1), 20_000)
    for place, count in enumerate(counts):
        log.grow(*[Record(verb="update")] * (count - (place < len(counts) - 1)))
        if place < len(counts) - 1:
            log.rotate()
    return log


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (None, "key segment . . checkpoint segment . . ."),
        (1, "key segment . checkpoint . checkpoint segment . . ."),
        (2, "key segment . . checkpoint checkpoint segment . . ."),
        (3, "key segment . . checkpoint segment . checkpoint . ."),
        (5, "key segment . . checkpoint segment . . . checkpoint"),
        (9, "key segment . . checkpoint segment . . . checkpoint"),  # it covers more than there is
    ],
)
def test_a_checkpoint_is_behind_the_records_that_it_covers(size: int | None, wanted: str) -> None:
    log, note = log_of(2, 3), "" if size is None else of_size(size)
    lines = log.lines(note)
    assert shape(lines) == wanted
    if size is not None:
        assert [evidence.note_of(one) for one in lines].count(note) == 1
    if size == 2:  # behind that of the seal, which may hand over a key
        assert evidence.note_of(lines[5]) == note


def test_of_an_empty_log_only_what_somebody_signed_is_there() -> None:
    assert list(evidence.lines_of_log([], [])) == []
    empty = SIGN(0, Frontier().root())
    assert list(evidence.lines_of_log([], [], empty)) == [evidence.checkpoint_line(empty)]


def test_a_log_whose_beginning_was_removed_has_its_checkpoint_in_its_place() -> None:
    log = log_of(2, 3)
    assert (
        shape(list(evidence.lines_of_log([log.written[1]], ["k"], of_size(4))))
        == "key segment . . checkpoint ."
    )
    assert shape(list(evidence.lines_of_log([log.written[1]], [], of_size(1)))) == "segment . . ."


def test_a_checkpoint_that_cannot_be_read_is_there_for_whoever_reads_the_log() -> None:
    lines = log_of(1).lines("no note")
    assert (shape(lines), evidence.note_of(lines[-1])) == ("key segment . checkpoint", "no note")


def test_a_seal_that_nobody_could_sign_has_no_checkpoint() -> None:
    sealed = log_of(2, 1).written[0]
    assert sealed.sealed is not None
    unsigned = msgspec.structs.replace(sealed, sealed=msgspec.structs.replace(sealed.sealed, note=""))
    assert shape(list(evidence.lines_of(sealed))) == "segment . . checkpoint"
    assert shape(list(evidence.lines_of(unsigned))) == "segment . ."
    assert shape(list(evidence.lines_of(msgspec.structs.replace(sealed, sealed=None)))) == "segment . ."


def test_what_was_written_is_read_again() -> None:
    spec = log_of(2, 3).written[1]
    head = evidence.head_of(evidence.segment_line(spec))
    assert head is not None
    assert (head.index, head.first, head.frontier) == (1, 2, spec.frontier)
    assert evidence.note_of(evidence.checkpoint_line("a\nb")) == "a\nb"
    assert evidence.key_of(evidence.key_line(signer(1).key)) == str(signer(1).key)


@pytest.mark.parametrize(
    ("read", "mark", "nothing"),
    [(evidence.head_of, SEGMENT, None), (evidence.note_of, CHECKPOINT, ""), (evidence.key_of, KEY, "")],
)
@pytest.mark.parametrize("rest", [b"", b"7}", b"{", b"[" * 100_000, b'{"a":' * 100_000])
def test_a_line_that_cannot_be_read_is_none(
    read: Callable[[bytes], object], mark: bytes, nothing: object, rest: bytes
) -> None:
    """However deep it is: whoever wrote it may mean harm."""
    assert read(mark + rest) == nothing
    deep = mark[:1] + b'"other":' + rest + b"," + mark[1:]
    assert read(deep) == nothing
