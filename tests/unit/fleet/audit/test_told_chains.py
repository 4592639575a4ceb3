"""What a log says of the chains of hosts, read from its lines as they pass by."""

from __future__ import annotations

from datetime import UTC, datetime

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import ChainEntry, Record, RecordedObject
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit.chain_merging import ACCEPT, ALARM, ANCHOR
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.observed import HostTold, SeenObject
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


def test_what_else_is_recorded_of_a_host_or_of_another_object_of_its_name_ends_nothing() -> None:
    told = line(ANCHOR, 1), line(ANCHOR, 5)
    updated = records.encode(Record(verb="update", object=WEB1))
    named = RecordedObject(kind="ConfigSet", name="web1")
    other = records.encode(Record(verb="delete", object=named, reason="ManagedNode"))
    assert read(*told, updated, other) == ([], [1, 5])


def test_only_ends_of_the_one_host_are_kept_and_alarms_of_all() -> None:
    web2 = RecordedObject(kind="ManagedNode", namespace="prod", name="web2", uid="v")
    chain = ChainEntry(4, "5" * 64, "cd")
    elsewhere = [
        records.encode(Record(verb=verb, object=web2, chain=chain, reason="Shortened"))
        for verb in (ANCHOR, ALARM)
    ]
    gone = records.encode(Record(verb="delete", object=web2))
    assert read(line(ANCHOR, 5), *elsewhere) == (["web2"], [5])
    assert read(line(ANCHOR, 5), *elsewhere, gone) == ([], [5])


def test_a_host_that_has_no_chain_any_more_tells_of_no_end() -> None:
    lost = records.encode(Record(verb=ALARM, object=WEB1, chain=ChainEntry(-1, "", "ab"), reason="Gone"))
    assert read(line(ANCHOR, 5), lost) == (["web1"], [5])


def test_what_a_host_tells_now_is_compared_with_what_it_told_before() -> None:
    now = datetime(2026, 11, 17, 8, tzinfo=UTC)
    for size, alarms in ((5, []), (6, []), (3, ["web1"])):
        told = ToldChains()
        list(told.passing([line(ANCHOR, 5)]))
        chain = AuditChain("ab", size, f"{size}" * 64)
        told.compare(
            [(ObjectId("ManagedNode", "prod", "web1"), SeenObject(object=WEB1, told=HostTold(chain)))], now
        )
        assert list(told.alarms()) == alarms
        assert told.ends == [], "nobody asked for those of a host"
