"""What once made a site look better than it is, or like nothing at all: one test each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.edge.edgecluster import (
    MAX_NODES,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
    ProfileSignature,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import deciding, findings
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts, BridgeFacts, SeenDaemonSet
from nodemanager.kube import conditions
from support import edge_profiles
from support.edge_world import EdgeNodeOfWorld, EdgeWorld

VX = edge_profiles.typed(edge_profiles.shipped("vx-rail"))


def edited(patch: dict[str, Any]) -> EdgeProfile:
    """Return the profile as somebody changed it."""
    return edge_profiles.typed(edge_profiles.shipped("vx-rail", patch={"version": "1.1.0", **patch}))


class Watched:
    """A site that was seen to do well, and how it is seen from then on."""

    def __init__(self, *nodes: str) -> None:
        self.world = EdgeWorld(nodes={one: EdgeNodeOfWorld() for one in nodes or ("a",)})
        self.status = EdgeClusterStatus()
        self.look()
        assert self.look().phase == ("MultiNode" if len(nodes) > 1 else "SingleNode")

    def look(
        self,
        seconds: float = 10,
        profile: EdgeProfile | None = VX,
        facts: BridgeFacts | None = None,
        **spec: Any,
    ) -> EdgeClusterStatus:
        """Let time go by, and look."""
        self.world.pass_time(seconds)
        cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail", **spec), status=self.status)
        read = facts or self.world.facts()
        self.status = deciding.decide(Site(cluster, profile, AgentFacts(), read), self.world.now)
        return self.status


def test_one_impossible_time_does_not_end_the_look() -> None:
    site = Watched("a", "b")
    facts = site.world.facts()
    facts.heartbeats.data["node-b"] = "9999-12-31T23:59:59-23:59"  # type: ignore[index]
    status = site.look(facts=facts)
    assert (status.phase, status.reason) == ("Degraded", "HeartbeatUnreadable")
    assert [one.heartbeat for one in status.nodes] == ["Fresh", "Unreadable"]


def test_a_clock_that_is_set_back_forgets_no_node() -> None:
    site = Watched("a", "b")
    del site.world.nodes["b"]
    assert site.look().reason == "HeartbeatGone"
    site.world.now -= timedelta(minutes=5)
    for node in site.world.nodes.values():
        node.beat = site.world.now
    for _ in range(3):
        status = site.look()
    assert (status.phase, status.reason, status.nodes_text) == ("Degraded", "HeartbeatGone", "1/2")
    for _ in range(61):
        status = site.look(60)
    assert status.phase == "SingleNode"  # and nothing is told of for longer than an hour


def test_a_clock_that_is_set_back_makes_no_dead_node_younger() -> None:
    """It gave its last sign of life 80 seconds ago; with the clock, that would seem to be less."""
    site = Watched("a")
    site.world.nodes["a"].alive = False
    for _ in range(7):
        assert site.look().phase == "SingleNode"
    site.world.now -= timedelta(seconds=60)
    for _ in range(3):
        status = site.look()
        assert (status.phase, status.reason) == ("Degraded", "HeartbeatUnproven")
    site.world.nodes["a"].alive = True
    assert site.look().phase == "SingleNode"


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"bridge": {"namespace": "elsewhere"}}, id="namespace"),
        pytest.param({"bridge": {"heartbeats": {"configMap": "other"}}}, id="ConfigMap"),
        pytest.param({"bridge": {"heartbeats": {"format": "opaque"}}}, id="format"),
    ],
)
def test_a_sign_of_life_that_is_read_elsewhere_proves_nothing(patch: dict[str, Any]) -> None:
    site = Watched("a")
    site.world.nodes["a"].alive = False
    facts = site.world.facts()
    facts.heartbeats.data["node-a"] = "2026-02-01T00:00:00Z"  # type: ignore[index]
    status = site.look(profile=edited(patch), facts=facts)
    assert [one.heartbeat for one in status.nodes] == ["Unproven"]
    assert status.phase == "Degraded"


def test_other_edits_of_a_profile_cost_no_sign_of_life() -> None:
    site = Watched("a")
    assert site.look(profile=edited({"description": "another"})).phase == "SingleNode"


def test_how_far_it_was_is_known_by_name_also_where_the_profile_gets_another_order() -> None:
    site = Watched("a")
    site.world.number = 18
    assert site.look().phase == "Upgrading"
    fewer = edited({"bridge": {"states": ["Idle", "VerifyPaths", "WaitSync", "Done"]}})
    status = site.look(profile=fewer)
    in_order = conditions.get(status.conditions, findings.STATE_IN_ORDER)
    assert (status.phase, in_order and in_order.status) == ("Upgrading", "True")
    site.world.bridge = msgspec.structs.replace(site.world.bridge, states=["Idle", "VerifyPaths"])
    site.world.number = 2
    status = site.look(profile=fewer)
    assert (status.phase, status.reason) == ("Degraded", "StateRegressed")


@pytest.mark.parametrize("lapse", ["deleted", "unsigned"])
def test_a_profile_that_lapses_for_a_while_makes_nobody_forget(lapse: str) -> None:
    site = Watched("a", "b")
    site.world.number = 18
    assert site.look().phase == "Upgrading"
    asked = ProfileSignature(policy="require", keys=[edge_profiles.public_key()])
    lapsed = {"profile": None} if lapse == "deleted" else {"signature": asked}
    status = site.look(**lapsed)
    assert (status.phase, status.nodes_text, status.storage) == ("Unknown", "0/2", None)
    assert {one.heartbeat for one in status.nodes} == {"Unproven"}
    assert status.observed is not None
    assert (status.observed.state, status.observed.raw_state) == ("", "")
    del site.world.nodes["b"]
    site.world.number = 10
    site.look()
    status = site.look()
    assert (status.phase, status.reason) == ("Degraded", "StateRegressed")
    assert [(one.name, one.heartbeat) for one in status.nodes] == [("a", "Fresh"), ("b", "Gone")]


def test_of_a_state_that_is_nobodys_only_the_text_is_shown() -> None:
    site = Watched("a")
    site.world.number = 18
    site.world.daemon_sets = ()
    seen = site.look().observed
    assert seen is not None
    assert (seen.state, seen.number, seen.lock_holder, seen.direction) == ("", 0, "", "")
    assert seen.raw_state == "WaitSync"


def test_in_the_first_state_nothing_is_under_way_whichever_way_it_went() -> None:
    site = Watched("a", "b")
    site.world.number, site.world.rollback = 12, True
    assert site.look().phase == "Recovering"
    site.world.number = 1
    assert site.look().phase == "MultiNode"


def test_a_daemon_set_on_no_node_is_none_that_works() -> None:
    site = Watched("a")
    facts = site.world.facts()
    nowhere = SeenDaemonSet("vx-rail-node-init", {}, desired=0, ready=0)
    status = site.look(facts=with_set(facts, nowhere))
    assert (status.phase, status.reason) == ("Degraded", "NoPods")
    assert status.observed is not None
    assert status.observed.state == ""


def with_set(facts: BridgeFacts, daemon_set: SeenDaemonSet) -> BridgeFacts:
    """Return what was read, with another DaemonSet."""
    return BridgeFacts(facts.state, facts.heartbeats, [daemon_set])


def test_a_word_that_is_missing_is_not_taken_for_a_good_one() -> None:
    site = Watched("a")
    site.world.storage = "split-brain"
    assert site.look().reason == "PartUnhealthy"
    site.world.storage = ""
    status = site.look()
    assert (status.phase, status.reason) == ("Unknown", "PartNotObserved")
    assert status.message == "nobody tells how these are now: storage"


def test_a_flood_of_names_hides_no_node_that_was_there() -> None:
    site = Watched("x", "y")
    for number in range(3 * MAX_NODES):
        site.world.nodes[f"junk{number:04}"] = EdgeNodeOfWorld()
    status = site.look()
    assert (status.phase, len(status.nodes)) == ("Degraded", MAX_NODES)
    many = conditions.get(status.conditions, findings.NODES_EXPECTED)
    assert many is not None
    assert many.reason == "TooManyNodes"
    assert f"there are {3 * MAX_NODES + 2} nodes" in many.message
    assert {one.name: one.heartbeat for one in status.nodes if one.name in "xy"} == {
        "x": "Fresh",
        "y": "Fresh",
    }


def test_fewer_nodes_than_the_profile_has_are_told() -> None:
    site = Watched("a")
    pair = edited({"topology": {"nodes": {"minimum": 2}}})
    status = site.look(profile=pair)
    assert (status.phase, status.reason) == ("Degraded", "TooFewNodes")
