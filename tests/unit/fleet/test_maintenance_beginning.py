"""How a visit begins: what holds for it, until when it lasts, and whether the window has time for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.fleet.maintenance import beginning, claims, openings, steps
from nodemanager.fleet.maintenance.beginning import VisitOwner
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth, NodeFacts
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.states import VisitRules
from nodemanager.fleet.windows.calendar import Calendar

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TOUCH = {"name": "touch", "execution": {"argv": ["touch", "/x"]}}
BOOT = {"name": "boot", "reboot": {"when": "always"}}
UNDONE = {**TOUCH, "undo": {"execution": {"argv": ["rm", "/x"]}}}


def spec(**fields: Any) -> NodeMaintenanceSpec:
    return msgspec.convert({"operations": [], **fields}, NodeMaintenanceSpec)


def rules(step: dict[str, Any] = TOUCH, on_close: str = "", **fields: Any) -> VisitRules:
    made = spec(operations=[{"name": "op", "type": "one-shot", "steps": [step]}], **fields)
    window = msgspec.convert({"always": True, "onClose": on_close}, WindowSpec)
    return beginning.rules_of(made, window, steps.work(made.operations, {}))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(rules(), VisitRules(), id="harmless"),
        pytest.param(rules(BOOT), VisitRules(cordons=True, drains=True), id="reboots"),
        pytest.param(rules(UNDONE), VisitRules(can_undo=True), id="can be undone"),
        pytest.param(rules(on_close="abortAndUndo"), VisitRules(undo_expired=True), id="undone at the end"),
        pytest.param(rules(on_close="stop"), VisitRules(), id="only stopped at the end"),
        pytest.param(rules(soak="5m"), VisitRules(soak=5 * MINUTE), id="soaks"),
        pytest.param(
            rules(disruption={"cordon": True, "drain": {"timeout": "7m", "onTimeout": "stop"}}),
            VisitRules(cordons=True, drains=True, drain_timeout=7 * MINUTE, on_drain_timeout="stop"),
            id="drains as it is told",
        ),
        pytest.param(
            rules(disruption={"drain": {}}), VisitRules(cordons=True, drains=True), id="drains by default"
        ),
        pytest.param(
            rules(health={"after": [{"ready": True}, {"alive": True, "timeout": "20m"}]}),
            VisitRules(proof_timeout=20 * MINUTE), id="the slowest gate",
        ),
        pytest.param(
            rules(health={"after": [{"ready": True, "timeout": "1m"}]}), VisitRules(), id="10m at least"
        ),
    ],
)  # fmt: skip
def test_what_holds_for_the_visits_of_a_maintenance(made: VisitRules, expected: VisitRules) -> None:
    assert made == expected


def test_a_visit_lasts_as_long_as_it_may_and_soaks_after_that() -> None:
    assert beginning.longest(spec()) == 2 * HOUR
    assert beginning.longest(spec(activeDeadlineSeconds=600, soak="5m")) == 15 * MINUTE


def test_the_first_claim_says_who_what_and_until_when() -> None:
    host = HostFacts("web1", "h-1", NOW, health=HostHealth(boot_id="one"))
    made = beginning.claim(
        VisitOwner("monday", "m-1", 3, "r1"), host, 2, spec(activeDeadlineSeconds=600), VisitRules(), NOW
    )
    assert made == Claim(
        maintenance="monday", uid="m-1", host_uid="h-1", run="r1", attempt=2, state=State.WORKING, since=NOW,
        begun=NOW, expires=NOW + 10 * MINUTE, generation=3, boot_id="one",
        task=claims.task_name("web1", "m-1", "r1", "h-1", 2),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("node", "cordons", "ours"),
    [
        (None, True, False),
        (NodeFacts(), False, False),
        (NodeFacts(cordoned=True), True, False),
        (NodeFacts(), True, True),
    ],
)
def test_only_a_node_that_we_will_cordon_is_ours(node: NodeFacts | None, cordons: bool, ours: bool) -> None:
    host = HostFacts("web1", "h-1", NOW, node=node)
    found = beginning.claim(VisitOwner("m", "m", 1, "r"), host, 0, spec(), VisitRules(cordons=cordons), NOW)
    assert found.cordoned == ours


@pytest.mark.parametrize(
    ("on_close", "closes", "deadline"),
    [
        ("", 30, 120), ("finishHost", 30, 120), ("stop", 30, 30), ("stop", 150, 120), ("stop", None, 120),
        ("abortAndUndo", 30, 30),
    ],
)  # fmt: skip
def test_until_when_a_step_may_begin(on_close: str, closes: int | None, deadline: int) -> None:
    window = msgspec.convert({"always": True, "onClose": on_close}, WindowSpec)
    held = beginning.claim(
        VisitOwner("m", "m", 1, "r"), HostFacts("web1", "h-1", NOW), 0, spec(), VisitRules(), NOW
    )
    view = WindowView(open=True, closes_at=None if closes is None else NOW + closes * MINUTE)
    assert beginning.task_deadline(held, window, view) == NOW + deadline * MINUTE


@pytest.mark.parametrize(
    ("view", "needed", "expected"),
    [
        (WindowView(), 0, False),
        (WindowView(closes_at=NOW + HOUR), 0, False),
        (WindowView(open=True), 999, True),
        (WindowView(open=True, closes_at=NOW + HOUR), 60, True),
        (WindowView(open=True, closes_at=NOW + HOUR), 61, False),
        (WindowView(open=True, closes_at=NOW), 0, False),
        (WindowView(open=True, closes_at=NOW + HOUR, minimum=HOUR), 0, True),
        (WindowView(open=True, closes_at=NOW + HOUR, minimum=HOUR + MINUTE), 0, False),
    ],
)
def test_whether_the_window_has_time_for_one_more(view: WindowView, needed: int, expected: bool) -> None:
    assert view.has_time(NOW, needed * MINUTE) == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"always": True}, WindowView(open=True)),
        ({"always": True, "validUntil": "2026-11-16T06:00:00Z"}, WindowView()),
        ({"always": True, "validUntil": "2026-11-16T07:00:00Z"}, WindowView(open=True, closes_at=NOW + HOUR)),
        ({"schedules": [{"start": "06:00", "duration": "3h"}], "minimumTimeLeft": "10m"},
         WindowView(True, NOW + 3 * HOUR, NOW + 24 * HOUR, 10 * MINUTE)),
        ({"schedules": [{"start": "07:00", "duration": "3h"}], "minimumTimeLeft": "10m"},
         WindowView(opens_at=NOW + HOUR, minimum=10 * MINUTE)),
    ],
)  # fmt: skip
def test_what_a_window_allows_now(window: dict[str, Any], expected: WindowView) -> None:
    assert openings.view(Calendar(msgspec.convert(window, WindowSpec)), NOW) == expected


def test_a_host_takes_as_long_as_it_took_and_one_that_nobody_knows_as_long_as_all() -> None:
    known = openings.measured([("a", MINUTE)] * 3 + [("b", HOUR)] * 2)
    assert known.expected("a") == MINUTE
    assert known.expected("b") == known.expected("new") == HOUR, "twice is not enough to go by"
    assert openings.measured([]).expected("a") == timedelta()


def test_of_20_times_at_most_one_takes_longer() -> None:
    times = [number * MINUTE for number in range(20, 0, -1)]
    assert openings.p95(times) == 19 * MINUTE
    assert openings.p95(times[:1]) == 20 * MINUTE
    assert openings.p95([*times, 21 * MINUTE]) == 20 * MINUTE
