"""Of which records there is a proof, and what is in it."""

from __future__ import annotations

from random import Random

import pytest

from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import evidence, proving
from nodemanager.fleet.audit.proving import NoProof
from nodemanager.tlog.merkle import leaf_hash
from support import tree_proofs
from support.audit_logs import HonestLog, places


def log_of(count: int) -> HonestLog:
    """Return a log of two segments, and that many records in the second one."""
    log = HonestLog(Random(1), 20_000)
    log.grow(*[Record(verb="update", message=f"{number}") for number in range(3)])
    log.rotate()
    log.grow(*[Record(verb="create", message=f"{number}") for number in range(count)])
    return log


@pytest.mark.parametrize("number", range(7))
def test_every_record_that_a_checkpoint_covers_can_be_proven(number: int) -> None:
    log = log_of(3)
    lines = log.lines(log.note())
    found = proving.prove(lines, number)
    line = lines[places(lines)[number]]
    assert (found["record"], found["leafHash"]) == (line.decode(), leaf_hash(line).hex())
    assert (found["index"], found["treeSize"], found["checkpoint"]) == (number, 7, log.note())
    assert found["rootHash"] == log.tail.tree.root().hex()
    path = [bytes.fromhex(one) for one in found["path"]]
    assert tree_proofs.verify_inclusion(leaf_hash(line), number, 7, path, log.tail.tree.root())


def test_a_record_is_proven_by_the_last_checkpoint_whatever_comes_behind_it() -> None:
    log = log_of(2)
    note, size = log.note(), log.tail.size
    log.grow(*[Record(verb="update")] * 3)
    found = proving.prove(log.lines(note), size - 1)
    assert (found["treeSize"], found["checkpoint"]) == (size, note)
    with pytest.raises(NoProof, match=f"cannot prove record {size}: the last checkpoint covers {size} of 9"):
        proving.prove(log.lines(note), size)


def test_of_what_is_not_there_nothing_can_be_proven() -> None:
    log = log_of(2)
    lines, note = log.lines(), log.note()
    unsigned = [line for line in lines if not line.startswith(evidence.CHECKPOINT)]
    with pytest.raises(NoProof, match="cannot prove record 0: "):
        proving.prove(unsigned, 0)
    with pytest.raises(NoProof, match="cannot prove record 1: "):
        proving.prove([*unsigned, evidence.checkpoint_line("no note")], 1)
    with pytest.raises(NoProof, match="the last checkpoint covers 6 of 5"):
        proving.prove([*unsigned[:-1], evidence.checkpoint_line(note)], 1)


def test_a_log_with_a_gap_proves_nothing() -> None:
    lines = log_of(2).lines()
    head = next(place for place, line in enumerate(lines) if line.startswith(evidence.SEGMENT) and place > 2)
    for bent in (lines[:2] + lines[3:], [lines[0], *lines[head:]], [evidence.SEGMENT + b"7}", *lines]):
        with pytest.raises(NoProof, match="does not begin at record 0, or has a gap"):
            proving.prove(bent, 0)
