"""What people see of what agents of edge sites tell: of a host, of a site, and on the screen of `health`."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from nodemanager.api.edge.edgecluster import EdgeCluster, EdgeClusterSpec
from nodemanager.api.edge.node_reports import NodeWork
from nodemanager.cli.views import output
from nodemanager.cli.views.describe import edgecluster, node
from nodemanager.cli.views.health import screen
from nodemanager.fleet import health
from nodemanager.fleet.edge import deciding
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import Read
from nodemanager.fleet.edge.node_details import SeenNode
from nodemanager.fleet.edge.parts import PartFacts, SitePartFacts
from nodemanager.fleet.edge.storage.facts import StorageFacts, StorageNode, StoragePool
from nodemanager.fleet.health import FleetSnapshot
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles, edge_reports
from support.edge_reports import SILENT, ToldHost

NOW = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)
SYNCS = ToldHost(replication="SyncSource", done=48, out_of_sync=900, change="Armed")
VALUES = ("balance-rr", "data0", "r0", "UpToDate", "Established", "Armed", "active")


def site(**hosts: ToldHost) -> EdgeCluster:
    """Return a site after one look."""
    cluster = EdgeCluster(
        metadata=ObjectMeta(name="site"), spec=EdgeClusterSpec(profile="vx-rail"),
        status=edge_reports.watched(hosts, NOW),
    )  # fmt: skip
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail", "", {"bridge": None}))
    agents = edge_reports.agents(hosts)
    status = deciding.decide(Site(cluster, profile, agents), NOW)
    return EdgeCluster(metadata=cluster.metadata, spec=cluster.spec, status=status)


def words(text: str, start: str) -> list[str]:
    """Return the words of the one line that begins so."""
    (line,) = [one for one in text.splitlines() if one.split()[: len(start.split())] == start.split()]
    return line.split()


def test_a_host_shows_its_bonds_and_its_replicas() -> None:
    text = node.render(SYNCS.node("edge-a"), [], NOW)
    assert words(text, "bondstor balance-rr up")[3:] == ["data0", "up,", "data1", "up", "-"]
    assert words(text, "bondstor.100")[1:] == ["100", "-", "up"]
    assert words(text, "r0")[1:] == [
        "Primary", "UpToDate", "peer0", "Connected", "SyncSource", "48%", "900", "KiB",
    ]  # fmt: skip
    assert "booted active" in text
    assert words(text, "bondstor balance-rr Armed")[-1] == "-"


def test_what_is_wrong_with_the_look_itself_is_said() -> None:
    told = ToldHost(error="cannot look at links", drbd_error="cannot run drbdsetup", omitted=7, peers=0)
    text = node.render(told.node("edge-a"), [], NOW)
    for said in ("cannot look at links", "cannot run drbdsetup", "7 more resources"):
        assert said in text
    assert words(text, "r0")[3] == "none"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (ToldHost(omitted=7, omitted_unwell=2), "7 more resources of DRBD, of which 2 not known to be well"),
        (ToldHost(omitted=7, omitted_unwell=0), "7 more resources of DRBD, with which nothing is wrong"),
        (ToldHost(omitted=7, disk="Failed"), "7 more resources of DRBD, of which nothing is told"),
    ],
)
def test_of_resources_that_are_left_out_it_is_said_whether_they_are_well(told: ToldHost, said: str) -> None:
    assert said in " ".join(node.render(told.node("edge-a"), [], NOW).split())


@pytest.mark.parametrize(
    "gone",
    [SILENT, ToldHost(alive="Unknown"), ToldHost(ready="AgentSilent")],
    ids=["silent", "not judged", "has not spoken since"],
)
def test_nothing_of_a_silent_host_is_shown_as_if_it_were_so_now(gone: ToldHost) -> None:
    text = node.render(gone.node("edge-b"), [], NOW)
    assert "not known: its agent is" in text
    assert not [one for one in VALUES if one in text]
    both = site(**{"edge-a": ToldHost(), "edge-b": gone})
    for shown in (edgecluster.render(both, [], NOW), on_screen(both)):
        (row,) = [
            line.split()
            for line in shown.splitlines()
            if line.split()[:1] == ["edge-b"] and line.split()[1] in ("Stale", "Unproven")
            and line.split()[2:] == ["-"] * 5
        ]  # fmt: skip
        assert row[0] == "edge-b"


def on_screen(cluster: EdgeCluster) -> str:
    found = health.judge(FleetSnapshot(clusters=[cluster]), NOW)
    return screen.render(found, [cluster], "nodemanager", NOW, output.PLAIN, 80)


def test_a_site_shows_each_node_in_short() -> None:
    flipped = dataclasses.replace(SYNCS, mode="active-backup", down=("data1",))
    both = site(**{"edge-a": ToldHost(), "edge-b": flipped})
    for shown in (edgecluster.render(both, [], NOW), on_screen(both)):
        assert words(shown, "edge-a Fresh balance-rr")[2:] == [
            "balance-rr", "2/2", "3/3", "1/1", "active", "-"
        ]  # fmt: skip
        assert words(shown, "edge-b Fresh active-backup")[2:] == [
            "active-backup", "1/2", "2/3", "0/1", "sync", "48%", "active", "Armed",
        ]  # fmt: skip
    assert "half-flipped" in on_screen(both)


def test_why_a_site_is_unwell_is_said_first_and_once_and_as_it_was_said() -> None:
    cut = ToldHost(connection="Connecting")
    both = site(**{"edge-a": cut, "edge-b": dataclasses.replace(cut, mode="active-backup", quorum=False)})
    flat = " ".join(on_screen(both).split())
    (said,) = [one for one in flat.split("SINCE WHY ") if one.startswith("unwell")]
    why, _, below = said.removeprefix("unwell edgecluster/site Degraded 0s ").partition(" site (agent): ")
    flipped = "bondstor is half-flipped: balance-rr on edge-a, active-backup on edge-b; every second packet"
    assert why.startswith(f"network: {flipped} is lost; storage: r0 on edge-a: it is not connected to peer0")
    assert why.endswith("r0 on edge-b: it is not connected to peer0 (Connecting) (PartUnhealthy)")
    assert "r0 on edge-b: it has no quorum: writes fail or hang" in why
    assert "'" not in why
    assert below.startswith("state -, storage Unhealthy, network Unhealthy, virtualisation nobody tells;")
    assert "UpToDate without quorum" in node.render(ToldHost(quorum=False).node("edge-b"), [], NOW)


def test_what_is_not_to_be_read_above_is_said_of_the_part() -> None:
    """As of a site whose row has no room for all of it, or is left out as there are so many."""
    long = site(**{f"edge-{name}": ToldHost(down=("data0",), connection="Timeout") for name in "abcdefgh"})
    assert "network Unhealthy (edge-a: data0" in " ".join(on_screen(long).split())
    bad = site(**{"edge-a": ToldHost(), "edge-b": ToldHost(down=("data0",))})
    many = [
        EdgeCluster(metadata=ObjectMeta(name=f"site-{number:02}"), status=bad.status)
        for number in range(screen.MOST)
    ]
    last = site(**{"edge-c": ToldHost(), "edge-d": ToldHost(down=("data1",))})
    found = health.judge(FleetSnapshot(clusters=[*many, last]), NOW)
    text = screen.render(found, [*many, last], "nodemanager", NOW, output.PLAIN, 400)
    assert text.count("network Unhealthy, ") == screen.MOST
    assert text.count("network Unhealthy (edge-d: data1 of bondstor is down), ") == 1


def test_a_node_that_tells_nothing_says_so_beside_those_that_do() -> None:
    shown = on_screen(site(a=ToldHost(), b=ToldHost(edge=False)))
    assert words(shown, "b nothing") == ["b", "nothing", "-", "-", "-", "-", "-"]
    assert "network (bondstor is balance-rr on 1 node; nothing is told by b)" in " ".join(shown.split())


def test_a_site_whose_agents_tell_nothing_has_no_such_table() -> None:
    plain = site(a=ToldHost(edge=False))
    assert "TOLD" not in on_screen(plain)
    assert "Told by agents" not in edgecluster.render(plain, [], NOW)
    bare = site(a=ToldHost(drbd=False, boot="", bond=""))
    assert words(on_screen(bare), "a Fresh none")[2:] == ["none", "3/3", "-", "-", "-"]


def test_what_the_storage_kubernetes_and_tasks_tell_is_in_a_table_of_its_own() -> None:
    pool = StoragePool("edge-pool", "a", 40, 100)
    seen = PartFacts("LINSTOR", storage=StorageFacts((StorageNode("a"),), pools=(pool,)))
    profile = edge_profiles.typed(edge_profiles.shipped("vx-rail", "", {"bridge": None}))
    cluster = EdgeCluster(
        metadata=ObjectMeta(name="site"), spec=EdgeClusterSpec(profile="vx-rail"),
        status=edge_reports.watched("abc", NOW),
    )  # fmt: skip
    agents = edge_reports.agents(
        {name: ToldHost() for name in "abc"},
        work={"a": NodeWork(name="flip", phase="Running", step="arm"), "b": NodeWork(name="wait")},
    )
    nodes = {"a": SeenNode(taints=["gpu=yes:NoExecute"], unschedulable=True), "b": SeenNode(),
             "c": SeenNode(Read("Refused"))}  # fmt: skip
    status = deciding.decide(Site(cluster, profile, agents, parts=SitePartFacts(seen), kubernetes=nodes), NOW)
    both = EdgeCluster(metadata=cluster.metadata, spec=cluster.spec, status=status)
    for shown in (edgecluster.render(both, [], NOW), output.wrapped(on_screen(both), 400)):
        assert words(shown, "NODE POOLS")[2:] == ["TAINTS", "TASK"]
        assert words(shown, "a edge-pool")[2:5] == ["40%", "free", "cordoned,"]
        assert words(shown, "b - none")[3:] == ["wait", "waits"]
        assert words(shown, "c - not")[2:] == ["not", "known:", "Refused", "-"]


def test_a_site_of_which_nobody_tells_that_has_no_such_table() -> None:
    assert "TAINTS" not in on_screen(site(a=ToldHost()))
