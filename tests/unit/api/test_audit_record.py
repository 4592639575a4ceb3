"""Records of the audit log: one canonical line each, bounded, and readable by others."""

from __future__ import annotations

import json

import msgspec
import pytest

from nodemanager.api.audit import record
from nodemanager.api.audit.record import Actor, FileChange, Record, RecordedGate, RecordedObject

FULL = Record(
    sequence=7,
    previous="a" * 64,
    time="2026-11-17T08:00:00Z",
    actor=Actor(name="ada", groups=["admins"], known=record.ADMISSION),
    verb="update",
    aspect="spec",
    object=RecordedObject(kind="ConfigSet", namespace="prod", name="web", uid="u", generation=2),
    from_="1",
    to="2",
    message='tab \t quote " slash / umlaut \xe4 control \x1f line \u2028',
)


def test_a_line_has_sorted_keys_no_spaces_and_nothing_empty() -> None:
    line = record.encode(FULL)
    said = json.loads(line)
    # What RFC 8785 asks for, where keys are ASCII and numbers are integers, said by another encoder.
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert line == canonical.encode()
    assert "files" not in said
    assert said["from"] == "1"


def test_a_line_is_read_again() -> None:
    assert record.decode(record.encode(FULL)) == FULL


def test_what_a_newer_version_adds_does_not_hinder() -> None:
    line = record.canonical({**json.loads(record.encode(FULL)), "weather": {"sun": True}})
    assert record.decode(line) == FULL


@pytest.mark.parametrize("line", ["", "{", "[]", '{"sequence":"x"}', "{}}", "[" * 5000])
def test_what_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(record.BadRecord, match="cannot read a record"):
        record.decode(line)


def test_a_record_is_cut_until_it_fits() -> None:
    long = msgspec.structs.replace(
        FULL,
        actor=Actor(name="\x01" * 5000, groups=["g" * 500] * 500, claimed="\x01" * 5000),
        from_="\x02" * 5000,
        to="\x02" * 5000,
        host="\x02" * 5000,
        reason="\x02" * 5000,
        approval="\x02" * 5000,
        message="m" * 50_000,
        gates=[RecordedGate(reason="r" * 100, object="o" * 300)] * 500,
        files=[FileChange(path="/" + "p" * 4000, before="a" * 64, after="b" * 64)] * 500,
    )
    found = record.bounded(long)
    assert len(record.encode(found)) <= record.MAX_RECORD
    assert found.message.endswith("...")
    assert (found.sequence, found.object, found.verb) == (7, FULL.object, "update")


def test_one_that_fits_stays_as_it_is() -> None:
    assert record.bounded(FULL) == FULL


def test_digests_do_not_depend_on_the_order_of_keys() -> None:
    assert record.digest({"a": 1, "b": [2]}) == record.digest({"b": [2], "a": 1})
    assert record.digest({"a": 1}) != record.digest({"a": 2})
