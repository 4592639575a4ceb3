"""Whose turn it is of the hosts that ask to be upgraded, and why the others wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.maintenance.disruption import Budget
from nodemanager.api.maintenance.nodetask import UPGRADES
from nodemanager.fleet.maintenance.budget import Place, Room
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth, NodeFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.fleet.upgrades.deciding import SKEW, AskingHost, decide

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


def room(most: int, *hosts: str, away: tuple[str, ...] = ()) -> tuple[str, Room]:
    found = Room(Budget(max_unavailable=most), {host: Place("") for host in hosts})
    found.count(away, ())
    return "monday", found


def turns(*hosts: AskingHost, rooms: Any = (), now: datetime = NOW) -> tuple[list[str], dict[str, Reason]]:
    found = decide(hosts, rooms, now)
    return [one.facts.name for one in found.starts], {wait.host: wait.reason for wait in found.waits}


OTHER = claim("r1", maintenance="tuesday")


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
        pytest.param(asking("a", claim=OTHER), NOW, Reason.HOST_BUSY, id="in maintenance"),
        pytest.param(asking("a", claim=Unreadable("?")), NOW, Reason.CLAIM_UNREADABLE, id="unknown claim"),
        pytest.param(asking("a", node=NodeFacts(cordoned=True)), NOW, None, id="cordoned by others"),
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


def test_a_mark_runs_out() -> None:
    notes = {UPGRADES: "2026-11-16T03:00:31Z"}
    assert upgrade_tasks.is_marked(notes, NOW)
    assert not upgrade_tasks.is_marked(notes, NOW + SECOND)
    for wrong in ("", "soon", "2026-11-16T03:00:31"):
        assert not upgrade_tasks.is_marked({UPGRADES: wrong}, NOW)


def test_a_run_is_called_after_its_slot() -> None:
    assert upgrade_tasks.run_of(SLOT) == "upgrade-20261116t030000z"
    assert upgrade_tasks.slot_of_run("upgrade-20261116t030000z") == SLOT
    assert upgrade_tasks.slot_of_run("monday") is None
