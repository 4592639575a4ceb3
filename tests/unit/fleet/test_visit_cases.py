"""What comes next for a host, by cases that are a data file: up to when it waits, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.fleet.maintenance import visits
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth, NodeFacts, TaskFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import Move, Visit, VisitHold, VisitRules

FILE = Path(__file__).resolve().parents[2] / "cases" / "maintenance" / "visits.yaml"
CASES = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SINCE = datetime(2026, 11, 16, 6, tzinfo=UTC)
RULES = VisitRules(cordons=True, drains=True)
SPANS = ("drain_timeout", "proof_timeout", "soak")


def after(minutes: int) -> datetime:
    return SINCE + timedelta(minutes=minutes)


def read(case: dict[str, Any]) -> Visit:
    claim = Claim(
        maintenance="monday", uid="m-1", host_uid="h-1", run="r1", attempt=0, state=State(case["state"]),
        since=SINCE, begun=SINCE, expires=after(60), task="web1-0123456789", boot_id="one",
    )  # fmt: skip
    health, rules = case.get("health", {}), case.get("rules", {})
    if "heard" in health:
        health = {**health, "heard": after(health["heard"])}
    rules = {name: timedelta(minutes=value) if name in SPANS else value for name, value in rules.items()}
    task, undo = (
        TaskFacts("web1-0123456789", **{"phase": "Running", **case[which]}) if which in case else None
        for which in ("task", "undo")
    )
    node = NodeFacts(**case["node"]) if "node" in case else None
    return Visit(
        msgspec.convert({**msgspec.to_builtins(claim), **case.get("claim", {})}, Claim),
        HostFacts("web1", "h-1", SINCE, health=HostHealth(**health), node=node),
        replace(RULES, **rules),
        after(case.get("at", 5)),
        task,
        undo,
        case.get("may_work", True),
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_what_comes_next_for_a_host(case: dict[str, Any]) -> None:
    visit = read(case)
    if "holds" in case:
        reason, about, minutes = case["holds"]
        until = None if minutes is None else after(minutes)
        assert visits.advance(visit) == VisitHold(Reason(reason), about, until)
        return
    found = visits.advance(visit)
    assert isinstance(found, Move)
    state, end, reason = [*case["becomes"], None, None][:3]
    claim = found.claim
    assert (claim.state, claim.end, claim.reason) == (State(state), end, reason)
    assert claim.since == visit.now, "only what is newer proves anything"
    given_back = visit.claim.state is State.RETURNING and claim.state is not State.HALTED
    assert claim.cordoned == (visit.claim.cordoned and not given_back)
