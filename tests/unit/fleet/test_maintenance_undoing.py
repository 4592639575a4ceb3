"""What takes a task back that succeeded: of what changed something, the last first, as it was before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodetask import TaskStepStatus
from nodemanager.api.maintenance.task_steps import TaskStep
from nodemanager.fleet.maintenance import undoing

UP = {"name": "up", "packages": {"upgrade": "all"}, "timeout": "30m"}


def inverse(*pairs: tuple[dict[str, Any], dict[str, str] | None]) -> list[dict[str, Any]]:
    """Return what takes steps back, by what each of them changed; None = nothing."""
    steps = msgspec.convert([step for step, _ in pairs], list[TaskStep])
    became = [TaskStepStatus(name=step["name"], changed=evidence is not None, evidence=evidence or {})
              for step, evidence in pairs]  # fmt: skip
    return [msgspec.to_builtins(step) for step in undoing.inverse(steps, became)]


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
    (made,) = inverse((step, {}))
    wanted = msgspec.convert({"name": "one", "timeout": "2m", **undo}, TaskStep)
    assert made == msgspec.to_builtins(wanted)
    assert inverse((step, None)) == []


def test_what_an_undo_says_wins_over_what_packages_know() -> None:
    (made,) = inverse(({**UP, "undo": {"execution": {"argv": ["back"]}}}, {"nginx": "1.0 -> 1.1"}))
    assert made["execution"]["argv"] == ["back"]


def test_versions_come_back_first_and_what_is_new_goes_also_if_that_fails() -> None:
    first, second = inverse((UP, {"nginx": "1.0 -> 1.1", "libnew": "-> 2", "odd": "kept back"}))
    assert first["packages"]["install"] == [{"name": "nginx", "version": "1.0"}]
    assert (first["name"], first["timeout"], first["onFailure"]) == ("up-0", "30m", "continue")
    assert second["packages"]["remove"] == ["libnew"]
    assert (second["name"], second["timeout"], second.get("onFailure", "")) == ("up-1", "30m", "")


@pytest.mark.parametrize("change", ["1.0 -> 1.1", "-> 2"])
def test_what_is_the_only_way_back_must_not_fail_silently(change: str) -> None:
    (made,) = inverse((UP, {"nginx": change}))
    assert made.get("onFailure", "") == ""


def test_packages_that_did_not_change_are_left_alone() -> None:
    assert inverse((UP, {"odd": "kept back"})) == []
    assert inverse((UP, None)) == []


def test_steps_that_nobody_reported_are_left_alone() -> None:
    assert undoing.inverse([msgspec.convert(UP, TaskStep)], []) == []


def test_steps_with_long_names_are_taken_back_under_names_that_differ() -> None:
    """Names are unique in a task: of two that are the same the API takes none."""
    long = [{**UP, "name": f"{'x' * 54}-{number:08}"} for number in range(2)]
    names = [step["name"] for step in inverse(*((step, {"a": "1 -> 2"}) for step in long))]
    assert len(set(names)) == 2
    assert all(len(name) <= 63 for name in names)
    dashed = inverse(({**UP, "name": "abc" + "-" * 5 + "x" * 55}, {"a": "1 -> 2"}))
    assert not dashed[0]["name"].startswith("-")
