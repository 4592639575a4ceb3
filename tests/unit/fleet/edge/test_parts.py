"""Storage and virtual machines in the status of a site: what backends showed, and what a DaemonSet says."""

from __future__ import annotations

import itertools

import pytest

from nodemanager.api.edge.edgecluster import EdgeCluster, EdgeClusterSpec, EdgeClusterStatus, PartHealth
from nodemanager.fleet.edge import deciding, findings, parts
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts, Read
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.machines import MachineFacts, RunningMachine
from nodemanager.fleet.edge.parts import PartFacts, SitePartFacts
from nodemanager.fleet.edge.storage.facts import (
    Replica,
    ReplicaVolume,
    StorageFacts,
    StorageNode,
    StoragePool,
)
from nodemanager.fleet.edge.storage.judging import Wanted
from nodemanager.kube import conditions
from support import edge_profiles
from support.edge_world import EdgeNodeOfWorld, EdgeWorld

VX = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
GOOD = ReplicaVolume(0, "UpToDate", "p", {"a": "Established", "b": "Established"})
COPIES = tuple(
    Replica("v", one, volumes=(GOOD,), connections={other: "Connected"}) for one, other in ("ab", "ba")
)
POOLS = tuple(StoragePool("edge-pool", one, 90, 100) for one in "ab")
WELL = StorageFacts((StorageNode("a"), StorageNode("b")), COPIES, POOLS)
LONE = StorageFacts(WELL.nodes, COPIES[:1], POOLS)
BLIND = StorageFacts(WELL.nodes, COPIES, POOLS, unknown=("who knows",))
POORER = StorageFacts(WELL.nodes, COPIES, POOLS[:1])
RUN = MachineFacts((RunningMachine("vms/db", "Running", ready=True),))


def looked(storage: PartFacts | None, machines: PartFacts | None = None) -> EdgeClusterStatus:
    """Look at a site that otherwise is well, twice."""
    world = EdgeWorld(nodes={"a": EdgeNodeOfWorld(), "b": EdgeNodeOfWorld()})
    status = EdgeClusterStatus()
    for _ in range(3):
        world.pass_time(30)
        cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=status)
        site = Site(cluster, VX, AgentFacts(), world.facts(), SitePartFacts(storage, machines))
        status = deciding.decide(site, world.now)
    return status


def test_a_machine_of_a_node_that_is_silent_is_not_shown_as_running() -> None:
    world, status = EdgeWorld(nodes={"a": EdgeNodeOfWorld(), "b": EdgeNodeOfWorld()}), EdgeClusterStatus()
    facts = MachineFacts((RunningMachine("vms/db", "Running", "b", ready=True),))
    told: list[tuple[str, str]] = []
    for _ in range(8):
        world.pass_time(30)
        cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=status)
        seen = SitePartFacts(virtualisation=PartFacts("KubeVirt in vms", machines=facts))
        status = deciding.decide(Site(cluster, VX, AgentFacts(), world.facts(), seen), world.now)
        world.nodes["b"].alive = len(told) < 2
        assert status.virtualisation is not None
        told.append((status.phase, status.virtualisation.state))
    assert told[1:3] == [("MultiNode", "Healthy")] * 2
    assert told[-1] == ("Degraded", "Unknown")
    assert status.virtualisation == PartHealth(
        state="Unknown", said="vms/db: its node b gives no signs of life"
    )
    assert status.reason == "HeartbeatStale"


def test_where_nobody_looks_all_is_as_before() -> None:
    status = looked(None)
    assert (status.phase, status.storage) == ("MultiNode", PartHealth(state="Healthy", said="healthy"))
    assert conditions.get(status.conditions, findings.PARTS_SEEN) is None


def test_what_is_seen_is_shown_with_how_old_it_is() -> None:
    status = looked(PartFacts("LINSTOR x", storage=WELL), PartFacts("KubeVirt in vms", machines=RUN))
    assert status.phase == "MultiNode"
    assert status.storage == PartHealth(state="Healthy", said="2/2 nodes, 1 volume, 2 copies")
    assert status.virtualisation is not None
    assert status.virtualisation.said == "1 run, 0 of them can be migrated live"
    shown = {one.name: (one.state, one.changed_at) for one in status.inputs}
    assert shown["LINSTOR x"] == ("Fresh", "2026-03-01T04:00:30Z")
    assert shown["KubeVirt in vms"][0] == "Fresh"


def test_a_lost_copy_is_degraded_and_a_blind_backend_unknown() -> None:
    status = looked(PartFacts("LINSTOR x", storage=LONE))
    assert (status.phase, status.reason) == ("Degraded", "PartUnhealthy")
    assert "v has 1 of 2 copies" in status.message
    status = looked(PartFacts("LINSTOR x", storage=POORER))
    assert (status.phase, status.message) == ("Degraded", "storage: no pool edge-pool on b")
    status = looked(PartFacts("LINSTOR x", storage=BLIND))
    assert (status.phase, status.reason, status.message) == ("Unknown", "PartUnknown", "storage: who knows")
    found = conditions.get(status.conditions, findings.PARTS_HEALTHY)
    assert found is not None
    assert found.status == "Unknown"


@pytest.mark.parametrize("answer", ["Missing", "Refused", "Unanswered", "Unreadable"])
def test_what_could_not_be_read_is_unknown_and_nothing_old_is_kept(answer: str) -> None:
    status = looked(PartFacts("LINSTOR x", Read(answer, message="it is gone"), storage=WELL))
    assert (status.phase, status.reason) == ("Unknown", "PartUnknown")
    assert status.storage == PartHealth(state="Unknown", said="it is gone")
    (told,) = [one for one in status.inputs if one.name == "LINSTOR x"]
    assert (told.state, told.message, told.changed_at) == (answer, "it is gone", None)


def test_what_is_known_to_be_wrong_comes_before_what_is_not_known() -> None:
    status = looked(
        PartFacts("LINSTOR x", storage=LONE), PartFacts("KubeVirt", Read("Refused", message="no"))
    )
    assert (status.phase, status.reason) == ("Degraded", "PartUnhealthy")
    assert conditions.get(status.conditions, findings.PARTS_SEEN) is not None


def test_of_two_words_the_worse_one_counts() -> None:
    states = ("Unhealthy", "Unknown", "Healthy", "NotObserved")
    for one, other in itertools.product(states, states):
        told, seen = PartHealth(state=one, said="told"), PartHealth(state=other, said="seen")
        found = parts.combined({"storage": told}, {"storage": seen})["storage"]
        assert found.state == min(one, other, key=states.index)
        assert found == seen or one != other


def test_the_site_is_healthy_only_if_every_part_that_is_seen_is() -> None:
    choices = [None, WELL, LONE, BLIND]
    for storage in choices:
        status = looked(PartFacts("LINSTOR x", storage=storage) if storage else None)
        assert conditions.is_true(status.conditions, findings.HEALTHY) is (storage in (None, WELL))


@pytest.mark.parametrize("part", [PartFacts("x", storage=LONE), PartFacts("x", machines=RUN)], ids=repr)
def test_what_changed_tells_one_answer_from_another(part: PartFacts) -> None:
    other = PartFacts("x", storage=WELL) if part.storage else PartFacts("x", machines=MachineFacts())
    assert part.content != other.content
    assert PartFacts("x", Read("Missing", message="no"), storage=WELL).content.data == {}


def test_nothing_to_see_is_not_observed() -> None:
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="x"))
    found = parts.seen(SitePartFacts(virtualisation=PartFacts("x")), VX.spec, cluster)
    assert found["virtualisation"].state == "NotObserved"


def test_what_a_backend_does_not_see_is_said_beside_what_it_does() -> None:
    said = Findings(1)
    looked_at = {"storage": PartHealth(state="NotObserved", said="2/2 nodes; nobody looks at replicas")}
    parts.judge(looked_at, looked_at, said)
    told = {one.type: (one.status, one.message) for one in said.found}
    assert told["PartsSeen"] == ("True", "storage: 2/2 nodes; nobody looks at replicas")


def test_conditions_of_parts() -> None:
    good, bad = PartHealth(state="Healthy"), PartHealth(state="Unhealthy", said="x")
    lost, blind = PartHealth(state="Unknown", said="y"), PartHealth(state="NotObserved")
    for told, looked_at, expected in (
        ({"network": good}, {"storage": good}, {"PartsSeen": "True", "PartsHealthy": "True"}),
        ({"network": bad}, {"storage": good}, {"PartsSeen": "True", "PartsHealthy": "False"}),
        ({"network": good}, {"storage": lost}, {"PartsSeen": "Unknown", "PartsHealthy": "Unknown"}),
        ({"network": lost}, {"storage": good}, {"PartsSeen": "True", "PartsHealthy": "Unknown"}),
        ({"network": blind}, {"storage": good}, {"PartsSeen": "True", "PartsHealthy": "Unknown"}),
        ({"network": blind}, {"storage": blind}, {"PartsSeen": "True", "PartsHealthy": "Unknown"}),
        ({"storage": blind}, {"storage": good}, {"PartsSeen": "True", "PartsHealthy": "True"}),
        ({"storage": lost}, {"storage": good}, {"PartsSeen": "True", "PartsHealthy": "Unknown"}),
        ({"network": bad}, {"storage": lost}, {"PartsSeen": "Unknown", "PartsHealthy": "False"}),
        ({"network": good}, {}, {"PartsHealthy": "True"}),
    ):
        said = Findings(1)
        parts.judge(parts.combined(told, looked_at), looked_at, said)
        assert {one.type: one.status for one in said.found} == expected, (told, looked_at)


def test_without_thresholds_no_pool_is_too_full_and_a_single_volume_is_one_copy() -> None:
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="x"))
    single = edge_profiles.typed(edge_profiles.shipped("ubuntu-local-path", "", {"thresholds": {}}))
    assert parts.wanted(single.spec, cluster) == Wanted(1, (), 0)
    bare = edge_profiles.typed(edge_profiles.shipped("ubuntu-local-path", "", {"thresholds": None}))
    assert parts.wanted(bare.spec, cluster) == Wanted(1, (), 0)


def test_folders_are_not_expected_on_every_node() -> None:
    plain = edge_profiles.typed(edge_profiles.shipped("ubuntu-local-path"))
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="x", nodes=["a", "b"]))
    assert parts.wanted(plain.spec, cluster).nodes == ()
    assert parts.wanted(VX.spec, cluster) == Wanted(2, ["a", "b"], 20, ["edge-pool"])


def test_what_others_wrote_is_in_quotes_only_where_it_cannot_be_shown_as_it_is() -> None:
    for told, shown in (
        ("v has 1 of 2 copies", "storage: v has 1 of 2 copies"),
        ("sick\x1b[2J\nand more", "storage: 'sick\\x1b[2J\\nand more'"),
        ("", "storage: ''"),
    ):
        said = Findings(1)
        parts.judge({"storage": PartHealth(state="Unhealthy", said=told)}, {}, said)
        assert [one.message for one in said.found] == [shown]
