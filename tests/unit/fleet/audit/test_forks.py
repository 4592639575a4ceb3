"""Whoever has the key of a log can sign two pasts; who kept a checkpoint of one is not shown the other."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import witnessing
from nodemanager.fleet.audit.verifying import VerificationReport, Verifier
from nodemanager.fleet.audit.witnessing import CosignatureRefused
from nodemanager.tlog import checkpoints, notes
from nodemanager.tlog.cosignatures import Cosigner
from support.audit_logs import HonestLog, signer
from support.audit_pasts import Past

WITNESS = Cosigner("example.org/w", bytes(32))
KNOWN = 10
"""Records that somebody has a checkpoint of."""


def wrong_link() -> list[bytes]:
    return Past("other").head().grow(3, previous="0" * 64).grow(KNOWN - 1).sign().lines


def wrong_number() -> list[bytes]:
    return Past("other").head().grow(3, sequence=7).grow(KNOWN - 1).sign().lines


def back_below_what_is_known() -> list[bytes]:
    """Show the true past up to a checkpoint, then go back to a tree of another one."""
    other = Past("other").grow(KNOWN)
    other.lines = [*Past("true").head().grow(KNOWN + 2).sign().lines]
    return other.head(1).grow(5).sign().lines


def back_without_a_head_before() -> list[bytes]:
    other = Past("other").grow(KNOWN)
    other.lines = [*Past("true").grow(KNOWN + 2).sign().lines]
    return other.head().grow(5).sign().lines


def begun_with_another_tree() -> list[bytes]:
    other = Past("other").grow(KNOWN)
    other.lines = []
    return other.head(1).grow(5).sign().lines


FORKS = [
    wrong_link, wrong_number, back_below_what_is_known, back_without_a_head_before, begun_with_another_tree
]  # fmt: skip


def checked(lines: list[bytes]) -> VerificationReport:
    verifier = Verifier([signer(1).key], expected={KNOWN: Past("true").grow(KNOWN).tree.root()})
    verifier.feed(lines)
    return verifier.finish()


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.__name__)
def test_another_past_is_never_taken_for_the_known_one(fork: Callable[[], list[bytes]]) -> None:
    assert "forked" in [one.kind for one in checked(fork()).findings]


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.__name__)
def test_no_witness_cosigns_another_past(fork: Callable[[], list[bytes]]) -> None:
    true = Past("true").head().grow(KNOWN).sign()
    seen = witnessing.cosign(true.lines, None, [signer(1).key], WITNESS, 1)
    with pytest.raises(CosignatureRefused):
        witnessing.cosign(fork(), seen, [], WITNESS, 2)
    again = witnessing.cosign(true.grow(5).sign().lines, seen, [], WITNESS, 2)
    assert checkpoints.read(notes.read(again.note).text).size == KNOWN + 5


def test_the_true_past_is_fine_with_and_without_its_beginning() -> None:
    true = Past("true").head().grow(KNOWN)
    assert checked(true.head(1).grow(3).sign().lines).intact
    later = Past("true").grow(KNOWN)
    later.lines = []
    assert checked(later.head(1).grow(3).sign().lines).intact


def test_a_record_that_was_bent_is_still_named_where_a_checkpoint_was_kept() -> None:
    log = HonestLog(random.Random(4), 20_000)
    log.grow(*[Record(verb="update")] * 5)
    lines = [one.replace(b'"sequence":2', b'"sequence":9') for one in log.lines(log.note())]
    verifier = Verifier([signer(1).key], expected={5: log.tail.tree.root()})
    verifier.feed(lines)
    assert [(one.kind, one.first) for one in verifier.finish().findings] == [("altered", 2)]
