"""What a log says of the chains of hosts, read from its lines as they pass by."""

from __future__ import annotations

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import ChainEntry, Record, RecordedObject
from nodemanager.fleet.audit.chain_merging import ACCEPT, ALARM, ANCHOR
from nodemanager.fleet.audit.told_chains import ToldChains

WEB1 = RecordedObject(kind="ManagedNode", namespace="prod", name="web1", uid="u")


def line(verb: str, size: int) -> bytes:
    chain = ChainEntry(size - 1, f"{size}" * 64, "ab") if size else None
    return records.encode(Record(verb=verb, object=WEB1, chain=chain, reason="Shortened", message="why"))


def read(*lines: bytes) -> tuple[list[str], list[int]]:
    """Return which alarms stand, and of which sizes something was told."""
    told = ToldChains("web1")
    assert list(told.passing(lines)) == list(lines)
    return list(told.alarms()), [one.size for one in told.ends]


def test_an_alarm_stands_until_it_is_accepted_or_the_host_is_deleted() -> None:
    alarmed = line(ANCHOR, 5), line(ALARM, 3)
    assert read(*alarmed) == (["web1"], [5, 3])
    assert read(*alarmed, line(ACCEPT, 3), line(ANCHOR, 4)) == ([], [4])
    assert read(*alarmed, line("delete", 0)) == ([], [])
    other = records.encode(Record(verb="delete", object=RecordedObject(kind="ConfigSet", name="web1")))
    assert read(*alarmed, other, b"no record") == (["web1"], [5, 3])
