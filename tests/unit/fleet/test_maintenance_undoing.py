"""What takes a task back that succeeded: of what changed something, the last first, as it was before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.api.maintenance.task_steps import TaskStep
from nodemanager.fleet.maintenance import undoing

UP = {"name": "up", "packages": {"upgrade": "all"}, "timeout": "30m"}


def inverse(*pairs: tuple[dict[str, Any], bool]) -> list[TaskStep]:
    """Return what takes steps back, by whether each of them changed something."""
    task = {
        "metadata": {"name": "t", "uid": "uid-1"},
        "spec": {"steps": [step for step, _ in pairs]},
        "status": {"steps": [{"name": step["name"], "changed": changed} for step, changed in pairs]},
    }
    return undoing.inverse(msgspec.convert(task, NodeTask))


@pytest.mark.parametrize(
    "undo",
    [
        {"packages": {"remove": ["x"]}},
        {"service": {"name": "x", "action": "restart"}},
        {"execution": {"argv": ["b"]}},
        {"file": {"path": "/x", "content": "a"}},
    ],
    ids=lambda undo: next(iter(undo)),
)
def test_a_step_is_taken_back_as_its_undo_says(undo: dict[str, Any]) -> None:
    step = {"name": "one", "execution": {"argv": ["a"]}, "undo": undo, "timeout": "2m"}
    assert inverse((step, True)) == [msgspec.convert({"name": "one", "timeout": "2m", **undo}, TaskStep)]
    assert inverse((step, False)) == []


def test_what_an_undo_says_wins_over_what_packages_know() -> None:
    (made,) = inverse(({**UP, "undo": {"execution": {"argv": ["back"]}}}, True))
    assert made.execution is not None
    assert made.packages is None


def test_packages_come_back_from_what_the_agent_noted() -> None:
    (made,) = inverse((UP, True))
    assert made == msgspec.convert({**UP, "packages": {"restore": {"task": "uid-1", "step": "up"}}}, TaskStep)
    assert inverse((UP, False)) == []


def test_the_last_is_taken_back_first_and_what_has_no_way_back_stays() -> None:
    plain = {"name": "plain", "execution": {"argv": ["a"]}}
    assert [step.name for step in inverse((UP, True), (plain, True), ({**UP, "name": "more"}, True))] == [
        "more", "up",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "possible"),
    [
        ([UP], True),
        ([{"name": "a", "execution": {"argv": ["a"]}}], False),
        ([{"name": "a", "execution": {"argv": ["a"]}, "undo": {"execution": {"argv": ["b"]}}}], True),
    ],
)
def test_whether_anything_can_be_taken_back(steps: list[dict[str, Any]], possible: bool) -> None:
    assert undoing.is_possible(msgspec.convert(steps, list[TaskStep])) == possible
