"""What a host makes of its turn, and what it tells of drifts that wait."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.drift.repair_turn import RepairTurn
from nodemanager.agent.passes.host_state import HostState
from nodemanager.agent.report import left_drift_report
from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import State
from nodemanager.fleet.repairs import turns
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions, times
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.resources import EXEC, ResourceId, file_id
from support.realtime import Kept
from support.root_tree import config_set, needs_root

NOW = datetime(2026, 11, 17, 3, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
META = ObjectMeta(name="web1", uid="uid-a")


def given(
    until: timedelta = MINUTE, *, used: str = "", config_set: str = "tree", **fields: Any
) -> ManagedNode:
    """Return a host that has its turn."""
    node = ManagedNode(metadata=META, status=ManagedNodeStatus(left_drifts=LeftDrifts(used=used)))
    claim = msgspec.structs.replace(turns.begun(node, config_set, NOW + until, "", NOW), **fields)
    return msgspec.structs.replace(
        node, metadata=ObjectMeta(name="web1", uid="uid-a", annotations={VISIT: claims.encode(claim)})
    )


class Agent:
    """A host at a time."""

    def __init__(self) -> None:
        self.now = NOW
        self.passes = 0
        self.turn = RepairTurn(self._pass, lambda: self.now)

    def _pass(self) -> None:
        self.passes += 1


def test_a_turn_is_one_pass_however_often_it_is_heard_of() -> None:
    agent = Agent()
    agent.turn.heard(given())
    agent.turn.heard(given())
    assert agent.passes == 1
    began = agent.turn.begin()
    assert began is not None
    assert (began.config_set, agent.turn.used) == ("tree", "")
    agent.turn.over(began)
    assert agent.turn.used == began.run
    agent.turn.heard(given())  # until the operator has heard that it is over
    assert (agent.turn.begin(), agent.passes) == (None, 1)


def test_a_pass_that_broke_off_leaves_the_turn_to_the_next_one() -> None:
    agent = Agent()
    agent.turn.heard(given())
    assert agent.turn.begin() == agent.turn.begin() is not None


def test_who_comes_too_late_does_nothing_and_says_so() -> None:
    agent = Agent()
    agent.turn.heard(given())
    agent.now = NOW + MINUTE
    assert agent.turn.begin() is None
    assert agent.turn.used.startswith("repair-2026")


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(None, id="no host"),
        pytest.param(ManagedNode(metadata=META), id="taken away"),
        pytest.param(given(state=State.HALTED), id="ended by the operator"),
        pytest.param(given(host_uid="another"), id="of a host of the same name"),
    ],
)
def test_a_turn_that_is_taken_away_is_none_any_more(node: ManagedNode | None) -> None:
    agent = Agent()
    agent.turn.heard(given())
    agent.turn.heard(node)
    assert agent.turn.begin() is None
    assert agent.turn.used == ""


def test_a_new_process_does_not_use_a_turn_again_that_the_status_says_is_over() -> None:
    first = Agent()
    first.turn.heard(given())
    first.turn.over(first.turn.begin())
    second = Agent()
    second.turn.heard(given(used=first.turn.used))
    assert (second.turn.begin(), second.passes) == (None, 0)


def test_a_turn_lasts_as_long_as_what_it_set_off(tmp_path: Path) -> None:
    """Passes do not wait for executions that take long; the next host does."""
    agent = Agent()
    host_state = HostState(DriftLog(str(tmp_path)), lambda: agent.now, time.monotonic, turn=agent.turn)
    agent.turn.heard(given())
    began = agent.turn.begin()
    assert began is not None
    runs = Result(ResourceId(EXEC, "reload"), ("tree",), ResourceOutcome.WAITING, "runs")
    host_state.passed([runs])
    assert agent.turn.used == ""
    agent.now = NOW + MINUTE
    assert agent.turn.begin() is None, "nothing more is put back once it has run out"
    host_state.passed([runs])
    assert agent.turn.used == ""
    assert agent.turn.begin() is None
    others = replace(runs, sources=("other",)), replace(runs, awaits="Secret db")
    host_state.passed(others)
    assert agent.turn.used == began.run


def result(
    path: str, policy: str, outcome: ResourceOutcome = ResourceOutcome.OBSERVED, **fields: Any
) -> Result:
    sources = fields.pop("sources", ("tree",))
    turn = sources if policy == "in-turn" else ()
    return Result(
        file_id(path), sources, outcome, "content differs", drifted=True, policy=policy, turns=turn, **fields
    )


def test_what_waits_is_told_by_set_since_it_was_first_noticed() -> None:
    old = ManagedNodeStatus(
        left_drifts=LeftDrifts(asks=[LeftDrift(configset="a", since="2026-11-01T00:00:00Z")], used="r0")
    )
    results = [
        result("/a", "in-turn", sources=("a", "b")),
        result("/b", "in-turn", ResourceOutcome.FAILED, sources=("b",)),
        result("/c", "in-turn", ResourceOutcome.CHANGED),
        result("/d", "observe"),
        result("/e", "escalate"),
    ]
    new = left_drift_report.of_results(old, results, "", NOW, 3)
    stamp = times.rfc3339(NOW)
    assert new.left_drifts == LeftDrifts(
        asks=[
            LeftDrift(configset="a", since="2026-11-01T00:00:00Z", resources=1),
            LeftDrift(configset="b", since=stamp, resources=2),
        ],
        used="r0",
        escalated=[LeftDrift(configset="tree", since=stamp, resources=1)],
    )
    said = conditions.get(new.conditions, "Escalated")
    assert said is not None
    assert (said.status, said.reason, said.observed_generation) == ("True", "DriftEscalated", 3)
    assert said.message == "file:/e: content differs"
    over = left_drift_report.of_results(new, [], "r1", NOW, 3)
    assert over.left_drifts == LeftDrifts(used="r1")
    said = conditions.get(over.conditions, "Escalated")
    assert said is not None
    assert (said.status, said.reason) == ("False", "NothingEscalated")


def test_a_host_of_which_nothing_ever_waited_says_nothing() -> None:
    old = ManagedNodeStatus()
    assert left_drift_report.of_results(old, [result("/d", "observe")], "", NOW, 1) == old


@needs_root
async def test_only_a_pass_that_begins_with_its_turn_puts_it_back(tmp_path: Path) -> None:
    path = tmp_path / "motd"
    tree = config_set("tree", drift="in-turn", files=[{"path": str(path), "content": "hello\n"}])
    async with Kept(tmp_path) as kept:
        await kept.converge(tree)
        path.write_text("bye\n")
        await kept.converge(tree)
        (found,) = left_drift_report.left(kept.host_state.results.values(), "in-turn")
        assert (found.id.name, found.turns) == (str(path), ("tree",))
        kept.host_state.turn.heard(given(timedelta(days=9999), config_set="other", run="r1"))
        await kept.converge(tree)
        assert path.read_text() == "bye\n", "that turn is for another set"
        kept.host_state.turn.heard(given(timedelta(days=9999)))
        await kept.converge(tree)
        assert path.read_text() == "hello\n"
        assert kept.host_state.turn.used
        path.write_text("bye\n")
        await kept.converge(tree)
        assert path.read_text() == "bye\n", "a turn is for one pass"
