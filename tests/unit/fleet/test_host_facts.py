"""Why a host is unavailable, which budgets count, and why it cannot be begun with, and because of what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.fleet.maintenance import facts
from nodemanager.fleet.maintenance.claims import Claim, State, Unreadable
from nodemanager.fleet.maintenance.facts import GateFinding, HostFacts, HostHealth, NodeFacts, TaskFacts
from nodemanager.fleet.maintenance.protected_pods import Protection
from nodemanager.fleet.maintenance.reasons import Reason

NOW = datetime(2026, 11, 16, tzinfo=UTC)
HOST = "managednode/a"


def host(
    claim: Claim | Unreadable | None = None, node: NodeFacts | None = None, changing: str = "", **health: Any
) -> HostFacts:
    return HostFacts("a", "u", NOW, health=HostHealth(**health), node=node, claim=claim, changing=changing)


def claim(state: State = State.WORKING) -> Claim:
    return Claim("monday", "m", "u", "r", 0, state, NOW, NOW, NOW)


@pytest.mark.parametrize(
    ("one", "away", "why"),
    [
        (host(), None, None),
        (host(node=NodeFacts()), None, None),
        (host(claim(State.DONE)), None, None),
        (host(claim()), Reason.HOST_BUSY, (Reason.HOST_BUSY, "nodemaintenance/monday")),
        (host(Unreadable("no")), Reason.CLAIM_UNREADABLE, (Reason.CLAIM_UNREADABLE, HOST)),
        (host(alive=False), Reason.HOST_SILENT, (Reason.HOST_SILENT, HOST)),
        (host(claim(State.DONE), alive=False), Reason.HOST_SILENT, (Reason.HOST_SILENT, HOST)),
        (host(claim(), alive=False), Reason.HOST_BUSY, (Reason.HOST_BUSY, "nodemaintenance/monday")),
        (host(node=NodeFacts(ready=False)), Reason.NODE_NOT_READY, (Reason.NODE_NOT_READY, "node/a")),
        (host(node=NodeFacts(cordoned=True)), Reason.NODE_CORDONED, (Reason.NODE_CORDONED, "node/a")),
        (host(upgrading=True), Reason.HOST_UPGRADING, (Reason.HOST_UPGRADING, HOST)),
        (host(changing="web"), Reason.HOST_CHANGING, (Reason.HOST_CHANGING, "configset/web")),
        (host(changing="web", upgrading=True), Reason.HOST_UPGRADING, (Reason.HOST_UPGRADING, HOST)),
        # Who never had an agent is not away, but cannot be begun with either.
        (host(alive=None), None, (Reason.HOST_WITHOUT_AGENT, HOST)),
        (host(claim(), alive=None), Reason.HOST_BUSY, (Reason.HOST_WITHOUT_AGENT, HOST)),
        # Reasons of its own, of which its users notice nothing.
        (host(held=True), None, (Reason.HOST_HELD, HOST)),
        (host(failing_before=GateFinding("disk full")), None, (Reason.GATE_BEFORE, "disk full")),
        (host(failing_before=GateFinding("asked", Reason.GATE_NOT_ASKED)), None, None),  # in a moment
        (host(failing_after=GateFinding("disk full")), None, None),
        (host(node=NodeFacts(protected=Protection("pod/x/db"))), None, (Reason.POD_PROTECTED, "pod/x/db")),
        (host(held=True, failing_before=GateFinding("disk full")), None, (Reason.HOST_HELD, HOST)),
    ],
)  # fmt: skip
def test_why_a_host_is_away_and_why_it_cannot_be_begun_with(
    one: HostFacts, away: Reason | None, why: tuple[Reason, str] | None
) -> None:
    assert facts.unavailable(one) == away
    assert facts.unfit(one) == why


@pytest.mark.parametrize(
    ("phase", "windowed", "missed", "ended"),
    [
        ("Expired", True, True, True),
        ("Expired", False, False, True),
        ("Failed", True, False, True),
        ("Running", True, False, False),
        ("", False, False, False),
    ],
)
def test_a_window_is_missed_by_a_task_that_expired_for_it(
    phase: str, windowed: bool, missed: bool, ended: bool
) -> None:
    task = TaskFacts("t", phase, windowed=windowed)
    assert (task.missed_window, task.is_end) == (missed, ended)
