"""What the status of a site has besides its phase: who signed its profile, since when it is so, its nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.edge.edgecluster import (
    BRIDGE,
    FRESH,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
    EdgeNode,
    ObservedState,
    ProfileSignature,
)
from nodemanager.fleet.edge import deciding, findings
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles, edge_reports
from support.edge_world import EdgeNodeOfWorld, EdgeWorld

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
AT, BEFORE = times.rfc3339(NOW), times.rfc3339(NOW - timedelta(hours=1))
PLAIN = edge_profiles.typed(edge_profiles.plain())
SIGNED = edge_profiles.typed(edge_profiles.signed(edge_profiles.plain()))


def host(name: str, alive: str = "True") -> ManagedNode:
    said = ManagedNodeStatus(conditions=[Condition(type="Alive", status=alive)])
    return ManagedNode(metadata=ObjectMeta(name=name), status=said)


def looked(
    *hosts: ManagedNode, profile: Any = PLAIN, before: EdgeClusterStatus | None = None, **spec: Any
) -> EdgeClusterStatus:
    named = {one.metadata.name: one for one in hosts}
    kept = before is not None and (before.observed_at or before.nodes)
    cluster = EdgeCluster(
        metadata=ObjectMeta(name="s", generation=4), spec=EdgeClusterSpec(profile="k3s-linstor", **spec),
        status=before if kept and before else edge_reports.watched(named, NOW, before),
    )  # fmt: skip
    agents = edge_reports.agents(named)
    return deciding.decide(Site(cluster, profile, agents), NOW)


def said(status: EdgeClusterStatus, kind: str) -> tuple[str, str]:
    found = conditions.get(status.conditions, kind)
    return (found.status, found.reason) if found is not None else ("", "")


def test_who_signed_the_profile_is_told() -> None:
    asked = ProfileSignature(policy="require", keys=[edge_profiles.public_key()])
    status = looked(host("a"), profile=SIGNED, signature=asked)
    assert said(status, findings.PROFILE_SIGNED) == ("True", "Signed")
    assert said(status, findings.PROFILE_USABLE) == ("True", "AsExpected")
    assert status.profile is not None
    assert (status.profile.name, status.profile.version, status.profile.signed_by) == (
        "k3s-linstor", SIGNED.spec.version, edge_profiles.KEY_ID[::-1].hex().upper()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "usable", "phase"),
    [("require", ("False", "ProfileUntrusted"), "Unknown"), ("warn", ("True", "AsExpected"), "SingleNode")],
)
def test_one_that_nobody_signed_is_used_where_that_is_only_told(
    policy: str, usable: tuple[str, str], phase: str
) -> None:
    asked = ProfileSignature(policy=policy, keys=[edge_profiles.public_key()])
    status = looked(host("a"), signature=asked)
    assert said(status, findings.PROFILE_SIGNED) == ("False", "ProfileUntrusted")
    assert said(status, findings.PROFILE_USABLE) == usable
    assert status.phase == phase
    assert status.profile is None or status.profile.signed_by == ""


def test_a_site_that_asks_for_no_signature_is_told_of_none() -> None:
    status = looked(host("a"))
    assert said(status, findings.PROFILE_SIGNED) == ("", "")
    assert said(status, findings.PROFILE_USABLE) == ("True", "AsExpected")


@pytest.mark.parametrize(
    ("hosts", "phase", "healthy"),
    [
        ([host("a")], "SingleNode", ("True", "AsObserved")),
        ([host("a"), host("b", "False")], "Degraded", ("False", "HeartbeatStale")),
        ([], "Bootstrap", ("False", "NoNodes")),
    ],
)
def test_whether_it_is_well_is_said_with_the_reason_of_its_phase(
    hosts: list[ManagedNode], phase: str, healthy: tuple[str, str]
) -> None:
    status = looked(*hosts)
    assert (status.phase, said(status, findings.HEALTHY)) == (phase, healthy)
    assert status.reason == healthy[1]
    gone = looked(*hosts, profile=None)
    assert (gone.phase, said(gone, findings.HEALTHY)) == ("Unknown", ("Unknown", "ProfileNotFound"))
    assert "there is no EdgeProfile k3s-linstor" in gone.message


@pytest.mark.parametrize(
    ("phase", "since", "wanted"),
    [("SingleNode", BEFORE, BEFORE), ("Degraded", BEFORE, AT), ("SingleNode", None, AT), ("", None, AT)],
)
def test_since_when_it_is_in_its_phase(phase: str, since: str | None, wanted: str) -> None:
    before = EdgeClusterStatus(phase=phase, since=since)
    status = looked(host("a"), before=before)
    assert (status.phase, status.since, status.observed_at) == ("SingleNode", wanted, AT)
    assert status.observed_generation == 4


def test_a_condition_keeps_since_when_it_is_so_and_others_go() -> None:
    kept = Condition(type=findings.HEALTHY, status="True", reason="x", last_transition_time=BEFORE)
    stale = Condition(type="OfAnotherTime", status="True", last_transition_time=BEFORE)
    status = looked(host("a"), before=EdgeClusterStatus(conditions=[stale, kept]))
    found = conditions.get(status.conditions, findings.HEALTHY)
    assert found is not None
    assert (found.last_transition_time, found.observed_generation) == (BEFORE, 4)
    assert said(status, "OfAnotherTime") == ("", "")
    ended = looked(host("a", "False"), host("b"), before=EdgeClusterStatus(conditions=[kept]))
    found = conditions.get(ended.conditions, findings.HEALTHY)
    assert found is not None
    assert found.last_transition_time == AT


def test_a_site_that_was_at_work_never_only_begins_again() -> None:
    assert not looked().bootstrapped
    assert not looked(profile=None).bootstrapped
    work = looked(host("a"))
    assert work.bootstrapped
    later = looked(before=work)
    assert (later.phase, later.reason, later.bootstrapped) == ("Degraded", "NoNodes", True)
    assert looked(profile=None, before=work).bootstrapped


def test_how_many_of_its_nodes_live_is_told_and_by_whom() -> None:
    status = looked(host("a"), host("b", "False"), host("c"))
    assert (status.nodes_text, status.source) == ("2/3", "agent")
    assert (status.observed, status.events) == (None, [])
    assert [(one.state, one.message) for one in status.inputs] == [("Stale", "no sign of life of b")]


def test_what_nobody_may_look_at_is_shown_as_unproven() -> None:
    nodes = [EdgeNode(name=one, source=BRIDGE, heartbeat=FRESH) for one in "ab"]
    before = EdgeClusterStatus(nodes=nodes, observed=ObservedState(furthest="Done", state="Done", number=3))
    status = looked(profile=None, before=before)
    assert (status.nodes_text, {one.heartbeat for one in status.nodes}) == ("0/2", {"Unproven"})
    assert status.observed == ObservedState(furthest="Done")
    bare = looked(profile=None)
    assert (bare.nodes_text, bare.observed) == ("", None)


def test_a_part_that_its_daemon_set_calls_well_is_told_with_its_word() -> None:
    world = EdgeWorld(nodes={"a": EdgeNodeOfWorld()})
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
    status = EdgeClusterStatus()
    for _ in range(2):
        world.pass_time(10)
        cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=status)
        status = deciding.decide(Site(cluster, profile, AgentFacts(), world.facts()), world.now)
    assert status.phase == "SingleNode"
    assert status.storage is not None
    assert (status.storage.state, status.storage.said, status.source) == ("Healthy", "healthy", "bridge")
    assert len(status.inputs) == 4
    assert status.observed is not None
    assert status.observed.state == "Idle"
