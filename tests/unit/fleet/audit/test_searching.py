"""Which records somebody asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.api.audit.record import Actor, Record, RecordedObject
from nodemanager.fleet.audit import searching
from nodemanager.fleet.audit.searching import RecordQuery

RECORD = Record(
    time="2026-11-17T08:00:00Z",
    actor=Actor(name="ada", claimed="bob"),
    verb="update",
    object=RecordedObject(kind="ConfigSet", namespace="prod", name="web"),
    host="h1",
    reason="Paused",
)


def at(hour: int, second: int = 0) -> datetime:
    return datetime(2026, 11, 17, hour, 0, second, tzinfo=UTC)


ALL = {"host": "h1", "actor": "ada", "object": "web", "reason": "Paused", "verb": "update", "since": at(8)}


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({}, True),
        ({"host": "h1"}, True),
        ({"host": "h"}, False),
        ({"actor": "ada"}, True),
        ({"actor": "bob"}, True),  # whom it claims to be
        ({"actor": "eve"}, False),
        ({"object": "web"}, True),
        ({"object": "we"}, False),
        ({"object": "ConfigSet/web"}, True),
        ({"object": "configset/web"}, True),
        ({"object": "NodeTask/web"}, False),
        ({"object": "/web"}, False),
        ({"object": "ConfigSet/db"}, False),
        ({"reason": "Paused"}, True),
        ({"reason": "Stopped"}, False),
        ({"verb": "update"}, True),
        ({"verb": "create"}, False),
        ({"since": at(7)}, True),
        ({"since": at(8)}, True),
        ({"since": at(8, 1)}, False),
        (ALL, True),
        *((ALL | {one: "x"}, False) for one in ("host", "actor", "object", "reason", "verb")),
        (ALL | {"since": at(9)}, False),
    ],
)  # fmt: skip
def test_a_record_has_to_be_all_that_is_asked_for(asked: dict[str, Any], fits: bool) -> None:
    assert RecordQuery(**asked).fits(RECORD) is fits


def test_of_what_has_none_nothing_is_found_by_it() -> None:
    empty = Record()
    assert RecordQuery().fits(empty)
    for asked in ({"host": "h1"}, {"actor": "ada"}, {"object": "web"}, {"verb": "x"}, {"since": at(8)}):
        assert not RecordQuery(**asked).fits(empty), asked
    assert not RecordQuery(since=at(8)).fits(Record(time="soon"))


def test_records_are_found_in_their_order() -> None:
    known = [Record(verb="a", host="1"), Record(verb="b"), Record(verb="a", host="2")]
    assert [one.host for one in searching.found(known, RecordQuery(verb="a"))] == ["1", "2"]
