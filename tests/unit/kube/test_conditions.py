"""Conditions: what moves a timestamp, and what does not."""

from __future__ import annotations

import msgspec
import pytest

from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
READY = Condition(
    type="Ready",
    status="True",
    reason="Applied",
    message="all good",
    last_transition_time=EARLIER,
    observed_generation=1,
)
OTHER = Condition(type="Drifted", status="False", reason="NoDrift", last_transition_time=EARLIER)


def test_get_and_is_true() -> None:
    listed = [READY, OTHER]
    assert conditions.get(listed, "Drifted") is OTHER
    assert conditions.get(listed, "Missing") is None
    assert conditions.is_true(listed, "Ready")
    assert not conditions.is_true(listed, "Drifted")
    assert not conditions.is_true(listed, "Missing")


def test_a_new_condition_is_dated_now_and_comes_last() -> None:
    assert conditions.set_condition([OTHER], Condition(type="Ready", status="True"), NOW) == [
        OTHER,
        Condition(type="Ready", status="True", last_transition_time=NOW),
    ]


@pytest.mark.parametrize(
    ("status", "since"),
    [
        pytest.param("True", EARLIER, id="same-status-keeps-its-time"),
        pytest.param("False", NOW, id="changed"),
        pytest.param("Unknown", NOW, id="changed-to-unknown"),
    ],
)
def test_transition_time_follows_the_status(status: str, since: str) -> None:
    new = Condition(type="Ready", status=status, reason="New", message="new", observed_generation=2)
    changed = conditions.set_condition([READY, OTHER], new, NOW)
    assert changed == [msgspec.structs.replace(new, last_transition_time=since), OTHER]


def test_a_condition_without_a_time_gets_one() -> None:
    undated = msgspec.structs.replace(READY, last_transition_time="")
    assert conditions.set_condition([undated], undated, NOW)[0].last_transition_time == NOW


def test_the_given_list_is_left_alone() -> None:
    listed = [READY]
    conditions.set_condition(listed, Condition(type="Ready", status="False"), NOW)
    assert listed == [READY]


def test_what_the_schema_requires_is_written_even_when_empty() -> None:
    written = msgspec.to_builtins(Condition(type="Conflicted", status="False", reason="NoConflict"))
    assert written["message"] == ""
    assert set(written) >= {"type", "status", "reason", "message", "lastTransitionTime"}
