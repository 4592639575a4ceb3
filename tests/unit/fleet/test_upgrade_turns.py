"""Whose turn it is of the hosts that ask to be upgraded, and why the others wait."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.disruption import Budget
from nodemanager.api.maintenance.nodetask import UPGRADES
from nodemanager.fleet.maintenance.budget import BudgetPlace, BudgetRoom
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth, NodeFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.fleet.upgrades.deciding import SKEW, AskingHost, decide, is_plausible

NOW = datetime(2026, 11, 16, 3, 0, 30, tzinfo=UTC)
SLOT = datetime(2026, 11, 16, 3, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def asking(
    name: str, *, group: str = "", slot: datetime = SLOT, held: bool = False, **facts: Any
) -> AskingHost:
    host = HostFacts(name, f"uid-{name}", NOW - timedelta(days=9), **facts)
    return AskingHost(host, slot, slot + timedelta(minutes=1), group, held)


def claim(run: str, state: State = State.WORKING, maintenance: str = "managednode/a") -> Claim:
    return Claim(maintenance, "m", "uid-a", run, 0, state, NOW, NOW, NOW + timedelta(hours=1))


def room(most: int, *hosts: str, away: tuple[str, ...] = ()) -> tuple[str, BudgetRoom]:
    found = BudgetRoom(Budget(max_unavailable=most), {host: BudgetPlace("") for host in hosts})
    found.count(away, ())
    return "monday", found


def turns(*hosts: AskingHost, rooms: Any = (), now: datetime = NOW) -> tuple[list[str], dict[str, Reason]]:
    found = decide(hosts, rooms, now)
    return [one.facts.name for one in found.starts], {wait.host: wait.reason for wait in found.waits}


def test_nobody_has_a_turn_while_nothing_may_begin() -> None:
    stopped = Reason.AUDIT_BROKEN, "auditcheckpoint/log"
    found = decide([asking("a")], (), NOW, stopped)
    assert found.starts == ()
    assert [(wait.reason, wait.object) for wait in found.waits] == [stopped]


OTHER = claim("r1", maintenance="tuesday")
HALTED = claim("r1", State.HALTED, maintenance="tuesday")


def replace_uid(one: Claim) -> Claim:
    return msgspec.structs.replace(one, uid="uid-a", maintenance="managednode/a")


@pytest.mark.parametrize(
    ("host", "now", "reason"),
    [
        pytest.param(asking("a"), NOW, None, id="due"),
        pytest.param(asking("a"), SLOT - SKEW, None, id="its clock is a little ahead"),
        pytest.param(asking("a"), SLOT - SKEW - SECOND, Reason.CLOCK_DIFFERS, id="its clock is far ahead"),
        pytest.param(asking("a"), SLOT + 60 * SECOND + SKEW, None, id="its clock is a little behind"),
        pytest.param(
            asking("a"), SLOT + 61 * SECOND + SKEW, Reason.CLOCK_DIFFERS, id="its clock is far behind"
        ),
        pytest.param(asking("a", held=True), NOW, Reason.HOST_HELD, id="held back since"),
        pytest.param(asking("a", health=HostHealth(held=True)), NOW, Reason.HOST_HELD, id="held"),
        pytest.param(asking("a", health=HostHealth(alive=False)), NOW, Reason.HOST_SILENT, id="silent"),
        pytest.param(asking("a", health=HostHealth(alive=None)), NOW, Reason.HOST_WITHOUT_AGENT, id="new"),
        pytest.param(
            asking("a", health=HostHealth(upgrading=True)), NOW, Reason.HOST_UPGRADING, id="upgrades itself"
        ),
        pytest.param(asking("a", changing="web"), NOW, Reason.HOST_CHANGING, id="takes a change"),
        pytest.param(asking("a", claim=OTHER), NOW, Reason.HOST_BUSY, id="in maintenance"),
        pytest.param(asking("a", claim=Unreadable("?")), NOW, Reason.CLAIM_UNREADABLE, id="unknown claim"),
        pytest.param(asking("a", node=NodeFacts(cordoned=True)), NOW, None, id="cordoned by others"),
        pytest.param(
            asking("a", claim=HALTED, node=NodeFacts(cordoned=True, ours=True)),
            NOW,
            Reason.NODE_CORDONED,
            id="a maintenance ended there, nobody knows how",
        ),
        pytest.param(
            asking("a", node=NodeFacts(cordoned=True, ours=True)),
            NOW,
            Reason.NODE_CORDONED,
            id="its cordon is about to be given back",
        ),
        pytest.param(
            asking("a", claim=HALTED, node=NodeFacts()), NOW, None, id="somebody looked, and uncordoned it"
        ),
        pytest.param(
            asking("a", claim=replace_uid(HALTED), node=NodeFacts(cordoned=True, ours=True)),
            NOW,
            None,
            id="its own last upgrade ended there",
        ),
        pytest.param(asking("a", node=NodeFacts(ready=False)), NOW, None, id="not ready"),
    ],
)
def test_why_a_host_waits(host: AskingHost, now: datetime, reason: Reason | None) -> None:
    expected = (["a"], {}) if reason is None else ([], {"a": reason})
    assert turns(host, now=now) == expected


@pytest.mark.parametrize("state", [State.DRAINING, State.DONE, State.UNDONE, State.HALTED])
def test_a_slot_is_begun_with_once_whatever_became_of_it(state: State) -> None:
    used = claim(upgrade_tasks.run_of(SLOT), state)
    assert turns(asking("a", claim=used)) == ([], {})
    assert turns(replace(asking("a", claim=OTHER), used=True)) == ([], {})
    if state.is_end:
        assert turns(asking("a", claim=used, slot=SLOT + SECOND)) == (["a"], {})


def test_hosts_of_a_group_go_in_the_order_of_their_slots() -> None:
    hosts = [asking("a", group="web"), asking("b", group="web", slot=SLOT - SECOND), asking("c", group="db")]
    assert turns(*hosts, asking("d"), asking("e")) == (["b", "c", "d", "e"], {"a": Reason.GROUP_BUSY})


def test_a_budget_counts_all_who_begin_and_all_who_are_away() -> None:
    hosts = [asking(name) for name in "abc"]
    assert turns(*hosts, rooms=[room(2, "a", "b", "c")]) == (["a", "b"], {"c": Reason.BUDGET_SPENT})
    assert turns(*hosts, rooms=[room(2, "a", "b", "c", "x", away=("x",))]) == (
        ["a"], {"b": Reason.BUDGET_SPENT, "c": Reason.BUDGET_SPENT}
    )  # fmt: skip
    # Who is away already takes no more; who is in no series is nobody's business.
    away = asking("a", node=NodeFacts(ready=False))
    assert turns(away, asking("z"), rooms=[room(1, "a", "b", away=("a",))]) == (["a", "z"], {})


def test_who_is_away_already_takes_no_more_of_what_others_have() -> None:
    away = asking("a", node=NodeFacts(ready=False))
    assert turns(away, asking("b"), rooms=[room(2, "a", "b", away=("a",))]) == (["a", "b"], {})


def test_what_a_host_waits_for_is_said_with_the_object_that_it_is_about() -> None:
    busy, changing = asking("a", claim=OTHER), asking("a", changing="web")
    kept = asking("a", claim=HALTED, node=NodeFacts(cordoned=True, ours=True))
    left = asking("a", node=NodeFacts(cordoned=True, ours=True))
    spent = room(1, "a", "x", away=("x",))
    for host, rooms, about in (
        (busy, (), "nodemaintenance/tuesday"),
        (asking("a", claim=Unreadable("?")), (), "managednode/a"),
        (changing, (), "configset/web"),
        (kept, (), "nodemaintenance/tuesday"),
        (left, (), "node/a"),
        (asking("a", held=True), (), "managednode/a"),
        (asking("a"), [room(1, "x"), spent], "nodemaintenance/monday"),
    ):
        [wait] = decide([host], rooms, NOW).waits
        assert (wait.host, wait.object, wait.since, wait.next_check) == ("a", about, SLOT, host.until)
    [wait] = decide([asking("a", group="web"), asking("b", group="web")], (), NOW).waits
    assert (wait.reason, wait.object) == (Reason.GROUP_BUSY, "lease/web")


def test_a_mark_runs_out() -> None:
    notes = {UPGRADES: "2026-11-16T03:00:31Z"}
    assert upgrade_tasks.is_marked(notes, NOW)
    assert not upgrade_tasks.is_marked(notes, NOW + SECOND)
    for wrong in ("", "soon", "2026-11-16T03:00:31"):
        assert not upgrade_tasks.is_marked({UPGRADES: wrong}, NOW)
    drained = {UPGRADES: upgrade_tasks.mark(NOW + SECOND, drains=True)}
    assert (upgrade_tasks.is_marked(drained, NOW), upgrade_tasks.was_drained(drained)) == (True, True)
    assert not upgrade_tasks.was_drained(notes)


def test_marks_are_not_renewed_all_at_once() -> None:
    found = sorted(upgrade_tasks.renewed_before(f"uid-{number}") for number in range(1000))
    hours = [one.total_seconds() / 3600 for one in found]
    assert 12 <= hours[0] < 13
    assert 35 < hours[-1] <= 36
    assert max(later - before for before, later in itertools.pairwise(hours)) < 0.5


@pytest.mark.parametrize(
    ("slot", "until", "plausible"),
    [
        pytest.param("2026-11-16T03:00:00Z", "2026-11-20T03:00:00Z", True, id="a window of days"),
        pytest.param("2026-11-16T03:00:00Z", "9999-12-31T23:59:59Z", False, id="without an end"),
        pytest.param("0001-01-01T00:00:00+01:00", "2026-11-16T03:00:00Z", False, id="before all times"),
        pytest.param("9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59-01:00", False, id="after all times"),
    ],
)
def test_times_that_nobody_can_reckon_with(slot: str, until: str, plausible: bool) -> None:
    moments = datetime.fromisoformat(slot), datetime.fromisoformat(until)
    assert is_plausible(*moments, NOW) == plausible


def test_a_run_is_called_after_its_slot() -> None:
    assert upgrade_tasks.run_of(SLOT) == "upgrade-20261116t030000z"
    assert upgrade_tasks.slot_of_run("upgrade-20261116t030000z") == SLOT
    assert upgrade_tasks.slot_of_run("monday") is None
