"""How storage is judged, whatever may be seen: healthy is said of what is wholly known and good."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.fleet.edge.storage import facts, judging
from nodemanager.fleet.edge.storage.facts import (
    DefinedVolume,
    Replica,
    ReplicaVolume,
    StorageFacts,
    StorageNode,
    StoragePool,
)
from nodemanager.fleet.edge.storage.judging import Wanted
from support.examples import some

NODES = ("a", "b", "c")
DISKS = ("", "UpToDate", "UpToDate", "UpToDate", "Inconsistent", "Outdated", "Diskless", "Failed", "DUnknown")
LINKS = ("Connected", "Connected", "Connected", "StandAlone", "Connecting", "")
SYNCS = ("Established", "Established", "Established", "VerifyS", "SyncTarget", "PausedSyncS", "Off", "")


@st.composite
def replicas(draw: st.DrawFn) -> tuple[Replica, ...]:
    found = []
    for node in draw(st.lists(st.sampled_from(NODES), unique=True)):
        others = [one for one in NODES if one != node]
        volume = ReplicaVolume(
            0, draw(st.sampled_from(DISKS)), "p", {one: draw(st.sampled_from(SYNCS)) for one in others}
        )
        kind = draw(st.sampled_from((facts.DISKFUL, facts.DISKFUL, facts.CLIENT, facts.LEAVING)))
        links = {one: draw(st.sampled_from(LINKS)) for one in others}
        known = draw(st.sampled_from((True, True, True, False)))
        volumes = (volume,) if draw(st.sampled_from((True, True, False))) else ()
        found.append(Replica("v", node, kind, known, None, volumes, links))
    return tuple(found)


@settings(max_examples=some(400))
@given(replicas(), st.lists(st.booleans(), min_size=3, max_size=3), st.integers(1, 3))
def test_healthy_means_that_all_of_it_is_known_and_good(
    found: tuple[Replica, ...], online: list[bool], copies: int
) -> None:
    nodes = tuple(StorageNode(name, on) for name, on in zip(NODES, online, strict=True))
    verdict = judging.judge(StorageFacts(nodes, found), Wanted(copies))
    holders = [one for one in found if one.kind == facts.DISKFUL]
    if verdict.state == HEALTHY:
        assert all(online)
        assert all(one.known for one in found)
        assert not found or len(holders) >= copies
        for one in holders:
            assert [part.disk for part in one.volumes] == [facts.UP_TO_DATE]
            for other in holders:
                if other is not one:
                    assert one.connections[other.node] == "Connected"
                    assert one.volumes[0].replication[other.node] in ("Established", "VerifyS")
    else:
        assert verdict.text
    assert (verdict.state == UNHEALTHY) is bool(verdict.faults)
    assert verdict.state != UNKNOWN or verdict.unknown


def test_one_side_of_a_pair_is_not_enough() -> None:
    good = ReplicaVolume(0, "UpToDate", "p", {"a": "Established", "b": "Established"})
    one = Replica("v", "a", volumes=(good,), connections={"b": "Connected"})
    other = Replica("v", "b", volumes=(good,), connections={"a": "Connecting"})
    seen = StorageFacts((StorageNode("a"), StorageNode("b")), (one, other))
    assert judging.judge(seen, Wanted(2)).faults == ("v: a and b are not connected (Connecting)",)


def test_copies_that_are_being_compared_are_well() -> None:
    sides = [
        Replica("v", here, volumes=(ReplicaVolume(0, "UpToDate", "p", {there: said}),),
                connections={there: "Connected"})
        for here, there, said in (("a", "b", "VerifyS"), ("b", "a", "VerifyT"))
    ]  # fmt: skip
    seen = StorageFacts((StorageNode("a"), StorageNode("b")), tuple(sides))
    assert judging.judge(seen, Wanted(2)).state == HEALTHY


def test_who_could_not_use_it_now_is_told() -> None:
    good = ReplicaVolume(0, "UpToDate", "p")
    seen = StorageFacts((StorageNode("a"),), (Replica("v", "a", volumes=(good,), promotable=False),))
    assert judging.judge(seen, Wanted(1)).faults == ("v: a could not use it now",)


def test_an_empty_site_is_well_and_one_that_is_not_seen_is_not() -> None:
    found = judging.judge(StorageFacts((StorageNode("a"),)), Wanted(2))
    assert (found.state, found.text) == (HEALTHY, "1/1 nodes, 0 volumes, 0 copies")
    assert judging.judge(StorageFacts((StorageNode("a"),), unknown=("x",)), Wanted(2)).state == UNKNOWN


def test_a_storage_without_a_node_is_not_the_one_of_a_site() -> None:
    found = judging.judge(StorageFacts(), Wanted(2))
    assert (found.state, found.faults) == (UNKNOWN, ())
    assert found.text.startswith("the storage knows no node at all")
    assert judging.judge(StorageFacts(sees_replicas=False), Wanted(2)).state == NOT_OBSERVED


def test_more_copies_than_can_be_joined_are_told_and_not_compared_each_with_each() -> None:
    good = ReplicaVolume(0, "UpToDate", "p")
    copies = tuple(Replica("v", f"n{number}", volumes=(good,)) for number in range(5000))
    found = judging.judge(StorageFacts((StorageNode("n0"),), copies), Wanted(1))
    assert found.faults[0] == "v has 5000 copies, of which 32 at most can be joined"
    assert len(found.faults) == 1 + 32 * 31 // 2
    found = judging.judge(StorageFacts((StorageNode("n0"),), copies[:32]), Wanted(1))
    assert len(found.faults) == 32 * 31 // 2


def pool_faults(wanted: Wanted, *pools: StoragePool, replicas: bool = True) -> tuple[str, ...]:
    nodes = (StorageNode("a"), StorageNode("b"))
    return judging.judge(StorageFacts(nodes, pools=pools, sees_replicas=replicas), wanted).faults


def test_every_node_shall_have_the_pools_of_the_profile() -> None:
    wanted = Wanted(pools=["fast", "slow"])
    assert pool_faults(
        wanted, StoragePool("FAST", "a"), StoragePool("slow", "a"), StoragePool("slow", "b")
    ) == ("no pool fast on b",)
    both = [StoragePool(name, node) for name in wanted.pools for node in "ab"]
    assert pool_faults(wanted, *both) == ()
    assert pool_faults(Wanted(nodes=["a"], pools=["fast"]), StoragePool("fast", "a")) == (), "b is a guest"
    assert pool_faults(wanted, replicas=False) == (), "whoever tells of no replicas tells of no pools"


def test_how_full_a_pool_is_that_the_profile_does_not_name_is_not_our_business() -> None:
    full = StoragePool("other", "a", 1, 100)
    own = [StoragePool("fast", node, 10, 100) for node in "ab"]
    named = Wanted(free_percent=5, pools=["fast"])
    assert pool_faults(named, full, *own) == ()
    assert pool_faults(Wanted(free_percent=20, pools=["Fast"]), full, *own) == (
        "pool fast on a has 10 % free of 20 %", "pool fast on b has 10 % free of 20 %",
    )  # fmt: skip
    assert pool_faults(Wanted(free_percent=5), full, *own) == ("pool other on a has 1 % free of 5 %",)
    broken = StoragePool("other", "b", fault="no such volume group")
    assert pool_faults(named, broken, *own) == ("pool other on b: no such volume group",)


def test_a_quorum_that_is_off_is_a_fault_where_there_could_be_one() -> None:
    good = ReplicaVolume(0, "UpToDate", "p", dict.fromkeys(NODES, "Established"))

    def found(quorum: bool | None, copies: int, nodes: int, kind: str = facts.CLIENT) -> tuple[str, ...]:
        there = NODES[:nodes]
        replicas = tuple(
            Replica("v", one, facts.DISKFUL if at < copies else kind, volumes=(good,),
                    connections=dict.fromkeys(NODES, "Connected"))
            for at, one in enumerate(there)
        )  # fmt: skip
        seen = StorageFacts(tuple(map(StorageNode, there)), replicas, defined=(DefinedVolume("v", quorum),))
        return judging.judge(seen, Wanted(2)).faults

    off = ("v: its quorum is off, and two sides that lose each other may both write",)
    assert found(False, 3, 3) == found(False, 2, 3) == off
    assert found(False, 2, 3, facts.TIE_BREAKER) == off
    assert found(False, 2, 2) == (), "two nodes cannot have one"
    assert found(True, 3, 3) == found(None, 3, 3) == ()
