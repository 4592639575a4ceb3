"""Turns to put back what drifted: what counts where, who comes first, and what those who wait are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.enforcement import EnforcedSpan, Enforcement
from nodemanager.api.maintenance.disruption import Budget
from nodemanager.fleet.maintenance.budget import BudgetPlace, BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.repairs import deciding, turns
from nodemanager.fleet.repairs.deciding import (
    RETRY,
    SHORTEST,
    Budgets,
    DriftedHost,
    RepairDecision,
    RepairedSet,
)
from nodemanager.kube import times

NOW = datetime(2026, 11, 17, 3, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
MOTD, OTHER = "configset/motd", "configset/other"
SETS = {"motd": RepairedSet(MOTD), "other": RepairedSet(OTHER)}


def asking(name: str = "a", wanted: str = "motd", *, ago: timedelta = MINUTE, **facts: Any) -> DriftedHost:
    return DriftedHost(HostFacts(name, f"uid-{name}", NOW, **facts), wanted, NOW - ago)


def claim(maintenance: str, state: State, ago: timedelta = MINUTE, reason: Reason | None = None) -> Claim:
    since = NOW - ago
    return Claim(maintenance, "u", "uid-a", "r1", 0, state, since, since, since, reason=reason)


def room(most: int, *hosts: str) -> BudgetRoom:
    return BudgetRoom(Budget(max_unavailable=most), {host: BudgetPlace("") for host in hosts})


def decided(*hosts: DriftedHost, rooms: dict[str, BudgetRoom] | None = None, **more: Any) -> RepairDecision:
    names = [one.facts.name for one in hosts]
    rooms = rooms or {MOTD: room(9, *names), OTHER: room(9, *names)}
    return deciding.decide(hosts, more.pop("sets", SETS), Budgets(rooms, **more), NOW)


def begun(found: RepairDecision) -> list[tuple[str, str]]:
    return [(one.host.name, one.config_set) for one in found.starts]


def waiting(found: RepairDecision) -> list[tuple[str, str, Reason, str]]:
    return [(wait.host, name, wait.reason, wait.object) for name, wait in found.waits]


def test_a_host_counts_once_in_the_room_of_another_set_that_means_it_too() -> None:
    hosts = [asking("c", "other", ago=9 * MINUTE), asking("a"), asking("b")]
    rooms = {MOTD: room(3, "a", "b"), OTHER: room(9, "c")}
    found = decided(*hosts, rooms=dict(rooms), meant={MOTD: lambda _: True})
    assert begun(found) == [("c", "other"), ("a", "motd"), ("b", "motd")]
    rooms = {MOTD: room(2, "a", "b"), OTHER: room(9, "c")}
    found = decided(*hosts, rooms=dict(rooms), meant={MOTD: lambda host: host.name == "c"})
    assert begun(found) == [("c", "other"), ("a", "motd")]
    rooms = {MOTD: room(2, "a", "b"), OTHER: room(9, "c")}
    found = decided(*hosts, rooms=dict(rooms), meant={MOTD: lambda _: False})
    assert len(found.starts) == 3, "nobody's business"


def test_a_maintenance_without_hosts_that_are_known_keeps_nobody() -> None:
    found = decided(asking(), running={"nodemaintenance/gone"})
    assert begun(found) == [("a", "motd")]


def test_who_asks_for_a_set_that_is_gone_is_told_so_whatever_else_he_waits_for() -> None:
    found = decided(asking(ago=9 * MINUTE), asking(wanted="gone"))
    assert begun(found) == [("a", "motd")]
    assert waiting(found) == [("a", "gone", Reason.CONFIG_SET_UNKNOWN, "configset/gone")]
    stopped = deciding.decide(
        [asking(wanted="gone")], SETS, Budgets({}), NOW, (Reason.AUDIT_BROKEN, "auditcheckpoint/log")
    )
    assert waiting(stopped) == [("a", "gone", Reason.CONFIG_SET_UNKNOWN, "configset/gone")]


def test_what_a_host_waits_for_itself_is_told_before_what_all_wait_for() -> None:
    shut = {"motd": RepairedSet(MOTD, is_open=False, opens=NOW + MINUTE)}
    found = deciding.decide(
        [asking()], shut, Budgets({MOTD: room(1, "a")}), NOW, (Reason.AUDIT_BROKEN, "auditcheckpoint/log")
    )
    assert waiting(found) == [("a", "motd", Reason.WINDOW_CLOSED, MOTD)]
    [(_, wait)] = found.waits
    assert (wait.since, wait.next_check) == (NOW - MINUTE, NOW + MINUTE)


@pytest.mark.parametrize(
    ("last", "reason", "about", "check"),
    [
        pytest.param(
            claim(MOTD, State.HALTED, reason=Reason.TURN_NOT_USED), Reason.TURN_NOT_USED, "managednode/a",
            NOW - MINUTE + RETRY, id="its turn was not used",
        ),
        pytest.param(
            claim(MOTD, State.HALTED), Reason.NOT_REPAIRED, "managednode/a", NOW - MINUTE + RETRY,
            id="nobody knows why",
        ),
        pytest.param(
            claim(MOTD, State.HALTED, RETRY - SECOND, Reason.NOT_REPAIRED), Reason.NOT_REPAIRED,
            "managednode/a", NOW + SECOND, id="almost again",
        ),
        pytest.param(claim(MOTD, State.HALTED, RETRY), None, "", None, id="again"),
        pytest.param(claim(MOTD, State.DONE), None, "", None, id="it was put back, and drifted anew"),
        pytest.param(claim(OTHER, State.HALTED), None, "", None, id="of another set"),
        pytest.param(claim("tuesday", State.HALTED), None, "", None, id="of a maintenance"),
        pytest.param(
            claim("managednode/a", State.UNDONE), Reason.HOST_BUSY, "managednode/a", NOW - MINUTE + RETRY,
            id="the host has yet to hear that its upgrade was given up",
        ),
        pytest.param(claim("managednode/a", State.DONE), None, "", None, id="its upgrade is done"),
    ],
)  # fmt: skip
def test_what_the_last_visit_means(
    last: Claim, reason: Reason | None, about: str, check: datetime | None
) -> None:
    found = decided(asking(claim=last))
    if reason is None:
        assert begun(found) == [("a", "motd")]
        return
    assert waiting(found) == [("a", "motd", reason, about)]
    assert found.waits[0][1].next_check == check


def test_a_record_that_others_need_is_not_replaced_however_old_it_is() -> None:
    old = claim("tuesday", State.UNDONE, timedelta(days=3))
    asks = DriftedHost(HostFacts("a", "uid-a", NOW, claim=old), "motd", NOW, recorded=True)
    assert waiting(decided(asks)) == [("a", "motd", Reason.HOST_BUSY, "nodemaintenance/tuesday")]
    done = DriftedHost(
        HostFacts("a", "uid-a", NOW, claim=claim("tuesday", State.DONE)), "motd", NOW, recorded=True
    )
    assert begun(decided(done)) == [("a", "motd")]


def test_a_visit_for_something_else_costs_nobody_its_place() -> None:
    visited = asking("a", ago=30 * MINUTE, claim=claim("tuesday", State.HALTED))
    assert begun(decided(asking("b", ago=20 * MINUTE), visited)) == [("a", "motd"), ("b", "motd")]


def test_those_who_wait_equally_long_go_by_their_names_and_those_of_their_sets() -> None:
    found = decided(asking("b"), asking("a", "other"), asking("a", "motd"))
    assert begun(found) == [("a", "motd"), ("b", "motd")]
    assert waiting(found) == [("a", "other", Reason.HOST_BUSY, "managednode/a")]


@pytest.mark.parametrize(
    ("closes", "until"),
    [
        pytest.param(None, NOW + turns.LONGEST, id="no end"),
        pytest.param(NOW + 2 * turns.LONGEST, NOW + turns.LONGEST, id="later"),
        pytest.param(NOW + MINUTE, NOW + MINUTE, id="sooner"),
        pytest.param(NOW + SHORTEST, NOW + SHORTEST, id="just long enough"),
        pytest.param(NOW + SHORTEST - SECOND, None, id="too soon"),
    ],
)
def test_a_turn_ends_with_its_window(closes: datetime | None, until: datetime | None) -> None:
    opens = NOW + timedelta(days=1)
    found = decided(asking(), sets={"motd": RepairedSet(MOTD, closes=closes, opens=opens)})
    if until is None:
        assert waiting(found) == [("a", "motd", Reason.TIME_TOO_SHORT, MOTD)]
        assert found.waits[0][1].next_check == opens
    else:
        assert [one.until for one in found.starts] == [until]


def test_a_set_has_the_window_that_it_says() -> None:
    spans = [(-1, 5), (60, 90)]
    window = Enforcement(
        openings=[
            EnforcedSpan(start=times.rfc3339(NOW + one * MINUTE), end=times.rfc3339(NOW + end * MINUTE))
            for one, end in spans
        ]
    )
    found = RepairedSet.at(MOTD, window, NOW)
    assert (found.room, found.is_open, found.closes) == (MOTD, True, NOW + 5 * MINUTE)
    shut = RepairedSet.at(MOTD, window, NOW + 10 * MINUTE)
    assert (shut.is_open, shut.closes, shut.opens) == (False, None, NOW + 60 * MINUTE)
    assert RepairedSet.at(MOTD, None, NOW) == RepairedSet(MOTD)


def test_the_budget_of_the_set_must_know_the_host_and_those_that_run_only_hold_for_theirs() -> None:
    running = "nodemaintenance/tuesday"
    full = room(1, "x")
    full.take("x")
    found = decided(asking(), rooms={MOTD: room(1, "a"), running: full}, running={running})
    assert begun(found) == [("a", "motd")]
    assert waiting(decided(asking(), rooms={OTHER: room(1, "a")})) == [
        ("a", "motd", Reason.CONFIG_SET_UNKNOWN, MOTD)
    ]
    both = room(1, "a", "x")
    both.take("x")
    found = decided(asking(), rooms={MOTD: room(1, "a"), running: both}, running={running})
    assert waiting(found) == [("a", "motd", Reason.BUDGET_SPENT, running)]
