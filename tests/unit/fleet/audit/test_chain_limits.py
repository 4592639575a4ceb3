"""Chains of hosts in the log: how much is remembered and taken, and what a chain that is back is called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.api.audit import host_records
from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import ADMISSION, Actor, Record, RecordedObject
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit.chain_merging import EVERY, HOUR, MAX_AN_HOUR, MAX_GONE, ChainMemory
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.observed import HostTold, SeenObject
from nodemanager.tlog import merkle

NOW = datetime(2026, 11, 17, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def which(name: str = "web1") -> ObjectId:
    return ObjectId("ManagedNode", "prod", name)


def lines_of(*words: str, verb: str = "apply", who: str = "agent") -> list[bytes]:
    found: list[bytes] = []
    for number, word in enumerate(words):
        previous = merkle.leaf_hash(found[-1]).hex() if found else "aa"
        actor = Actor(name=who, known=records.HOST)
        found.append(
            records.encode(Record(number, previous, actor=actor, verb=verb, aspect="x", message=word))
        )
    return found


def seen(lines: list[bytes], name: str = "web1", chain: str = "aa", uid: str = "u") -> SeenObject:
    about = RecordedObject(kind="ManagedNode", namespace="prod", name=name, uid=uid)
    end = AuditChain(chain, len(lines), merkle.leaf_hash(lines[-1]).hex()) if lines else None
    told = HostTold(end, host_records.told(lines))
    return SeenObject(object=about, actor=Actor(name="ada", known=ADMISSION), host=name, told=told)


def taken(memory: ChainMemory, lines: list[bytes], at: datetime) -> list[str]:
    return [one.verb for one in memory.take(which(), seen(lines), at)]


def test_a_chain_that_is_back_after_it_was_changed_is_a_fork_also_where_its_records_are_told() -> None:
    memory = ChainMemory()
    first, other = lines_of("a", "b", "c"), lines_of("a", "b", "other")
    assert taken(memory, first, NOW) == ["anchor"]
    assert taken(memory, other, NOW + SECOND) == ["alarm"]
    assert memory.alarms()["web1"].verdict == "Rewritten"
    assert taken(memory, first, NOW + 2 * SECOND) == ["alarm"]
    assert memory.alarms()["web1"].verdict == "Forked"


def test_of_hosts_that_are_gone_no_more_is_kept_than_there_is_room_for() -> None:
    memory = ChainMemory()
    for number in range(MAX_GONE + 2):
        memory.take(which(f"h{number}"), seen(lines_of("a"), f"h{number}"), NOW)
        memory.take(which(f"h{number}"), None, NOW)
    assert len(memory._gone) == MAX_GONE
    shorter = seen([], "h0", uid="v")
    assert memory.take(which("h0"), shorter, NOW) == [], "the first one is forgotten"
    back = lines_of("other")
    last = MAX_GONE + 1
    memory.take(which(f"h{last}"), seen(back, f"h{last}", uid="v"), NOW)
    assert memory.alarms()[f"h{last}"].verdict == "Rewritten", "the last one is not"


@pytest.mark.parametrize(("after", "more"), [(HOUR - SECOND, 0), (HOUR, 1), (-SECOND, 1)])
def test_so_many_records_are_taken_in_an_hour(after: timedelta, more: int) -> None:
    memory = ChainMemory()
    words: list[str] = []
    for number in range(MAX_AN_HOUR):
        words.append(f"{number}")
        found = taken(memory, lines_of(*words, verb="hold", who="root"), NOW)
        assert found.count("hold") == 1
    words.append("late")
    assert taken(memory, lines_of(*words, verb="hold", who="root"), NOW + after).count("hold") == more


@pytest.mark.parametrize(
    ("after", "anchors"), [(EVERY - SECOND, 0), (EVERY, 1), (2 * EVERY, 1), (-SECOND, 1)]
)
def test_an_end_is_anchored_after_a_while_or_when_the_clock_went_back(after: timedelta, anchors: int) -> None:
    memory = ChainMemory()
    taken(memory, lines_of("a"), NOW)
    assert taken(memory, lines_of("a", "b"), NOW + SECOND) == []
    assert len(memory.due(NOW + after)) == anchors
    other = ChainMemory()
    taken(other, lines_of("a"), NOW)
    assert len(taken(other, lines_of("a", "b"), NOW + after)) == anchors
