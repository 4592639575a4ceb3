"""What follows for a site from what agents tell of bonds, DRBD and boot; and of what nothing follows."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.edge.edgecluster import (
    HEALTHY,
    NOT_OBSERVED,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
    PartHealth,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.api.edge.node_reports import FRESH, STALE, UNPROVEN, NodeReport
from nodemanager.fleet.edge import deciding, findings
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.hosts import replication
from nodemanager.fleet.edge.parts import NOBODY, PartFacts, SitePartFacts
from nodemanager.fleet.edge.storage.facts import StorageFacts, StorageNode, StoragePool
from nodemanager.host.edge import drbd
from nodemanager.kube import conditions
from support import edge_profiles, edge_reports
from support.edge_reports import SILENT, ToldHost
from support.edge_world import START, EdgeNodeOfWorld, EdgeWorld

CASES = yaml.safe_load((edge_profiles.CASES / "told_by_agents.yaml").read_text())
WORDS = ("active-backup", "balance-rr", "UpToDate", "Inconsistent", "Connected", "StandAlone", "SyncTarget")


def profile_of(name: str = "vx-rail", links: str = "", **spec: Any) -> EdgeProfile:
    wanted = {"bridge": None, **({"topology": {"links": links}} if links else {}), **spec}
    return edge_profiles.typed(edge_profiles.shipped(name, "", wanted))


PROFILE = profile_of()


def look(
    hosts: dict[str, ToldHost],
    before: EdgeClusterStatus | None = None,
    seconds: int = 0,
    profile: Any = PROFILE,
    beat: str = "",
    parts: SitePartFacts = NOBODY,
) -> EdgeClusterStatus:
    """Look at a site of which nobody tells but its agents: these live, unless something else is said."""
    now = START + timedelta(seconds=seconds)
    status = edge_reports.watched(hosts, now) if before is None else before
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=status)
    agents = edge_reports.agents(hosts, beat or str(now))
    return deciding.decide(Site(cluster, profile, agents, parts=parts), now)


def state_of(part: PartHealth | None) -> str | None:
    return part.state if part is not None else None


@pytest.mark.parametrize("case", [pytest.param(one, id=one["name"]) for one in CASES])
def test_case(case: dict[str, Any]) -> None:
    hosts = {name: msgspec.convert(fields, ToldHost) for name, fields in case["hosts"].items()}
    status = look(
        hosts,
        profile=profile_of(case.get("profile", "vx-rail"), case.get("links", ""), **case.get("spec", {})),
    )
    told = {
        "phase": status.phase, "reason": status.reason, "network": state_of(status.network),
        "storage": state_of(status.storage),
    }  # fmt: skip
    assert {key: told[key] for key in case["says"]} == case["says"], (told, status.message)
    everything = "\n".join(
        [status.message, *(repr(one.said) for one in (status.network, status.storage) if one)]
    )
    for text in case.get("text", []):
        assert text in everything
    healthy = conditions.is_true(status.conditions, findings.HEALTHY)
    assert healthy is (status.phase in ("SingleNode", "MultiNode"))


def test_what_was_booted_is_a_condition_where_a_host_tells_of_it() -> None:
    for boots, status in ((("active", ""), "True"), (("active", "passive"), "False"), (("", ""), None)):
        hosts = {name: ToldHost(boot=boot) for name, boot in zip("ab", boots, strict=True)}
        found = conditions.get(look(hosts).conditions, findings.BOOTED_ACTIVE)
        assert (found.status if found is not None else None) == status, boots


def test_where_nothing_is_replicated_one_copy_is_enough() -> None:
    shipped = profile_of()
    storage = msgspec.structs.replace(shipped.spec.storage, mode="single")
    single = msgspec.structs.replace(shipped, spec=msgspec.structs.replace(shipped.spec, storage=storage))
    hosts = {"a": ToldHost(peers=0), "b": ToldHost(peers=0, resources=())}
    assert state_of(look(hosts, profile=single).storage) == "Healthy"
    assert state_of(look(hosts, profile=shipped).storage) == "Unhealthy"


def test_where_no_agent_tells_nobody_knows_how_bonds_and_replicas_are() -> None:
    status = look({"a": ToldHost(edge=False)})
    assert (state_of(status.network), state_of(status.storage)) == (NOT_OBSERVED, NOT_OBSERVED)
    found = conditions.get(status.conditions, findings.PARTS_HEALTHY)
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "PartNotObserved")
    assert (status.nodes[0].report, status.bootstrapped) == (None, False)


def test_a_node_whose_agent_tells_nothing_says_so_where_somebody_has_to() -> None:
    hosts = {"a": ToldHost(), "b": ToldHost(edge=False), "c": dataclasses.replace(SILENT, edge=False)}
    said = [one.message for one in look(hosts).nodes]
    assert said == [
        "",
        "its agent tells nothing of bonds, links and DRBD: it has no --edge",
        "no sign of life",
    ]
    plain = look(hosts, profile=profile_of("ubuntu-local-path"))
    assert [one.message for one in plain.nodes] == ["", "", "no sign of life"]


def test_a_storage_that_somebody_else_sees_is_observed_though_no_agent_tells_of_it() -> None:
    pools = tuple(StoragePool("edge-pool", one, 40, 100) for one in "ab")
    facts = StorageFacts((StorageNode("a"), StorageNode("b")), pools=pools)
    seen = SitePartFacts(PartFacts("LINSTOR", storage=facts))
    status = look({"a": ToldHost(drbd=False), "b": ToldHost(drbd=False)}, parts=seen)
    assert (status.phase, state_of(status.storage)) == ("MultiNode", HEALTHY)


def test_a_backend_that_sees_no_replicas_does_not_vouch_for_them() -> None:
    seen = SitePartFacts(PartFacts("Piraeus", storage=StorageFacts((StorageNode("a"),), sees_replicas=False)))
    nobody = {"a": ToldHost(drbd=False)}
    status = look(nobody, parts=seen)
    assert (status.phase, status.reason, state_of(status.storage)) == (
        "Unknown", "PartNotObserved", NOT_OBSERVED
    )  # fmt: skip
    single = profile_of(storage={"mode": "single"}, workflows=["BondModeFlip"])
    assert look(nobody, parts=seen, profile=single).phase == "SingleNode"


def test_a_node_has_what_its_agent_tells_in_short() -> None:
    told = ToldHost(down=("data1",), change="Armed", replication="SyncSource", done=48, out_of_sync=900)
    (node,) = look({"a": told}).nodes
    found = node.report
    assert found is not None
    assert found.bond is not None
    assert (found.bond.mode, found.bond.up, found.bond.cards) == ("balance-rr", 1, 2)
    assert (found.links_up, found.links, found.boot) == (2, 3, "active"), "a bond is no card"
    assert found.drbd is not None
    assert (found.drbd.resources, found.drbd.well, found.drbd.syncing) == (1, 0, 1)
    assert (found.drbd.done, found.drbd.out_of_sync) == (48, 900)
    assert found.change is not None
    assert found.change.phase == "Armed"


def test_a_host_keeps_no_status_from_being_written_by_numbers_that_are_too_large_together() -> None:
    most = 2**63 - 1
    (node,) = look({"a": ToldHost(peers=2, out_of_sync=most, omitted=most, omitted_unwell=0)}).nodes
    assert node.report is not None
    assert node.report.drbd is not None
    found = node.report.drbd
    assert (found.out_of_sync, found.resources, found.well) == (most, most, most)


@pytest.mark.parametrize(
    ("unwell", "told", "well"),
    [(2, ToldHost(), 299), (0, ToldHost(), 301), (None, ToldHost(), 301), (None, ToldHost(out_of_sync=4), 0),
     (5, ToldHost(out_of_sync=4), 295), (999, ToldHost(out_of_sync=4), 0)],
)  # fmt: skip
def test_of_resources_that_are_left_out_those_that_are_unwell_do_not_count_as_well(
    unwell: int | None, told: ToldHost, well: int
) -> None:
    (node,) = look({"a": dataclasses.replace(told, omitted=300, omitted_unwell=unwell)}).nodes
    assert node.report is not None
    assert node.report.drbd is not None
    found = node.report.drbd
    assert (found.resources, found.well) == (301, well)
    assert (found.out_of_sync is None) is (unwell not in (0, None) or well == 0)


def test_since_when_a_host_tells_it_is_by_our_clock() -> None:
    first = look({"a": ToldHost(peers=0)})
    same = look({"a": ToldHost(peers=0)}, first, 60)
    other = look({"a": ToldHost(peers=0, down=("data0",))}, same, 120)
    stamps = [one.nodes[0].report.changed_at for one in (first, same, other) if one.nodes[0].report]
    assert stamps == ["2026-03-01T04:00:00Z", "2026-03-01T04:00:00Z", "2026-03-01T04:02:00Z"]


def test_the_last_sign_of_life_is_no_younger_than_it_is() -> None:
    """It was given at some time since the look before the one that sees it, by our clock alone."""
    seen, told = EdgeClusterStatus(), []
    for seconds, beat in ((0, "x"), (10, "x"), (20, "y"), (30, "y"), (40, "z")):
        seen = look({"a": ToldHost()}, seen, seconds, beat=beat)
        (agents,) = seen.inputs
        assert agents.changed_at == seen.nodes[0].changed_at
        assert agents.state == ("Fresh" if agents.changed_at else "Stale"), "the first one proves nothing"
        told.append((seen.nodes[0].changed_at or "-")[-4:])
    assert told == ["-", "-", ":10Z", ":10Z", ":30Z"]


def test_a_clock_that_was_set_back_proves_no_sign_of_life() -> None:
    seen = look({"a": ToldHost()}, None, 100)
    (node,) = look({"a": ToldHost()}, seen, 50).nodes
    assert (node.heartbeat, node.changed_at) == (UNPROVEN, None)


def test_of_a_silent_host_the_last_sign_of_life_is_the_one_that_was_seen_last() -> None:
    gone = dataclasses.replace(SILENT, last_seen="2026-03-01T03:59:00Z")
    status = look({"a": ToldHost(), "b": gone})
    assert status.nodes[1].changed_at == "2026-03-01T03:59:00Z"
    (agents,) = status.inputs
    assert (agents.state, agents.message) == ("Stale", "no sign of life of b")


def test_a_site_without_agents_says_that_there_is_none() -> None:
    (agents,) = look({}).inputs
    assert (agents.state, agents.message) == ("Missing", "there is no agent")


def test_a_host_that_comes_back_is_believed_when_it_has_spoken() -> None:
    """Its agent lives before it has told anything; its status is then that of before it went silent."""
    seen = look({"a": ToldHost(), "b": ToldHost()})
    states = []
    for number, one in enumerate([SILENT, ToldHost(ready="AgentSilent"), ToldHost()]):
        seen = look({"a": ToldHost(), "b": one}, seen, 60 * number)
        report = seen.nodes[1].report
        assert report is not None
        states.append((report.state, report.bond is not None, seen.phase))
    assert states == [(STALE, False, "Degraded"), (UNPROVEN, False, "Unknown"), (FRESH, True, "MultiNode")]


def test_beside_a_bridge_the_worse_word_counts_and_agents_are_no_condition() -> None:
    for hosts, phase in (
        ({}, "MultiNode"),
        ({"a": ToldHost(), "b": ToldHost()}, "MultiNode"),
        ({"a": ToldHost()}, "MultiNode"),  # the other node has no agent: the DaemonSet speaks for it
        ({"a": ToldHost(), "b": ToldHost(mode="active-backup")}, "Degraded"),
    ):
        world = EdgeWorld(nodes={"a": EdgeNodeOfWorld(), "b": EdgeNodeOfWorld()})
        bridged = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
        status = EdgeClusterStatus()
        for _ in range(3):
            world.pass_time(30)
            cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=status)
            agents = edge_reports.agents(hosts, str(world.now))
            status = deciding.decide(Site(cluster, bridged, agents, world.facts()), world.now)
        assert status.phase == phase, hosts


told_hosts = st.builds(
    ToldHost,
    alive=st.sampled_from(["True", "False", "Unknown"]),
    ready=st.sampled_from(["Applied", "AgentSilent"]),
    edge=st.booleans(),
    mode=st.sampled_from(WORDS[:2]),
    active=st.sampled_from([None, "data0", "data1", ""]),
    state=st.sampled_from(["up", "down"]),
    down=st.sampled_from([(), ("data0",), ("data0", "data1")]),
    mtu=st.sampled_from([1500, 9000]),
    boot=st.sampled_from(["active", "passive", "recovery", ""]),
    change=st.sampled_from(["", "Armed", "Restoring", "RestoreFailed"]),
    drbd=st.booleans(),
    resources=st.sampled_from([(), ("r0",), ("r0", "r1")]),
    disk=st.sampled_from(WORDS[2:4]),
    quorum=st.sampled_from([True, False, None]),
    peers=st.integers(0, 2),
    peer_disk=st.sampled_from(["UpToDate", "Diskless", "Failed", ""]),
    peer_client=st.sampled_from([True, False, None]),
    connection=st.sampled_from(WORDS[4:6]),
    replication=st.sampled_from(["Established", "SyncSource", "VerifyT", ""]),
    out_of_sync=st.sampled_from([0, 16, None]),
    suspended=st.sampled_from(["no", "user", "quorum,no-data", ""]),
    resync_suspended=st.sampled_from(["no", "user", "peer,dependency", ""]),
    drbd_error=st.sampled_from(["", "cannot run drbdsetup"]),
    error=st.sampled_from(["", "cannot look at links"]),
)


def is_well(one: ToldHost) -> bool:
    """Tell whether one host of two, looked at by itself, says nothing but good; of all that it may say."""
    drbd = not one.drbd or (
        not one.drbd_error
        and all(
            (one.disk == "UpToDate", one.quorum is not False, one.connection == "Connected",
             one.peers > 0, one.out_of_sync == 0, one.suspended == "no", one.resync_suspended == "no",
             one.replication in ("Established", "VerifyT"),
             one.peer_disk == "UpToDate" or (one.peer_disk == "Diskless" and one.peer_client is True))
            if one.resources else ()
        )
    )  # fmt: skip
    network = (one.state, one.down, one.error) == ("up", (), "") and one.change != "RestoreFailed"
    return drbd and network and one.boot in ("active", "")


drbd_told = st.builds(
    ToldHost,
    suspended=st.sampled_from(["no", "user", ""]),
    disk=st.sampled_from(["UpToDate", "Inconsistent"]),
    quorum=st.sampled_from([True, False, None]),
    peers=st.sampled_from([1, 2, 0]),
    peer_disk=st.sampled_from(["UpToDate", "Diskless", "Failed", ""]),
    peer_client=st.sampled_from([True, False, None]),
    connection=st.sampled_from(["Connected", "StandAlone", ""]),
    replication=st.sampled_from(["Established", "PausedSyncS", "SyncSource", "Behind", ""]),
    out_of_sync=st.sampled_from([0, 16, None]),
    resync_suspended=st.sampled_from(["no", "user", "peer,dependency", ""]),
)


@given(drbd_told)
def test_drbd_of_a_host_is_well_where_that_host_calls_it_clean(one: ToldHost) -> None:
    """But for a verify, which is no fault of a site, and after which a host looks again."""
    told = one.told().drbd
    assert told is not None
    verdict = replication.judge({"a": told}, copies=2, complete=False)
    found = [drbd.unclean(resource) for resource in told.resources]
    assert (verdict.state == HEALTHY) is (found == [""]), (verdict, found)
    if one.peers:  # one without any is missing, which a site alone can tell
        assert replication.is_well(told.resources[0]) is (verdict.state == HEALTHY)


@given(st.lists(told_hosts, min_size=2, max_size=2))
def test_never_better_than_what_is_told_and_nothing_of_a_silent_host(hosts: list[ToldHost]) -> None:
    named = dict(zip("ab", hosts, strict=True))
    status = look(named)
    tellers = [one for one in hosts if one.edge]
    if status.phase in ("SingleNode", "MultiNode", "Upgrading", "Recovering"):
        assert all(one.alive == "True" and one.edge for one in hosts)
        assert any(one.drbd for one in hosts), "nobody knows how what is replicated is"
        assert all(is_well(one) and one.ready != "AgentSilent" for one in tellers), status.message
        assert len({one.mode for one in tellers}) <= 1
        assert len({one.mtu for one in tellers}) <= 1
        sends = {one.told().bonds[0].active for one in tellers if one.mode == "active-backup"}
        assert len(tellers) < 2 or not sends or (len(sends) == 1 and "" not in sends)
    for node in status.nodes:
        report, one = node.report, named[node.name]
        if report is not None and (one.alive != "True" or one.ready == "AgentSilent"):
            shown = msgspec.structs.replace(report, changed_at=None, digest="", state="")
            assert shown == NodeReport(), "values of before"
            assert report.state in (STALE, UNPROVEN)
    parts = [one for one in (status.network, status.storage) if one is not None and one.state == "Healthy"]
    assert not parts or len(tellers) == 2


def test_what_is_not_told_is_not_taken_from_before() -> None:
    """A host whose agent lost --edge, and one that tells nothing that is known, leave nothing behind."""
    seen = look({"a": ToldHost(peers=0)})
    after = look({"a": ToldHost(edge=False)}, seen, 10)
    assert (after.nodes[0].report, state_of(after.network)) == (None, NOT_OBSERVED)
    empty = look({"a": ToldHost(peers=0, bond="", drbd=False, vlan=None, boot="")}, seen, 10).nodes[0].report
    assert empty is not None
    assert (empty.bond, empty.drbd, empty.boot) == (None, None, "")
