"""The nodes of a site, held against those that it shall have, and what their agents tell of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.edge.edgecluster import (
    AGENT,
    BRIDGE,
    FRESH,
    STALE,
    UNPROVEN,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
    EdgeNode,
)
from nodemanager.fleet.edge import membership
from nodemanager.fleet.edge.facts import AgentFacts, Sources
from nodemanager.fleet.edge.findings import HEARTBEATS_FRESH, NODES_EXPECTED, Findings
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles, edge_reports

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
VX = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
"""One node or two, of the roles primary and peer."""


def node(name: str, heartbeat: str = FRESH, message: str = "", agent: str = "") -> EdgeNode:
    return EdgeNode(name=name, source=BRIDGE, heartbeat=heartbeat, message=message, agent=agent)


def judged(kind: str, *nodes: EdgeNode, expected: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """Return what is said of one kind: status, reason and message."""
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail", nodes=list(expected)))
    said = Findings(1)
    membership.judge(VX, cluster, nodes, said)
    assert [one.type for one in said.found] == [HEARTBEATS_FRESH, NODES_EXPECTED]
    [found] = [one for one in said.found if one.type == kind]
    return found.status, found.reason, found.message


GOOD = ("True", "AsExpected", "")


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        pytest.param([node("a"), node("b", agent="True")], GOOD, id="all live"),
        pytest.param([], ("False", "NoNodes", "no node gives signs of life"), id="none"),
        pytest.param([node("a"), node("b", STALE)], ("False", "HeartbeatStale", "b: Stale"), id="one dies"),
        pytest.param(
            [node("a", UNPROVEN, "never seen"), node("b", STALE)],
            ("False", "HeartbeatStale", "a: never seen; b: Stale"), id="what is known to be bad is worse",
        ),
        pytest.param(
            [node("b", STALE, "90 s"), node("a", "Gone")], ("False", "HeartbeatGone", "b: 90 s; a: Gone"),
            id="of two, the first by its name",
        ),
        pytest.param(
            [node("a", agent="True"), node("c", agent="Unknown"), node("b", agent="False"), node("d")],
            ("False", "AgentSilent", "agents are silent on c, b"), id="agents are silent",
        ),
    ],
)  # fmt: skip
def test_whether_all_nodes_live(nodes: list[EdgeNode], wanted: tuple[str, str, str]) -> None:
    assert judged(HEARTBEATS_FRESH, *nodes) == wanted


@pytest.mark.parametrize(
    ("names", "expected", "wanted"),
    [
        pytest.param("a", "", GOOD, id="one"),
        pytest.param("ab", "", GOOD, id="two"),
        pytest.param("ab", "ab", GOOD, id="those two"),
        pytest.param("b", "abc", ("False", "NodesMissing", "nothing is seen of a, c"), id="too few of them"),
        pytest.param(
            "abcd", "a", ("False", "NodesUnexpected", "spec.nodes does not name b, c, d"), id="others, too"
        ),
        pytest.param(
            "abc",
            "",
            ("False", "TooManyNodes", "there are 3 nodes, and the profile has 2 at most"),
            id="three",
        ),
        pytest.param(
            "", "", ("False", "TooFewNodes", "there are 0 nodes, and the profile has 1 at least"), id="none"
        ),
    ],
)
def test_whether_they_are_those_of_the_site(names: str, expected: str, wanted: tuple[str, str, str]) -> None:
    assert judged(NODES_EXPECTED, *map(node, names), expected=tuple(expected)) == wanted


def host(name: str, alive: str = "True", message: str = "", **labels: str) -> ManagedNode:
    said = [Condition(type="Alive", status=alive, message=message)] if alive else []
    status = ManagedNodeStatus(conditions=said, agent_version="0.9", release="6.1")
    return ManagedNode(metadata=ObjectMeta(name=name, labels=labels), status=status)


def sources(*hosts: ManagedNode, **tasks: int) -> Sources:
    named = {one.metadata.name: one for one in hosts}
    return Sources(VX, edge_reports.agents(named, tasks=tasks), edge_reports.watched(named, NOW), NOW)


@pytest.mark.parametrize(
    ("alive", "heartbeat", "agent"),
    [
        ("True", FRESH, "True"),
        ("False", STALE, "False"),
        ("Unknown", UNPROVEN, "Unknown"),
        ("", UNPROVEN, "Unknown"),
    ],
)
def test_without_a_bridge_a_node_lives_as_its_agent_does(alive: str, heartbeat: str, agent: str) -> None:
    [found] = membership.hosts(sources(host("a", alive, "it sleeps")))
    assert (found.name, found.source, found.heartbeat, found.agent) == ("a", AGENT, heartbeat, agent)
    mute = "its agent tells nothing of bonds, links and DRBD: it has no --edge"
    assert found.message == {"True": mute, "": ""}.get(alive, "it sleeps")


def test_all_hosts_are_nodes_in_the_order_of_their_names_and_long_words_are_cut() -> None:
    found = membership.hosts(sources(host("b"), host("a", "False", "x" * 1025)))
    assert [one.name for one in found] == ["a", "b"]
    assert found[0].message == "x" * 1024


def test_a_node_has_what_its_agent_tells_and_one_without_stays_as_it_was_seen() -> None:
    known = sources(host("a"), host("b"), b=2)
    for name, tasks in (("a", 0), ("b", 2)):
        found = membership.told(node(name, STALE), known)
        assert (found.agent_version, found.kernel, found.tasks, found.agent) == ("0.9", "6.1", tasks, "True")
        assert (found.heartbeat, found.source) == (STALE, BRIDGE), "that is what the bridge saw"
    alone = node("x", STALE, "90 s")
    assert membership.told(alone, known) is alone


@pytest.mark.parametrize(
    ("labels", "role"),
    [
        ({}, ""),
        ({"edge.nodemanager/role": "primary"}, "primary"),
        ({"edge.nodemanager/role": "peer"}, "peer"),
        ({"edge.nodemanager/role": "other"}, ""),
        ({"edge.nodemanager/role": ""}, ""),
        ({"other": "primary"}, ""),
    ],
)
def test_the_role_of_a_node_is_told_by_its_label(labels: dict[str, str], role: str) -> None:
    assert membership.told(node("a"), sources(host("a", **labels))).role == role


def test_a_label_without_a_value_is_had_with_any() -> None:
    roles = {"topology": {"roles": [{"name": "server", "label": "node"}, {"name": "rest", "label": "other"}]}}
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail", patch=roles))
    for labels, role in (
        ({"node": ""}, "server"),
        ({"node": "x", "other": ""}, "server"),
        ({"other": "y"}, "rest"),
    ):
        agents = AgentFacts({"a": host("a", **labels)})
        assert membership.told(node("a"), Sources(profile, agents, EdgeClusterStatus(), NOW)).role == role
