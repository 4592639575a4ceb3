"""Of a site that agents tell of: what an operator believes that was away, or has just begun."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import (
    BOOTSTRAP,
    DEGRADED,
    FRESH,
    MULTI_NODE,
    STALE,
    UNPROVEN,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
)
from nodemanager.api.edge.node_reports import NodeReport, NodeWork
from nodemanager.fleet.edge import deciding
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts
from nodemanager.kube import times
from support import edge_profiles, edge_reports
from support.edge_reports import SILENT, ToldHost
from support.edge_told_world import LOOK, PROFILE, AgentOfWorld, ToldSite, ToldWorld, watched_site
from support.edge_world import START, EdgeNodeOfWorld, EdgeWorld
from support.examples import some

BATCHES, HISTORIES, STEPS = some(10), 30, 20
"""So many batches of histories, of so many steps each: a batch has to be done within the time of a test."""
HOSTS = {"a": ToldHost(), "b": ToldHost()}


def look(
    before: EdgeClusterStatus, seconds: float, beat: str, hosts: dict[str, ToldHost] = HOSTS, **more: object
) -> EdgeClusterStatus:
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=before)
    agents = edge_reports.agents(hosts, beat, **more)
    return deciding.decide(Site(cluster, PROFILE, agents), START + timedelta(seconds=seconds))


def at_work() -> EdgeClusterStatus:
    """Return what two looks saw: agents that live."""
    status = look(look(EdgeClusterStatus(), 0, "x"), 10, "y")
    assert status.phase == MULTI_NODE
    return status


@pytest.mark.parametrize("beat", ["y", "z"])
def test_what_was_so_three_hours_ago_is_not_shown_as_so_now(beat: str) -> None:
    """Whether hosts lived on for a while after the operator was gone, or died with it."""
    status = look(at_work(), 3 * 3600, beat)
    assert (status.phase, status.reason) == (DEGRADED, "HeartbeatUnproven")
    assert "no new sign of life was seen since 2026-03-01T04:00:" in status.message
    assert [(one.heartbeat, one.agent) for one in status.nodes] == [(UNPROVEN, "Unknown")] * 2
    reports = [one.report or NodeReport() for one in status.nodes]
    assert [(one.state, one.bond, one.drbd, one.boot) for one in reports] == [(UNPROVEN, None, None, "")] * 2
    assert status.nodes_text == "0/2"
    assert {one.state for one in (status.network, status.storage) if one} == {"Unknown"}


def test_a_sign_of_life_that_is_seen_to_change_is_believed_at_once() -> None:
    away = look(at_work(), 3 * 3600, "z")
    same = look(away, 3 * 3600 + 10, "z")
    assert (same.phase, same.reason) == (DEGRADED, "HeartbeatUnproven")
    assert look(same, 3 * 3600 + 20, "next").phase == MULTI_NODE


def test_a_new_site_begins_with_the_second_sign_of_life() -> None:
    first = look(EdgeClusterStatus(), 0, "x")
    assert (first.phase, first.reason) == (BOOTSTRAP, "Unproven")
    assert first.nodes[0].message == "no new sign of life was seen yet"
    assert look(look(first, 10, "x"), 20, "y").phase == MULTI_NODE


@pytest.mark.parametrize("lasts", [60, 600])
@pytest.mark.parametrize("away", [LOOK, 3 * LOOK])
def test_a_quick_restart_of_the_operator_is_no_news(lasts: int, away: int) -> None:
    for moment in range(7):  # of a Lease, and of the time between writes of the status
        site = watched_site(a=AgentOfWorld(lasts), b=AgentOfWorld(lasts))
        site.go_on(moment * LOOK)
        site.go_on(away, watched=False)
        site.restart()
        told = [one.phase for one in site.go_on(lasts + 60)]
        beat = lasts // 3 // LOOK + 1
        assert set(told[beat:]) == {MULTI_NODE}, (moment, told)
        assert told.count(MULTI_NODE) >= len(told) - beat


def test_a_restart_within_ten_seconds_is_no_news_at_all() -> None:
    for moment in range(7):
        site = watched_site()
        site.go_on(moment * LOOK)
        site.restart()
        assert {one.phase for one in site.go_on(120)} == {MULTI_NODE}


@pytest.mark.parametrize("lasts", [60, 600])
def test_hosts_that_died_while_nobody_looked_are_at_no_time_well_again(lasts: int) -> None:
    site = watched_site(a=AgentOfWorld(lasts), b=AgentOfWorld(lasts))
    for one in site.world.agents.values():
        one.alive = False
    site.go_on(3 * 3600, watched=False)
    site.restart()
    seen = site.go_on(1200)
    assert {one.phase for one in seen} == {DEGRADED}
    assert {node.heartbeat for one in seen for node in one.nodes} == {UNPROVEN, STALE}
    assert {node.report.state for one in seen for node in one.nodes if node.report} == {UNPROVEN, STALE}


def test_a_change_that_came_with_the_end_of_an_outage_is_no_younger_than_what_was_seen_before_it() -> None:
    """The API was out of reach for an hour, and looks saw the Leases of before; one was renewed meanwhile."""
    status = at_work()
    for number in range(2, 360):
        status = look(status, 10 * number, "y", steady=False)
    assert status.reason == "HeartbeatUnproven"
    back = look(status, 3600, "z", steady=False)
    assert (back.reason, back.nodes[0].changed_at) == ("HeartbeatUnproven", times.rfc3339(START))
    assert look(back, 3610, "next").phase == MULTI_NODE
    short = look(look(at_work(), 20, "y", steady=False), 30, "z", steady=False)
    assert short.phase == MULTI_NODE


def test_of_a_host_that_is_not_known_to_live_nobody_knows_how_far_its_task_is() -> None:
    work = {"a": NodeWork(name="flip", phase="Running", step="arm"), "b": NodeWork(name="wait")}
    assert look(at_work(), 20, "z", work=work).nodes[0].work == work["a"]
    found = look(at_work(), 3 * 3600, "z", work=work).nodes
    assert [one.work for one in found] == [NodeWork(name="flip", phase="Unknown"), work["b"]]


def test_beside_a_daemon_set_what_agents_tell_is_believed_as_long_as_they_were_seen_to_live() -> None:
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
    world = EdgeWorld(nodes={"a": EdgeNodeOfWorld(), "b": EdgeNodeOfWorld()})
    status = EdgeClusterStatus()

    def looked(seconds: float, beat: str) -> EdgeClusterStatus:
        world.pass_time(seconds)
        cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=status)
        agents = edge_reports.agents(HOSTS, beat)
        return deciding.decide(Site(cluster, profile, agents, world.facts()), world.now)

    for number in range(3):
        status = looked(10, str(number))
    assert status.phase == MULTI_NODE
    for beat in ("2", "2", "2"):  # a DaemonSet that lives proves nothing of an agent
        status = looked(3600 if status.phase == MULTI_NODE else 10, beat)
        reports = [one.report.state if one.report else "" for one in status.nodes]
        assert (status.phase, reports) == (DEGRADED, [UNPROVEN] * 2)
    assert [one.heartbeat for one in status.nodes] == [FRESH] * 2
    assert status.reason == "AgentSilent"
    status = looked(10, "next")
    assert (status.phase, [one.agent for one in status.nodes]) == (MULTI_NODE, ["True"] * 2)


def test_a_silent_host_is_called_so_whatever_was_seen_of_its_lease() -> None:
    status = look(at_work(), 20, "z", {"a": ToldHost(), "b": SILENT})
    assert [one.heartbeat for one in status.nodes] == [FRESH, STALE]


def test_an_agent_without_a_lease_is_not_known_to_live() -> None:
    nodes: dict[str, ManagedNode] = {"a": ToldHost().node("a")}
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=at_work())
    status = deciding.decide(Site(cluster, PROFILE, AgentFacts(nodes)), START + timedelta(seconds=20))
    assert status.nodes[0].heartbeat == UNPROVEN


@pytest.mark.parametrize("batch", range(BATCHES))
def test_never_better_than_the_truth_and_well_again_when_all_is(batch: int) -> None:
    proven = 0
    for number in range(HISTORIES):
        seed = batch * HISTORIES + number
        chance = random.Random(seed)
        site = ToldSite(ToldWorld())
        for step in range(STEPS):
            for _ in range(chance.choice([0, 0, 1, 1, 2])):
                site.world.mishap(chance)
            if chance.random() < 0.3:
                site.go_on(chance.choice([10, 30, 300, 3 * 3600]), watched=False)
                site.restart()
            for status in site.go_on(chance.choice([10, 10, 30, 100, 300])):
                proven += status.phase == MULTI_NODE
            assert not site.lies, (seed, step, site.lies, site.world)
        site.world.calm_down()
        told = [one.phase for one in site.go_on(200)]
        assert set(told[-10:]) == {MULTI_NODE}, (seed, told, site.status.message, site.world)
        site.restart()
        assert {one.phase for one in site.go_on(60)} == {MULTI_NODE}, seed
    assert proven > HISTORIES, "a site that is never well proves nothing"
