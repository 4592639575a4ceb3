"""How a site is: single looks, and sites whose agents tell all there is to know."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.edge.edgecluster import (
    MAX_NODES,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
    ProfileSignature,
)
from nodemanager.fleet.edge import deciding, findings
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles, edge_reports
from support.edge_world import START, EdgeNodeOfWorld, EdgeWorld

VX = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
PLAIN = edge_profiles.typed(edge_profiles.plain())


def host(name: str, alive: str = "True", **labels: str) -> ManagedNode:
    said = [Condition(type="Alive", status=alive, reason="x", message="it sleeps")]
    status = ManagedNodeStatus(conditions=said if alive else [], agent_version="0.9", release="6.1")
    return ManagedNode(metadata=ObjectMeta(name=name, labels=labels), status=status)


def told_by(*hosts: ManagedNode, **spec: Any) -> EdgeClusterStatus:
    """Look at a site without a bridge."""
    named = {one.metadata.name: one for one in hosts}
    status = edge_reports.watched(named, START)
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="k3s-linstor", **spec), status=status)
    agents = edge_reports.agents(named, tasks={"a": 2})
    return deciding.decide(Site(cluster, PLAIN, agents), START)


@pytest.mark.parametrize(
    ("hosts", "spec", "phase", "reason"),
    [
        ([], {}, "Bootstrap", "NoNodes"),
        ([host("a")], {}, "SingleNode", "AsObserved"),
        ([host("a"), host("b")], {}, "MultiNode", "AsObserved"),
        ([host("a"), host("b", "False")], {}, "Degraded", "HeartbeatStale"),
        ([host("a"), host("b", "Unknown")], {}, "Degraded", "HeartbeatUnproven"),
        ([host("a", "")], {}, "Bootstrap", "Unproven"),
        ([host("a")], {"nodes": ["a", "b"]}, "Degraded", "NodesMissing"),
        ([host("a"), host("x")], {"nodes": ["a"]}, "Degraded", "NodesUnexpected"),
        ([host(name) for name in "abcd"], {}, "Degraded", "TooManyNodes"),
    ],
)
def test_by_agents(hosts: list[ManagedNode], spec: dict[str, Any], phase: str, reason: str) -> None:
    status = told_by(*hosts, **spec)
    assert (status.phase, status.reason, status.source) == (phase, reason, "agent")
    healthy = conditions.is_true(status.conditions, findings.HEALTHY)
    assert healthy is (phase in ("SingleNode", "MultiNode"))


def test_of_too_many_hosts_those_that_the_site_shall_have_or_had_are_shown() -> None:
    """A status with more nodes than it has room for would be refused as a whole."""
    flood = [host(f"n{number:03}") for number in range(3 * MAX_NODES)]
    status = told_by(*flood, host("x"), host("z"), nodes=["n000", "z"])
    assert len(status.nodes) == MAX_NODES
    assert {"n000", "z"} <= {one.name for one in status.nodes}
    assert [one.name for one in status.nodes] == sorted(one.name for one in status.nodes)
    assert (status.phase, status.reason) == ("Degraded", "TooManyNodes")
    assert f"there are {3 * MAX_NODES + 2} nodes, and a status has room for {MAX_NODES}" in status.message
    named = {one.metadata.name: one for one in [*flood, host("x")]}
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="x"), status=edge_reports.watched(["x"], START))
    again = deciding.decide(Site(cluster, PLAIN, edge_reports.agents(named)), START)
    assert "x" in {one.name for one in again.nodes}, "who was there before is not hidden by a flood"


def test_who_is_missing_is_told_before_how_many_are_too_many() -> None:
    flood = [host(f"n{number:03}") for number in range(2 * MAX_NODES)]
    assert told_by(*flood, nodes=["n000", "z"]).reason == "NodesMissing"


def test_a_node_has_what_its_agent_tells() -> None:
    label = {"node-role.kubernetes.io/control-plane": "true"}
    (node,) = told_by(host("a", **label)).nodes
    assert (node.role, node.agent_version, node.kernel, node.tasks, node.agent) == (
        "server", "0.9", "6.1", 2, "True",
    )  # fmt: skip
    label = {"node-role.kubernetes.io/control-plane": "false"}
    assert told_by(host("a", **label)).nodes[0].role == ""


def look(world: EdgeWorld, before: EdgeClusterStatus | None = None, **more: Any) -> EdgeClusterStatus:
    cluster = EdgeCluster(
        spec=EdgeClusterSpec(profile="vx-rail", **more), status=before or EdgeClusterStatus()
    )
    return deciding.decide(Site(cluster, VX, AgentFacts(), world.facts()), world.now)


def seen_well(*nodes: str) -> tuple[EdgeWorld, EdgeClusterStatus]:
    """A site that was seen to do well."""
    world = EdgeWorld(nodes={one: EdgeNodeOfWorld() for one in nodes})
    status = look(world)
    world.pass_time(10)
    status = look(world, status)
    assert status.phase == ("SingleNode" if len(nodes) == 1 else "MultiNode")
    return world, status


def test_a_change_that_nobody_saw_happen_proves_nothing() -> None:
    world, status = seen_well("a")
    world.pass_time(30)
    world.nodes["a"].alive = False  # it gave a sign of life, and died
    world.pass_time(3600)
    status = look(world, status)
    assert (status.phase, status.reason) == ("Degraded", "HeartbeatStale")
    world.nodes["a"].alive = True
    world.pass_time(10)
    back = look(world, status)
    assert (back.phase, back.since) == ("SingleNode", back.observed_at)
    world.pass_time(10)
    assert look(world, back).since == back.since


def test_a_clock_that_was_set_back_makes_nothing_fresh() -> None:
    world, status = seen_well("a")
    world.nodes["a"].alive = False
    world.now -= timedelta(hours=1)
    status = look(world, status)
    assert status.phase == "Degraded"


def test_a_node_that_vanished_is_told_of_for_an_hour_unless_it_is_expected() -> None:
    for expected, after in (([], "SingleNode"), (["a", "b"], "Degraded")):
        world, status = seen_well("a", "b")
        del world.nodes["b"]
        world.pass_time(10)
        status = look(world, status, nodes=expected)
        assert (status.phase, status.reason, status.nodes_text) == ("Degraded", "HeartbeatGone", "1/2")
        for _ in range(70):
            world.pass_time(60)
            status = look(world, status, nodes=expected)
        assert (status.phase, status.nodes_text) == (after, "1/2" if expected else "1/1")


def test_a_state_of_nobody_is_shown_as_text_only() -> None:
    world, status = seen_well("a")
    world.daemon_sets = ()
    world.pass_time(10)
    status = look(world, status)
    assert status.observed is not None
    assert (status.phase, status.reason) == ("Degraded", "NoDaemonSet")
    assert (status.observed.state, status.observed.raw_state) == ("", "Idle")
    assert status.storage is not None
    assert (status.storage.state, status.storage.said) == ("Unknown", "healthy")


@pytest.mark.parametrize("policy", ["require", "warn"])
def test_a_profile_without_a_signature(policy: str) -> None:
    asked = ProfileSignature(policy=policy, keys=[edge_profiles.public_key()])
    status = look(EdgeWorld(), signature=asked)
    signed = conditions.get(status.conditions, findings.PROFILE_SIGNED)
    assert signed is not None
    assert (signed.status, signed.message) == ("False", "it is not signed")
    assert status.phase == ("Unknown" if policy == "require" else "Bootstrap")


def test_a_profile_that_an_older_definition_took_is_refused_by_name() -> None:
    storage = msgspec.structs.replace(VX.spec.storage, backend="local-path")
    old = msgspec.structs.replace(VX, spec=msgspec.structs.replace(VX.spec, storage=storage))
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"))
    status = deciding.decide(Site(cluster, old, AgentFacts(), EdgeWorld().facts()), START)
    assert (status.phase, status.reason) == ("Unknown", "ProfileImpossible")
    assert "ReplicationUpgrade needs Replication and Snapshot" in status.message
    gone = deciding.decide(replace(Site(cluster, None, AgentFacts())), START)
    assert (gone.phase, gone.reason) == ("Unknown", "ProfileNotFound")
