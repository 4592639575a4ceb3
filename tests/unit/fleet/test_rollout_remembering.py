"""What a look remembers of hosts; that it decides the same with and without is asked of every world."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.rollout import RevisionRef, RolloutCounts, RolloutStatus, ThresholdTurn
from nodemanager.fleet.rollout import judging
from nodemanager.fleet.rollout.facts import RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.remembering import HostMemory, RolloutPart
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT, LATER = times.rfc3339(BEGAN), times.rfc3339(BEGAN.replace(hour=13))
NEW = RevisionRef(name="web-2", revision=2, digest="b" * 64, node_selector=LabelSelector())
STATUS = RolloutStatus(
    phase="Progressing", reason="HostsUnproven", since=AT, started_at=AT, next=NEW, stage=1, threshold=10**9,
    turns=[ThresholdTurn(threshold=10**9, at=AT)],
)  # fmt: skip


def node(name: str, *conditions: str, digest: str = NEW.digest) -> ManagedNode:
    report = AppliedConfigSet(name="web", observed_generation=1, digest=digest)
    found = [Condition(type=one, status="True", last_transition_time=AT) for one in conditions]
    if not conditions:
        found = [Condition(type="Alive", status="True", last_transition_time=AT)]
    return ManagedNode(
        metadata=ObjectMeta(name=name, uid=name),
        status=ManagedNodeStatus(release="6.1", configsets=[report], conditions=found),
    )


SILENT = msgspec.structs.replace(
    node("gone"),
    status=ManagedNodeStatus(
        release="6.1", conditions=[Condition(type="Alive", status="False", last_transition_time=AT)]
    ),
)


def look(memory: HostMemory, nodes: list[ManagedNode], **status: Any) -> dict[str, RolloutHost]:
    parts = [RolloutPart("web", msgspec.structs.replace(STATUS, **status))]
    found = judging.hosts_of(parts, nodes, now=BEGAN, memory=memory)
    assert found == judging.hosts_of(parts, nodes, now=BEGAN)
    return {one.name: one for one in found}


def test_a_host_that_says_nothing_new_is_not_judged_again_whatever_is_counted_and_said() -> None:
    memory, nodes = HostMemory(), [node("a"), node("b")]
    first = look(memory, nodes)
    second = look(
        memory, nodes, message="2 of 9", counts=RolloutCounts(hosts=9), phase="Soaking", since=LATER
    )
    assert all(second[one] is first[one] for one in ("a", "b"))


def test_one_that_says_something_else_is_and_so_are_all_when_something_else_is_rolled_out() -> None:
    memory, kept = HostMemory(), node("b")
    first = look(memory, [node("a"), kept])
    second = look(memory, [node("a", digest="c" * 64), kept])
    assert second["a"].progress is RolloutProgress.UNPROVEN
    assert second["b"] is first["b"]
    other = msgspec.structs.replace(NEW, digest="d" * 64)
    assert look(memory, [kept], next=other)["b"].progress is RolloutProgress.UNPROVEN


def test_further_turns_are_told_to_hosts_that_are_not_judged_again() -> None:
    memory, nodes = HostMemory(), [node("a")]
    assert look(memory, nodes)["a"].turn == BEGAN
    assert look(memory, nodes, turns=[ThresholdTurn(threshold=10**9, at=LATER)])["a"].turn == BEGAN.replace(
        hour=13
    )


def test_who_is_silent_or_in_trouble_is_judged_each_time() -> None:
    """How that ends depends on the time, and on what was seen before."""
    memory, nodes = HostMemory(), [SILENT, node("drifted", "Drifted"), node("fine")]
    first, second = look(memory, nodes), look(memory, nodes)
    assert [name for name in first if second[name] is first[name]] == ["fine"]


def test_of_a_host_that_is_gone_nothing_is_kept() -> None:
    memory, one = HostMemory(), node("a")
    look(memory, [one, node("b")])
    look(memory, [one])
    assert list(memory._known) == ["a"]
