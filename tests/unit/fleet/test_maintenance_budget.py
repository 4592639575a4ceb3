"""How many hosts may be away at once: of all, of a zone, of a group, and in how many zones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.disruption import Budget
from nodemanager.fleet.maintenance import budget
from nodemanager.fleet.maintenance.budget import BudgetPlace, BudgetRoom
from nodemanager.fleet.maintenance.reasons import Reason

HOSTS = {
    f"{zone}{number}": BudgetPlace(group=f"g{number % 2}", zone=zone) for zone in "abc" for number in range(4)
}


def room(away: str = "", **spec: Any) -> BudgetRoom:
    """Return what is left when some hosts are away; those in capitals are worked on."""
    made = BudgetRoom(msgspec.convert({"maxUnavailable": 99, **spec}, Budget), HOSTS)
    names = away.split()
    made.count([name.lower() for name in names], [name.lower() for name in names if name.isupper()])
    return made


def zone(**fields: Any) -> dict[str, Any]:
    return {"perZone": {"label": "zone", **fields}}


@pytest.mark.parametrize(
    ("made", "host", "reason"),
    [
        pytest.param(room("A0 b0"), "c0", None, id="room for all"),
        pytest.param(room("A0", maxUnavailable=2), "c0", None, id="one left"),
        pytest.param(room("A0 b0", maxUnavailable=2), "c0", Reason.BUDGET_SPENT, id="none left"),
        pytest.param(room("a0", maxUnavailable="20%"), "c0", None, id="two of twelve are a fifth"),
        pytest.param(room("a0 b0", maxUnavailable="20%"), "c0", Reason.BUDGET_SPENT, id="more than a fifth"),
        pytest.param(room(maxUnavailable=None), "c0", None, id="one if nothing is said"),
        pytest.param(room("a0", maxUnavailable=None), "c0", Reason.BUDGET_SPENT, id="and no more"),
        pytest.param(room("a0", **zone(maxUnavailable=1)), "a1", Reason.ZONE_BUDGET_SPENT, id="zone is full"),
        pytest.param(room("a0", **zone(maxUnavailable=2)), "a1", None, id="zone has room"),
        pytest.param(room("a0", **zone(maxUnavailable=1)), "b1", None, id="another zone is full"),
        pytest.param(room("a0", **zone(maxUnavailable="50%")), "a1", None, id="half of a zone"),
        pytest.param(
            room("a0 a2", **zone(maxUnavailable="50%")), "a1", Reason.ZONE_BUDGET_SPENT, id="over half of it"
        ),
        pytest.param(room("A0", **zone(maxZones=1)), "b0", Reason.ZONES_BUSY, id="one zone at a time"),
        pytest.param(room("A0", **zone(maxZones=1)), "a1", None, id="it goes on in that zone"),
        pytest.param(room("A0", **zone(maxZones=2)), "b0", None, id="two zones at a time"),
        pytest.param(
            room("a0", **zone(maxZones=1)), "b0", None, id="whoever is only away makes no zone busy"
        ),
        pytest.param(room("a0 b0", perGroup=2), "c0", Reason.GROUP_BUDGET_SPENT, id="group is full"),
        pytest.param(room("a0", perGroup=2), "c0", None, id="group has room"),
        pytest.param(room("a0 b0", perGroup=2), "c1", None, id="another group is full"),
        pytest.param(room("a0 b0", perGroup="50%"), "c0", None, id="less than half of a group"),
        pytest.param(
            room("a0 b0 c2", perGroup="50%"), "c0", Reason.GROUP_BUDGET_SPENT, id="half of a group is away"
        ),
    ],
)
def test_whether_there_is_room_for_one_more(made: BudgetRoom, host: str, reason: Reason | None) -> None:
    assert made.refusal(host) is reason


def test_hosts_in_work_that_left_the_series_count_as_well() -> None:
    made = BudgetRoom(Budget(max_unavailable=2), HOSTS)
    made.count([], [], elsewhere=1)
    assert made.refusal("a0") is None
    made.count([], [], elsewhere=1)
    assert made.refusal("a0") is Reason.BUDGET_SPENT


def test_as_many_begin_as_there_is_room_for() -> None:
    made = room(maxUnavailable=5, perGroup=3, **zone(maxUnavailable=2, maxZones=2))
    begun = []
    for host in HOSTS:
        if made.refusal(host) is None:
            made.take(host)
            begun.append(host)
    assert begun == ["a0", "a1", "b0", "b1"]
    assert made.refusal("c0") is Reason.ZONES_BUSY
    assert Counter(host[0] for host in begun) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("ceiling", "total", "most"),
    [
        ("10%", 1, 1), ("10%", 19, 1), ("10%", 20, 2), ("99%", 100, 99), ("100%", 7, 7), ("0%", 50, 1),
        (3, 1, 3), (0, 9, 0), (None, 9, None),
    ],
)  # fmt: skip
def test_a_percentage_is_never_exceeded_unless_nobody_could_ever_begin(
    ceiling: int | str | None, total: int, most: int | None
) -> None:
    assert budget.resolve(ceiling, total) == most
