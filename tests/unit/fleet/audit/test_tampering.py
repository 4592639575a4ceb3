"""Bent logs are found and what was bent is named; honest ones raise no alarm."""

from __future__ import annotations

import random

import pytest

from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit.verifying import VerificationReport, Verifier
from nodemanager.tlog import checkpoints, notes
from support.audit_logs import BENDS, Bend, HonestLog, honest, signer
from support.examples import some

SEED = random.SystemRandom().randrange(2**32)


def verified(lines: list[bytes], log: HonestLog, keys: int = 1) -> VerificationReport:
    """Check a log with its first key noted, and its last checkpoint kept elsewhere."""
    last = checkpoints.read(notes.read(log.note()).text)
    verifier = Verifier([signer(number + 1).key for number in range(keys)], expected={last.size: last.root})
    verifier.feed(lines)
    return verifier.finish()


@pytest.mark.parametrize("bend", BENDS, ids=lambda bend: bend.__name__)
def test_every_tampering_is_found_and_named(bend: Bend) -> None:
    for number in range(some(12)):
        seed = f"{SEED}/{bend.__name__}/{number}"
        chance = random.Random(seed)
        log = honest(chance)
        lines = log.lines(log.note())
        bent, numbers = bend(chance, lines)
        if bent == lines:
            continue
        report = verified(bent, log)
        assert report.findings, seed
        named = {one for found in report.findings for one in range(found.first, found.last + 1)}
        assert not numbers or numbers & named, (seed, numbers, report.findings)


def test_honest_logs_raise_no_alarm() -> None:
    for number in range(some(60)):
        seed = f"{SEED}/honest/{number}"
        log = honest(random.Random(seed))
        report = verified(log.lines(log.note()), log)
        assert not report.findings, (seed, report.findings)
        assert (report.first, report.size, report.signed) == (0, log.tail.size, log.tail.size), seed
        assert not report.assumed


def test_a_log_whose_beginning_was_removed_is_still_proven() -> None:
    log = honest(random.Random(SEED), 30)
    kept = sorted(log.written)[len(log.written) // 2 :]
    log.written = {index: log.written[index] for index in kept}
    report = verified(log.lines(log.note()), log, log.key)  # records that hand over are gone: note each key
    assert report.intact, (SEED, report.findings)
    assert report.first == log.written[kept[0]].first


def test_records_after_the_last_checkpoint_are_counted_apart() -> None:
    log = HonestLog(random.Random(SEED), 20_000)
    log.grow(*[Record(verb="create")] * 5)
    note, signed = log.note(), log.tail.size
    log.grow(*[Record(verb="update")] * 3)
    report = verified(log.lines(note), log)
    assert (report.intact, report.signed, report.size) == (True, signed, signed + 3)


def test_a_log_that_was_signed_twice_is_forked() -> None:
    chance = random.Random(SEED)
    log = honest(chance)
    note = log.note()
    before = log.tail, dict(log.written)
    log.grow(Record(verb="update", message="one"))
    elsewhere = checkpoints.read(notes.read(log.note()).text)
    log.tail, log.written = before
    log.grow(Record(verb="update", message="other"))
    verifier = Verifier([signer(1).key], expected={elsewhere.size: elsewhere.root})
    verifier.feed(log.lines(log.note()))
    report = verifier.finish()
    assert [found.kind for found in report.findings] == ["forked"], (SEED, note)
    assert report.findings[0].last == elsewhere.size - 1


def test_without_a_noted_key_the_report_says_so() -> None:
    log = honest(random.Random(SEED))
    verifier = Verifier()
    verifier.feed(log.lines(log.note()))
    report = verifier.finish()
    assert (report.intact, report.assumed) == (True, True)
    assert report.keys[0] == str(signer(1).key)
