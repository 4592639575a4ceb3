"""What a budget says of its pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.server.kinds import budgets
from support.budget_world import pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
READY, UNREADY, DONE, PENDING = (
    pod("r"), pod("u", ready=False), pod("d", ready=False, phase="Succeeded"),
    pod("p", ready=False, phase="Pending"),
)  # fmt: skip
GOING = pod("g", deletionTimestamp="2026-01-01T12:00:30Z")


def judged(spec: dict[str, Any], *pods: dict[str, Any], **status: Any) -> dict[str, Any]:
    budget = {"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": status}
    named = [{**one, "metadata": {**one["metadata"], "name": f"p{n}"}} for n, one in enumerate(pods)]
    return budgets.judge(budget, named, NOW).status


@pytest.mark.parametrize(
    ("spec", "pods", "expected", "desired", "healthy", "allowed"),
    [
        pytest.param({"minAvailable": 2}, [READY] * 3, 3, 2, 3, 1, id="number"),
        pytest.param({"minAvailable": 2}, [READY, DONE, DONE], 3, 2, 1, 0, id="number counts all"),
        pytest.param({"minAvailable": 0}, [READY], 1, 0, 1, 1, id="none needed"),
        pytest.param({"minAvailable": 5}, [READY], 1, 5, 1, 0, id="more than there are"),
        pytest.param({"minAvailable": "50%"}, [READY] * 3, 3, 2, 3, 1, id="percentage rounds up"),
        pytest.param({"minAvailable": "0%"}, [READY], 1, 0, 1, 1, id="no percent"),
        pytest.param({"minAvailable": "100%"}, [READY, DONE], 1, 1, 1, 0, id="finished ones do not count"),
        pytest.param({"maxUnavailable": 1}, [READY] * 3, 3, 2, 3, 1, id="one may be missing"),
        pytest.param({"maxUnavailable": 1}, [READY, UNREADY], 2, 1, 1, 0, id="one is missing"),
        pytest.param({"maxUnavailable": 1}, [READY, PENDING], 2, 1, 1, 0, id="one has not started"),
        pytest.param({"maxUnavailable": 1}, [READY, GOING], 2, 1, 1, 0, id="one is going"),
        pytest.param({"maxUnavailable": 9}, [READY], 1, 0, 1, 1, id="all may be missing"),
        pytest.param({"maxUnavailable": "34%"}, [READY] * 3, 3, 1, 3, 2, id="missing rounds up, too"),
        pytest.param({"maxUnavailable": 1}, [], 0, 0, 0, 0, id="no pods"),
        pytest.param({"minAvailable": 0}, [], 0, 0, 0, 0, id="no pods and none needed"),
        pytest.param({}, [READY], 0, 0, 1, 0, id="nothing said"),
    ],
)
def test_counts(
    spec: dict[str, Any], pods: list[Any], expected: int, desired: int, healthy: int, allowed: int
) -> None:
    status = judged(spec, *pods)
    assert status["observedGeneration"] == 3
    counts = [
        status[name] for name in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    ]
    assert counts == [expected, desired, healthy, allowed]
    (said,) = status["conditions"]
    assert said == {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }


def test_a_budget_that_cannot_be_counted_allows_nothing() -> None:
    status = judged({"minAvailable": "half"}, READY, disruptionsAllowed=7, observedGeneration=2)
    assert (status["disruptionsAllowed"], status["observedGeneration"]) == (0, 2)
    assert status["conditions"][0]["reason"] == "SyncFailed"
    assert "string is not a percentage" in status["conditions"][0]["message"]


def test_what_was_evicted_does_not_count_for_two_minutes() -> None:
    since = {f"p{n}": (NOW - timedelta(seconds=age)).isoformat() for n, age in enumerate((10, 119, 120))}
    since |= {"p3": "nonsense", "gone": NOW.isoformat()}
    budget = {
        "metadata": {"name": "b", "generation": 1},
        "spec": {"minAvailable": 0},
        "status": {"disruptedPods": since},
    }
    judgement = budgets.judge(budget, [pod(f"p{n}") for n in range(4)], NOW)
    assert list(judgement.status["disruptedPods"]) == ["p0", "p1"]
    assert judgement.status["currentHealthy"] == 2
    assert judgement.recheck == NOW + timedelta(seconds=1)


def test_the_time_of_a_condition_moves_with_its_truth_only() -> None:
    first = judged({"minAvailable": 0}, READY)
    first["conditions"][0]["lastTransitionTime"] = "then"
    other = {"type": "Other", "status": "True"}
    same = judged({"minAvailable": 0}, READY, conditions=[other, *first["conditions"]])
    assert [one.get("lastTransitionTime") for one in same["conditions"]] == [None, "then"]
    turned = judged({"minAvailable": 1}, READY, conditions=first["conditions"])
    assert turned["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists", "values": None}]}, True),
        ({"matchLabels": 5}, False),
    ],
)
def test_selectors(selector: Any, covered: bool) -> None:
    assert bool(budgets.covered({"spec": {"selector": selector}}, [pod("p")])) == covered
