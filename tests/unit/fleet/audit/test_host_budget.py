"""How many records a host may cause, and what becomes of those that are over it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.api.audit.record import HOST, Actor, Record, RecordedObject
from nodemanager.fleet.audit import host_budget
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.host_budget import HostBudget
from nodemanager.fleet.audit.observed import ObservedMeta, ObservedObject

NOW = datetime(2026, 11, 17, 8, tzinfo=UTC)
MOST = 3
TASK, OTHER = ObjectId("NodeTask", "prod", "task"), ObjectId("NodeTask", "prod", "other")
SEEN = ObservedObject(metadata=ObservedMeta(name="task"))


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_budget, "MAX_AN_HOUR", MOST)


def told(host: str = "web1", message: str = "") -> Record:
    return Record(actor=Actor(name=host, known=HOST), host=host, aspect="phase", message=message)


def budget(warned: list[str] | None = None) -> HostBudget:
    found = HostBudget(([] if warned is None else warned).append)
    assert found.due(NOW) == []
    return found


def test_a_host_that_causes_too_much_is_told_of_once_and_the_rest_is_left_for_later() -> None:
    warned: list[str] = []
    room = budget(warned)
    added = [told(message=f"{number}") for number in range(MOST + 1)]
    assert room.admit(TASK, SEEN, added[:MOST]) == added[:MOST]
    assert warned == []
    assert room.admit(TASK, SEEN, added[MOST:]) == []
    assert warned == ["web1"]
    assert room.admit(TASK, SEEN, added[:2]) == []
    assert room.admit(OTHER, SEEN, [told("web2")]) == [told("web2")], "another host has room of its own"
    assert warned == ["web1"]
    assert room.due(NOW + host_budget.HOUR) == [(TASK, SEEN)]
    assert room.due(NOW + host_budget.HOUR) == [], "once"
    assert room.admit(TASK, SEEN, added[:MOST]) == added[:MOST], "another hour, and room again"
    assert warned == ["web1"]


def test_what_people_and_the_operator_do_is_always_recorded() -> None:
    room = budget()
    room.admit(TASK, SEEN, [told()] * MOST)
    others = [
        Record(actor=Actor(name="ada", known="admission"), host="web1", aspect="phase"),
        Record(actor=Actor(name="nodemanager-operator", known="operator"), host="web1"),
        Record(object=RecordedObject(kind="ConfigSet"), host="web1", aspect="labels"),
        Record(object=RecordedObject(kind="ManagedNode"), host="web1", aspect="spec"),
    ]
    assert room.admit(OTHER, SEEN, [told(), *others, told()]) == others


def test_labels_of_a_host_count_whoever_seems_to_have_changed_them() -> None:
    room = budget()
    relabelled = Record(object=RecordedObject(kind="ManagedNode"), host="web1", aspect="labels")
    assert len(room.admit(TASK, SEEN, [relabelled] * (MOST + 1))) == MOST


@pytest.mark.parametrize(
    ("passed", "begins"),
    [
        (timedelta(), False),
        (host_budget.HOUR - timedelta(seconds=1), False),
        (host_budget.HOUR, True),
        (timedelta(seconds=-1), True),  # the clock was set back
    ],
)
def test_when_another_hour_begins(passed: timedelta, begins: bool) -> None:
    room = budget()
    room.admit(TASK, SEEN, [told()] * (MOST + 1))
    assert room.due(NOW + passed) == ([(TASK, SEEN)] if begins else [])
    assert len(room.admit(OTHER, SEEN, [told()])) == begins


def test_only_what_is_not_recorded_yet_is_looked_at_again() -> None:
    later = NOW + host_budget.HOUR
    room = budget()
    room.admit(TASK, SEEN, [told()] * (MOST + 1))
    room.admit(TASK, SEEN, [])  # it is as it was recorded, after all
    assert room.due(later) == []
    room.admit(TASK, None, [told()] * (MOST + 1))  # it is gone
    assert room.due(later + host_budget.HOUR) == []
    room.admit(TASK, SEEN, [told()] * (MOST + 1))
    room.forget()  # all are looked at again anyway
    assert room.due(later + 2 * host_budget.HOUR) == []
