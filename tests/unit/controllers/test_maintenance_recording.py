"""What others wrote into their objects can be part of a status: it is one line there, and fits."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec
import pytest

from nodemanager.api.maintenance.maintenance_status import NodeMaintenanceStatus, RunState
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.status import recording
from nodemanager.controllers.node_maintenances.status.recording import Record
from nodemanager.fleet.maintenance.decide import Decision, Wait
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.passes import Look
from nodemanager.fleet.maintenance.reasons import Reason

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
MANY = [f"h{number}" for number in range(100, 200)]
"""More than the status names."""
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("said", ["one\ntwo", "one\x1b[31m two", "one\u202etwo", "one " * 10_000])
def test_whatever_objects_say_the_status_can_be_written(said: str) -> None:
    maintenance = msgspec.convert({"metadata": {"name": "monday", "uid": "u-1"}}, NodeMaintenance)
    run = RunState(id="r1")
    maintenance = msgspec.structs.replace(maintenance, status=NodeMaintenanceStatus(run=run))
    waits = (
        Wait("a", Reason.GATE_BEFORE, f"managednode/a: {said}"),
        Wait("b", Reason.WORKING, f"nodetask/{said.replace(' ', '-')}"),
    )
    look = Look(WindowView(open=True), (), decision=Decision(waits=waits))
    problem = Problem(Reason.STEPS_INVALID, "operation x", said)
    found = recording.status_of(Record(maintenance, look, run, None, problem, None, NOW))
    objects = [one.object for one in found.waiting]
    remedies = [one.remedy for one in found.waiting]
    messages = [one.message for one in found.conditions]
    assert {text.partition("one")[0] for text in objects} == {"managednode/a: ", "nodetask/"}
    assert any(text.startswith("one") for text in messages)
    for texts, most in ((objects, 320), (remedies, 512), (messages, 4096)):
        assert all(len(text) <= most and UNSAFE.search(text) is None for text in texts)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([], [], ""),
        ([], ["a"], "on a: nodemanager describe mn a"),
        (["a"], ["a"], ""),
        (["a"], ["a", "b"], "on b: nodemanager describe mn b"),
        (["a"], ["b"], "on b: nodemanager describe mn b"),
        (["a", "b"], ["a"], ""),
        (MANY, MANY[1:], ""),
        (MANY, ["a", *MANY[1:]], "on a: nodemanager describe mn a"),
        ([], [f"h{number}" for number in range(100, 200)], "h104 and 95 more: nodemanager describe mn h100"),
    ],
)
def test_people_are_told_of_each_further_host_with_a_drift_that_is_theirs(
    before: list[str], after: list[str], said: str
) -> None:
    maintenance = msgspec.convert({"metadata": {"name": "monday", "uid": "u-1"}}, NodeMaintenance)
    look = Look(WindowView(open=True), ())

    def status(hosts: list[str]) -> NodeMaintenanceStatus:
        return recording.status_of(Record(maintenance, look, None, None, None, None, NOW, escalated=hosts))

    old, new = status(before), status(after)
    assert new.escalated is None or (new.escalated.hosts, len(new.escalated.first)) == (
        len(after), min(len(after), 64),
    )  # fmt: skip
    told = [one for one in recording.news(old, new) if one.reason == "DriftEscalated"]
    assert all(one.bad for one in told)
    assert [one.message.endswith(said) for one in told] == ([True] if said else [])
