"""Lines of its own chain that a host tells: which are read, whether they fit, and what the log takes."""

from __future__ import annotations

import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import (
    MAX_TEXT,
    Actor,
    ChainEntry,
    FileChange,
    Record,
    RecordedObject,
)
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit import told_lines
from nodemanager.fleet.audit.host_chains import ChainVerdict
from nodemanager.fleet.audit.told_lines import MAX_COUNT, MAX_FILES, ToldLine
from nodemanager.tlog.merkle import leaf_hash

WEB1 = RecordedObject(kind="ManagedNode", namespace="prod", name="web1", uid="u")


def chain(count: int, word: str = "a", keep: int = 0) -> list[str]:
    """Return the lines of a chain; the first `keep` are those of word `a`."""
    lines: list[str] = []
    for number in range(count):
        previous = leaf_hash(lines[-1].encode()).hex() if lines else ""
        said = "a" if number < keep else word
        lines.append(records.encode(Record(number, previous, verb="apply", message=said)).decode())
    return lines


def end(lines: list[str], which: str = "ab", first: int = 0) -> AuditChain:
    return AuditChain(which, len(lines), leaf_hash(lines[-1].encode()).hex(), first)


LINES = chain(5)


def test_what_can_be_read_and_is_of_the_chain_is_taken_once_and_in_order() -> None:
    told = [LINES[3], LINES[0], LINES[3], LINES[4], "no record"]
    found = told_lines.read(told, end(LINES))
    assert [(one.index, one.digest) for one in found] == [
        (number, leaf_hash(LINES[number].encode()).hex()) for number in (0, 3, 4)
    ]
    assert [one.index for one in told_lines.read(LINES, end(LINES[:3]))] == [0, 1, 2]
    below = records.encode(Record(-1, "", verb="apply")).decode()
    assert told_lines.read([below], end(LINES)) == []
    assert told_lines.read(LINES, None) == []


def judged(before: AuditChain | None, now: list[str], told: list[str]) -> tuple[str, int] | None:
    last = end(now)
    found = told_lines.linked(before, last, told_lines.read(told, last))
    if found is not None:
        assert found.verdict is ChainVerdict.REWRITTEN
        return found.message, found.record
    return None


def test_lines_fit_each_other_and_what_was_told_before() -> None:
    assert judged(None, LINES, LINES) is None
    assert judged(end(LINES[:3]), LINES, LINES) is None
    assert judged(end(LINES[:3]), LINES, LINES[1:2]) is None
    assert judged(None, LINES, []) is None


def test_a_line_that_does_not_fit_is_named() -> None:
    other = chain(5, "b", keep=2)
    assert judged(end(LINES[:3]), other, other) == ("record 2 is not the one that was told of", 2)
    assert judged(end(LINES[:3]), other, other[3:4]) == ("record 2 is not the one that was told of", 2)
    assert judged(end(LINES[:2]), other, other) is None, "so far they are the same"
    assert judged(None, LINES, [*LINES[:4], other[4]]) == ("record 3 is not the one that was told of", 3)
    assert judged(None, other, LINES[4:]) == ("record 4 is not the one that was told of", 4)
    assert judged(end(LINES[:3], "cd"), other, other) is None, "another chain was told of before"


def merged(record: Record) -> Record:
    return told_lines.merged(ToldLine(record, "d" * 64), WEB1, AuditChain("ab", 9, "h", 3))


@pytest.mark.parametrize(
    ("name", "who"), [("", "web1"), ("agent", "web1"), ("ada", "ada"), ("a\x1bda", "ada")]
)
def test_who_did_it_is_the_host_or_a_person_there(name: str, who: str) -> None:
    found = merged(
        Record(7, "p", time="t", actor=Actor(name=name, claimed="b\nob", known="admission"), verb="hold")
    )
    assert found.actor == Actor(name=who, claimed="bob", known="host")
    assert (found.host, found.object) == ("web1", WEB1)
    assert found.chain == ChainEntry(7, "d" * 64, "ab", 3, "t")
    assert (found.time, found.sequence, found.previous) == ("", -1, ""), "the log has its own"


def test_what_a_host_says_is_taken_with_bounds() -> None:
    long, shown = "x\x1b" * MAX_TEXT, "x" * MAX_TEXT
    files = [FileChange(path=long, before="b" * 70, after="a" * 70)] * (MAX_FILES + 1)
    said = Record(
        0, "", verb=long, aspect=long, from_=long, to=long, reason=long, message=long, files=files, count=5
    )
    found = merged(said)
    texts = (found.verb, found.aspect, found.from_, found.to, found.reason, found.message)
    assert set(texts) == {shown}
    assert found.files == [FileChange(path=shown, before="b" * 64, after="a" * 64)] * MAX_FILES
    assert found.count == 5


@pytest.mark.parametrize(
    ("told", "taken"), [(-7, 0), (0, 0), (1, 1), (MAX_COUNT, MAX_COUNT), (MAX_COUNT + 1, MAX_COUNT)]
)
def test_a_count_is_one_that_every_reader_takes(told: int, taken: int) -> None:
    assert merged(Record(0, "", count=told)).count == taken
