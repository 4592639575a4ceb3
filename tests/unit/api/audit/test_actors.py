"""Who is behind an object: the stamp of admission, what is pinned elsewhere, else the field manager."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodemanager.api.audit import actors
from nodemanager.api.audit.actors import Requester, who

STAMP = {"user": "alice", "groups": ["ops"], "of": 1, "generation": 3}
WRITERS = [
    {"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}},
    {"manager": "argocd", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {}}},
    {"manager": "operator", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:status": {}}},
]


def stamped(text: Any, **more: Any) -> dict[str, Any]:
    said = text if isinstance(text, str) else json.dumps(text)
    notes = {actors.REQUESTED_BY: said, **more}
    return {"metadata": {"generation": 3, "annotations": notes, "managedFields": WRITERS}}


def test_the_stamp_says_who() -> None:
    assert who(stamped(STAMP)) == Requester("alice", actors.ADMISSION, ("ops",), 1)


def test_claims_are_told_as_claims() -> None:
    notes = {actors.CLAIMED_AUTHOR: "Bob\n<bob@example.org>", actors.CHANGE: "https://git.example.org/c/1"}
    found = who(stamped(STAMP, **notes))
    assert (found.name, found.claimed) == ("alice", "Bob<bob@example.org>")
    assert found.change == "https://git.example.org/c/1"


@pytest.mark.parametrize(
    "stamp",
    [
        pytest.param({**STAMP, "generation": 2}, id="of another generation"),
        pytest.param({**STAMP, "generation": "3"}, id="of no generation"),
        pytest.param({**STAMP, "user": ""}, id="of nobody"),
        pytest.param([1], id="a list"),
        pytest.param("{", id="half"),
        pytest.param("", id="empty"),
    ],
)
def test_a_stamp_that_does_not_count_leaves_the_field_manager(stamp: Any) -> None:
    assert who(stamped(stamp)) == Requester("argocd", actors.FIELD_MANAGER)


def test_without_the_policy_no_stamp_counts() -> None:
    assert who(stamped(STAMP), stamped=False).known == actors.FIELD_MANAGER


def test_many_groups_are_counted_and_cut() -> None:
    groups = [f"g{index}" for index in range(100)]
    found = who(stamped({**STAMP, "groups": groups, "of": 200}))
    assert (len(found.groups), found.of_groups) == (actors.MAX_GROUPS, 200)


def test_nothing_tells_of_an_object_without_owners() -> None:
    assert who({"metadata": {"annotations": None, "managedFields": None}}) == Requester()
    assert who({}).known == actors.UNKNOWN


def test_an_approval_names_its_approver() -> None:
    approval = {"kind": "MaintenanceApproval", "metadata": {}, "spec": {"approver": "carol"}}
    assert who(approval) == Requester("carol", actors.ADMISSION)


@pytest.mark.parametrize("path", ["approval", "rollout.approval"])
def test_who_asked_for_a_plan_is_told_besides(path: str) -> None:
    spec: dict[str, Any] = {"differentUser": True, "requester": "dave"}
    for part in reversed(path.split(".")):
        spec = {part: spec}
    found = who({**stamped(STAMP), "spec": spec})
    assert (found.name, found.pinned) == ("alice", "dave")
    assert who({"metadata": {}, "spec": {"approval": {"requester": "dave"}}}).pinned == ""
