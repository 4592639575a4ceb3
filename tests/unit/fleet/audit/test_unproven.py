"""Records that no checkpoint covers: decoded late, kept for a while only, and named all the same."""

from __future__ import annotations

import random

import msgspec
import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import ChainEntry, FileChange, Record, RecordedGate, RecordedStep
from nodemanager.fleet.audit import unproven, verifying
from nodemanager.fleet.audit.verifying import VerificationReport, Verifier
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
