"""The traps of LINSTOR, DRBD and Piraeus, each by its name: how they look, and that we do not fall in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.backends.errors import (
    BackendError,
    Denied,
    Garbled,
    NoRoom,
    NotReady,
    Premature,
    Refused,
    Undecided,
)
from nodemanager.backends.storage import seam
from nodemanager.backends.storage.linstor import backend, views
from nodemanager.backends.storage.linstor.backend import AUTO_EVICT, AUTOPLACE
from nodemanager.backends.storage.piraeus import objects
from nodemanager.backends.storage.piraeus.objects import PiraeusObject
from nodemanager.fleet.edge.storage import judging
from nodemanager.fleet.edge.storage.facts import Replica, ReplicaVolume
from nodemanager.fleet.edge.storage.judging import StorageVerdict, Wanted
from support import storage_labs
from support.linstor import server, sites, syncing
from support.linstor.server import Fault
from support.linstor.sites import ask
from support.linstor.world import LinstorWorld
from support.storage_labs import LinstorLab


@pytest.fixture(name="lab")
async def _lab() -> AsyncIterator[LinstorLab]:
    world = sites.cluster("a", "b")
    sites.volume(world, "vol-1", "a", "b")
    async with storage_labs.linstor(world) as found:
        yield found


async def judged(lab: LinstorLab, copies: int = 2) -> StorageVerdict:
    return judging.judge(await lab.backend.observe(), Wanted(copies))


async def test_sync_status_lies_about_a_silent_node_and_is_never_asked(lab: LinstorLab) -> None:
    lab.world.silence("b")
    _, said = await ask(lab.controller, "GET", "/v1/resource-definitions/vol-1/sync-status")
    assert said == {"synced_on_all": True}
    assert (await judged(lab)).state == UNHEALTHY
    await lab.backend.place("vol-1", 2)
    assert not [one for one in lab.controller.asked[1:] if "sync-status" in one]


async def test_a_replica_without_a_state_is_unknown_and_not_healthy(lab: LinstorLab) -> None:
    assert (await judged(lab)).state == HEALTHY
    lab.world.restart(5)
    found = await judged(lab)
    assert (found.state, found.faults) == (UNKNOWN, ())
    assert found.unknown[0] == "vol-1: the state of the replica on a is not known"
    syncing.advance(lab.world, 6)
    assert (await judged(lab)).state == HEALTHY


@pytest.mark.parametrize(
    "status", ["OFFLINE", "CONNECTED", "VERSION_MISMATCH", "FULL_SYNC_FAILED", "NEW_ONE"]
)
async def test_online_is_the_only_good_connection(lab: LinstorLab, status: str) -> None:
    lab.world.nodes["b"].status = status
    found = await judged(lab)
    assert found.state == UNHEALTHY
    assert found.faults[0] == f"node b is {status}"


def test_what_is_told_of_a_node_that_nobody_knows_was_so_at_some_other_time() -> None:
    nodes = [views.NodeView(name="a", connection_status="ONLINE")]
    disk = views.VolumeView(state=views.VolumeState(disk_state="UpToDate"))
    state = views.ReplicaState(in_use=False)
    replicas = [views.ReplicaView(name="vol-1", node_name=one, state=state, volumes=[disk]) for one in "ab"]
    assert [one.known for one in views.storage(nodes, replicas, []).replicas] == [True, False]


async def test_a_controller_that_lost_its_memory_is_not_well() -> None:
    async with storage_labs.linstor(sites.cluster()) as lab:
        assert (await judged(lab)).state == UNKNOWN


async def test_more_than_a_site_can_have_is_not_looked_at(
    lab: LinstorLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "MAX_LISTED", 2)
    assert (await judged(lab)).state == HEALTHY
    monkeypatch.setattr(backend, "MAX_LISTED", 1)
    with pytest.raises(Garbled, match="2 nodes, 2 replicas, 2 pools, 1 definition, 0 snapshots are not"):
        await lab.backend.observe()


async def test_raising_a_group_places_everything_so_it_is_refused_until_all_is_placed() -> None:
    world = sites.cluster("a", "b")
    for number in range(3):
        sites.volume(world, f"vol-{number}", "a")
    async with storage_labs.linstor(world) as lab:
        with pytest.raises(Premature, match="3 volumes at once, of which vol-0"):
            await lab.backend.default_copies("edge", 2)
        assert lab.written() == 0
        for number in range(3):
            await lab.backend.place(f"vol-{number}", 2)
            syncing.advance(world, 60)
        assert (await lab.backend.default_copies("edge", 2)).changed
        assert world.groups["edge"].place_count == 2


async def test_a_group_counts_a_client_as_a_copy_and_we_do_not() -> None:
    world = sites.cluster("a", "b")
    sites.volume(world, "vol-1", "a")
    async with storage_labs.linstor(world) as lab:
        body = {"resource": {"flags": ["DRBD_DISKLESS"]}}
        await ask(lab.controller, "POST", "/v1/resource-definitions/vol-1/resources/b", body)
        wanted = {"select_filter": {"place_count": 2}}
        await ask(lab.controller, "PUT", "/v1/resource-groups/edge", wanted)
        syncing.advance(world, 60)
        assert world.groups["edge"].place_count == 2  # and yet there is one copy
        assert (await judged(lab)).faults == ("vol-1 has 1 of 2 copies",)
        with pytest.raises(Premature):
            await lab.backend.default_copies("edge", 2)
        assert (await lab.backend.place("vol-1", 2)).changed
        syncing.advance(world, 60)
        assert (await judged(lab)).state == HEALTHY


async def test_evacuate_destroys_and_what_leaves_counts_no_more(lab: LinstorLab) -> None:
    """That no backend asks for it is in the contract, and in random lives."""
    await ask(lab.controller, "PUT", "/v1/nodes/b/evacuate", {})
    found = await judged(lab)
    assert found.state == UNHEALTHY
    assert "vol-1 has 1 of 2 copies" in found.faults
    assert "node b is being emptied (ONLINE EVACUATE)" in found.faults


async def test_a_copy_that_is_being_deleted_does_not_count(lab: LinstorLab) -> None:
    lab.world.silence("b")
    await ask(lab.controller, "DELETE", "/v1/resource-definitions/vol-1/resources/b")
    syncing.advance(lab.world, 1)
    assert "vol-1 has 1 of 2 copies" in (await judged(lab)).faults


def _stall(world: LinstorWorld) -> None:
    world.definitions["vol-1"].replicas["b"].forced = "Inconsistent"


def _sync(world: LinstorWorld) -> None:
    replica = world.definitions["vol-1"].replicas["b"]
    replica.stage, replica.synced = "Inconsistent", sites.GIB / 4


def _split(world: LinstorWorld) -> None:
    world.definitions["vol-1"].standalone.add(frozenset("ab"))


def _cut(world: LinstorWorld) -> None:
    world.speeds[frozenset("ab")] = 0


def _lose(world: LinstorWorld) -> None:
    world.definitions["vol-1"].replicas["b"].forced = "Diskless"


def _outdate(world: LinstorWorld) -> None:
    world.definitions["vol-1"].replicas["b"].forced = "Outdated"


def _fail(world: LinstorWorld) -> None:
    world.definitions["vol-1"].replicas["b"].forced = "Failed"


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        pytest.param(_stall, "vol-1: the disk on b is Inconsistent, and does not sync", id="stuck"),
        pytest.param(_sync, "vol-1: the disk on b is syncing, 25 % done", id="progressing"),
        pytest.param(_split, "vol-1: a and b both stand alone: split brain is suspected", id="split brain"),
        pytest.param(_cut, "vol-1: a and b are not connected (Connecting)", id="disconnected"),
        pytest.param(_lose, "vol-1: the disk on b is lost", id="lost disk"),
        pytest.param(_outdate, "vol-1: the disk on b is Outdated: it must not be used", id="outdated"),
        pytest.param(_fail, "vol-1: the disk on b is Failed", id="failed"),
    ],
)
async def test_health_is_all_of_it(
    lab: LinstorLab, happens: Callable[[LinstorWorld], None], words: str
) -> None:
    happens(lab.world)
    found = await judged(lab)
    assert found.state == UNHEALTHY
    assert any(one.startswith(words) for one in found.faults), found.faults


async def test_a_definition_of_which_there_is_no_replica_is_not_well(lab: LinstorLab) -> None:
    """As when a volume is made and there is no place for it, or its last replica was lost."""
    lab.world.groups["edge"].place_count = 3
    body = {"resource_definition_name": "vol-9", "volume_sizes": [1024]}
    status, _ = await ask(lab.controller, "POST", "/v1/resource-groups/edge/spawn", body)
    assert status == 500
    found = await judged(lab)
    assert (found.state, found.faults) == (UNHEALTHY, ("vol-9 has 0 of 2 copies",))
    assert found.summary == "2/2 nodes, 2 volumes, 2 copies"


async def test_the_last_replica_that_is_lost_is_missed(lab: LinstorLab) -> None:
    lab.world.definitions["vol-1"].replicas.clear()
    assert (await judged(lab)).faults == ("vol-1 has 0 of 2 copies",)


async def test_what_is_kept_for_its_snapshots_or_about_to_go_lacks_no_replica(lab: LinstorLab) -> None:
    await lab.backend.snapshot("s", ["vol-1"])
    lab.settle()
    lab.world.definitions["vol-1"].replicas.clear()  # as linstor-csi does when a volume is deleted
    assert (await judged(lab)).state == HEALTHY
    sites.volume(lab.world, "vol-2")
    assert (await judged(lab)).faults == ("vol-2 has 0 of 2 copies",)
    lab.world.definitions["vol-2"].flags.add("DELETE")
    assert (await judged(lab)).state == HEALTHY


async def test_snapshots_excuse_no_copy_that_is_missing_beside_another(lab: LinstorLab) -> None:
    await lab.backend.snapshot("s", ["vol-1"])
    lab.settle()
    del lab.world.definitions["vol-1"].replicas["b"]
    assert "vol-1 has 1 of 2 copies" in (await judged(lab)).faults


async def test_who_is_not_known_is_told_so_and_the_site_is_not_empty(lab: LinstorLab) -> None:
    lab.controller.token = "hush"
    status, said = await ask(lab.controller, "GET", "/v1/nodes")
    assert (status, said[0]["ret_code"] & 0x7FFF) == (401, 10001)
    with pytest.raises(Denied, match="Login required"):
        await lab.backend.observe()
    with pytest.raises(Denied, match="Login required"):
        await lab.backend.place("vol-1", 2)


async def test_diskless_is_normal_for_a_client_and_for_who_breaks_ties(lab: LinstorLab) -> None:
    sites.add_node(lab.world, "c")
    found = await judged(lab)
    assert (found.state, found.summary) == (HEALTHY, "3/3 nodes, 1 volume, 2 copies")


async def test_a_site_of_one_node_wants_one_copy() -> None:
    world = sites.cluster("a")
    sites.volume(world, "vol-1", "a")
    async with storage_labs.linstor(world) as lab:
        assert (await judged(lab, copies=2)).state == HEALTHY


async def test_a_node_that_the_storage_does_not_know_is_told(lab: LinstorLab) -> None:
    found = judging.judge(await lab.backend.observe(), Wanted(2, nodes=["a", "b", "c"]))
    assert found.faults == ("the storage knows no node c",)


async def test_a_pool_that_is_nearly_full_is_told(lab: LinstorLab) -> None:
    lab.world.pools[0].free = lab.world.pools[0].total // 10
    found = judging.judge(await lab.backend.observe(), Wanted(2, free_percent=20))
    assert found.faults == ("pool thin on a has 10 % free of 20 %",)


async def test_stale_reads_place_nothing_twice(lab: LinstorLab) -> None:
    world = lab.world
    sites.volume(world, "vol-2", "a")
    lab.controller.stale = world.copy()
    assert (await lab.backend.place("vol-2", 2)).changed
    again = await lab.backend.place("vol-2", 2)  # it cannot see the first one
    assert len(world.definitions["vol-2"].holders()) == 2
    assert "already deployed" in again.warnings[0]


def _cut_with_disk(world: LinstorWorld) -> None:
    _cut(world)
    world.definitions["vol-1"].replicas["a"].forced = "Outdated"


@pytest.mark.parametrize(
    ("happens", "removed"),
    [
        pytest.param(lambda _world: None, True, id="both are whole"),
        pytest.param(_cut, False, id="who is not connected is UpToDate by its own word only"),
        pytest.param(_split, False, id="split brain"),
        pytest.param(lambda world: world.silence("a"), False, id="what it has nobody knows"),
        pytest.param(_cut_with_disk, True, id="it has nothing that is worth anything"),
        pytest.param(_outdate, False, id="the other one is outdated"),
    ],
)
async def test_a_copy_goes_only_if_another_one_has_all_that_it_has(
    lab: LinstorLab, happens: Callable[[LinstorWorld], None], removed: bool
) -> None:
    happens(lab.world)
    if removed:
        assert (await lab.backend.withdraw("vol-1", "a")).changed
        return
    with pytest.raises(Premature, match="no other copy is known"):
        await lab.backend.withdraw("vol-1", "a")
    assert lab.written() == 0


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param({"volumes": ()}, id="nothing is said of its disk"),
        pytest.param({"known": False}, id="its state is of another time"),
        pytest.param({"volumes": (ReplicaVolume(disk="Consistent"),)}, id="it may have more, or less"),
    ],
)
def test_a_copy_of_which_too_little_is_known_has_no_substitute(strange: dict[str, Any]) -> None:
    good = Replica("v", "b", volumes=(ReplicaVolume(disk="UpToDate", replication={"a": "Established"}),))
    assert backend._replaces(good, Replica("v", "a", volumes=(ReplicaVolume(disk="Failed"),)))
    told: dict[str, Any] = {"volumes": (ReplicaVolume(disk="Failed"),)} | strange
    assert not backend._replaces(good, Replica("v", "a", **told))


async def test_who_has_no_copy_keeps_its_place(lab: LinstorLab) -> None:
    sites.add_node(lab.world, "c")
    kinds = {one.node: one.kind for one in (await lab.backend.observe()).replicas}
    assert kinds["c"] == "tie-breaker"
    assert not (await lab.backend.withdraw("vol-1", "c")).changed
    assert {one.node for one in (await lab.backend.observe()).replicas} == {"a", "b", "c"}


async def test_a_snapshot_on_thick_pools_or_of_a_stale_disk_is_refused(lab: LinstorLab) -> None:
    lab.world.definitions["vol-1"].replicas["b"].forced = "Inconsistent"
    with pytest.raises(NotReady, match="979"):
        await lab.backend.snapshot("s", ["vol-1"])
    lab.world.definitions["vol-1"].replicas["b"].forced = ""
    lab.world.pools[1].kind = "LVM"
    with pytest.raises(Refused, match="994"):
        await lab.backend.snapshot("s", ["vol-1"])


async def test_a_snapshot_that_failed_is_never_ready(lab: LinstorLab) -> None:
    await lab.backend.snapshot("s", ["vol-1"])
    lab.world.definitions["vol-1"].snapshots["s"].flags.add("FAILED_DEPLOYMENT")
    syncing.advance(lab.world, 60)
    assert [one.state for one in await lab.backend.snapshots()] == [seam.FAILED]


async def test_a_clone_that_failed_is_never_ready(lab: LinstorLab) -> None:
    await lab.backend.clone("vol-1", "vol-9")
    lab.world.definitions["vol-1"].spoilt.add("vol-9")
    assert await lab.backend.clone_state("vol-1", "vol-9") == seam.TAKING
    syncing.advance(lab.world, 60)
    assert await lab.backend.clone_state("vol-1", "vol-9") == seam.FAILED


async def test_freezing_remembers_what_was_set_and_what_was_not(lab: LinstorLab) -> None:
    lab.world.nodes["a"].props[AUTOPLACE] = "true"
    before = await lab.backend.placeable(["a", "b"])
    assert before == {"a": {AUTOPLACE: "true", AUTO_EVICT: None}, "b": {AUTOPLACE: None, AUTO_EVICT: None}}
    lab.controller.faults.append(Fault(server.CUT_AFTER, "PUT", "/v1/nodes/b"))
    with pytest.raises(Undecided):  # one of them is frozen, and the other perhaps
        await lab.backend.freeze(["a", "b"])
    await lab.backend.freeze(["a", "b"])
    assert [one.props for one in lab.world.nodes.values()] == [{AUTOPLACE: "false", AUTO_EVICT: "false"}] * 2
    await lab.backend.thaw(before)
    assert [one.props for one in lab.world.nodes.values()] == [{AUTOPLACE: "true"}, {}]
    with pytest.raises(BackendError, match="knows no node z"):
        await lab.backend.freeze(["a", "z"])
    assert lab.world.nodes["a"].props == {AUTOPLACE: "true"}


@pytest.mark.parametrize("of_all", [{}, {AUTO_EVICT: "true"}], ids=["as LINSTOR is", "allowed for all nodes"])
@pytest.mark.parametrize("own", [None, "true", "false"])
async def test_a_node_that_is_away_during_a_flip_is_not_given_up(
    lab: LinstorLab, own: str | None, of_all: dict[str, str]
) -> None:
    """Auto-evict would delete its copies after an hour; a flip that went wrong may take that long."""
    node = lab.world.nodes["b"]
    lab.world.props |= of_all
    node.props |= {} if own is None else {AUTO_EVICT: own}
    as_it_was = dict(node.props)
    before = await lab.backend.placeable(["a", "b"])
    await lab.backend.freeze(["a", "b"])
    lab.world.silence("b")
    syncing.advance(lab.world, 3 * 3600)
    assert (node.flags, lab.world.definitions["vol-1"].replicas["b"].flags) == (set(), set())
    syncing.come_back(lab.world, "b")
    await lab.backend.thaw(before)
    assert node.props == as_it_was
    lab.world.silence("b")
    syncing.advance(lab.world, 3 * 3600)
    assert ("EVICTED" in node.flags) is (own != "false"), "as it would have been without us"


async def test_who_is_frozen_by_half_is_frozen_whole(lab: LinstorLab) -> None:
    """As by an earlier version, or by hand: no new copies, and still given up."""
    lab.world.nodes["b"].props[AUTOPLACE] = "false"
    assert (await lab.backend.freeze(["b"])).changed
    assert lab.world.nodes["b"].props[AUTO_EVICT] == "false"
    assert not (await lab.backend.freeze(["b"])).changed


async def test_placing_never_uses_nodes_that_were_not_named(lab: LinstorLab) -> None:
    sites.add_node(lab.world, "c")
    sites.volume(lab.world, "vol-2", "a")
    lab.world.silence("b")
    with pytest.raises(NoRoom):
        await lab.backend.place("vol-2", 2, ["b"])
    assert [one.node for one in lab.world.definitions["vol-2"].holders()] == ["a"]


async def test_placing_uses_the_pool_that_was_named(lab: LinstorLab) -> None:
    sites.volume(lab.world, "vol-2", "a")
    with pytest.raises(NoRoom):
        await lab.backend.place("vol-2", 2, pool="no-such-pool")
    assert (await lab.backend.place("vol-2", 2, pool="thin")).changed


async def test_only_drbd_can_be_shared(lab: LinstorLab) -> None:
    sites.volume(lab.world, "plain", "a", drbd=False)
    assert (await lab.backend.sharing("vol-1")).able
    assert (await lab.backend.sharing("plain")).why_not == "plain has no DRBD layer"


@pytest.mark.parametrize(
    ("status", "reason", "generation", "state"),
    [
        pytest.param("True", "AsExpected", 2, NOT_OBSERVED, id="as expected, which says nothing of replicas"),
        pytest.param("True", "NotObserved", 2, UNKNOWN, id="NotObserved is not healthy"),
        pytest.param("Unknown", "Unknown", 2, UNKNOWN, id="Unknown is not healthy"),
        pytest.param("False", "NotObserved", 2, UNKNOWN, id="not observed and false"),
        pytest.param("True", "AsExpected", 1, UNKNOWN, id="about an older generation"),
        pytest.param("False", "Error", 2, UNHEALTHY, id="an error"),
    ],
)
@pytest.mark.parametrize("kind", objects.EXPECTED)
async def test_conditions_of_piraeus(
    kind: str, status: str, reason: str, generation: int, state: str
) -> None:
    async with storage_labs.piraeus_alone() as lab:
        storage_labs.set_condition(lab.api, "b", kind, status, reason, generation)
        found = judging.judge(await lab.backend.observe(), Wanted(2))
        assert found.state == state, found
        assert state == NOT_OBSERVED or "LinstorSatellite b" in found.text


@pytest.mark.parametrize(
    ("plural", "kind", "condition"),
    [
        ("linstornodeconnections", "LinstorNodeConnection", "Configured"),
        ("linstorsatelliteconfigurations", "LinstorSatelliteConfiguration", "Applied"),
    ],
)
@pytest.mark.parametrize(
    ("status", "reason", "generation", "state"),
    [
        pytest.param("True", "AsExpected", 2, NOT_OBSERVED, id="as expected"),
        pytest.param("True", "NotObserved", 2, UNKNOWN, id="NotObserved is not healthy"),
        pytest.param("True", "AsExpected", 1, UNKNOWN, id="about an older generation"),
        pytest.param("False", "Error", 2, UNHEALTHY, id="an error"),
    ],
)
async def test_paths_of_the_storage_and_what_satellites_shall_be(
    plural: str, kind: str, condition: str, status: str, reason: str, generation: int, state: str
) -> None:
    """One condition is said of each; that the others are missing says nothing."""
    async with storage_labs.piraeus_alone() as lab:
        lab.api.lists[f"{storage_labs.PIRAEUS}/{plural}"] = [storage_labs.piraeus_object("bond", [condition])]
        storage_labs.set_condition(lab.api, "bond", condition, status, reason, generation, plural)
        found = judging.judge(await lab.backend.observe(), Wanted(2))
        assert found.state == state, found
        assert state == NOT_OBSERVED or f"{kind} bond: {condition}" in found.text


async def test_a_path_that_is_deleted_empties_no_node() -> None:
    async with storage_labs.piraeus_alone() as lab:
        gone = storage_labs.piraeus_object("bond", ["Configured"], deletionTimestamp="2026-03-01T04:00:00Z")
        lab.api.lists[f"{storage_labs.PIRAEUS}/linstornodeconnections"] = [gone]
        assert judging.judge(await lab.backend.observe(), Wanted(2)).state == NOT_OBSERVED


async def test_paths_that_may_not_be_listed_are_not_taken_for_none() -> None:
    async with storage_labs.piraeus_alone() as lab:
        lab.api.refused = "linstornodeconnections"
        with pytest.raises(Denied, match=r"cannot list LinstorNodeConnections: .*nodemanager edge rbac"):
            await lab.backend.observe()


def test_a_condition_of_piraeus_that_is_not_there_is_not_known() -> None:
    said = list(objects.findings(PiraeusObject(), "LinstorCluster"))
    assert [one.known for one in said] == [False, False, False]


async def test_a_satellite_that_is_deleted_is_being_emptied() -> None:
    async with storage_labs.piraeus_alone() as lab:
        found = storage_labs.piraeus_object("b", deletionTimestamp="2026-03-01T04:00:00Z")
        lab.api.lists[f"{storage_labs.PIRAEUS}/linstorsatellites"][1] = found
        assert (verdict := judging.judge(await lab.backend.observe(), Wanted())).state == UNHEALTHY
        assert "moves its replicas away and deletes them" in verdict.text


async def test_the_controller_may_be_well_while_piraeus_is_not() -> None:
    async with storage_labs.piraeus() as lab:
        assert (await judged(lab, copies=1)).state == HEALTHY
        assert lab.api is not None
        storage_labs.set_condition(lab.api, "b", "Configured", "Unknown", "NotObserved")
        assert (await judged(lab, copies=1)).state == UNKNOWN
        satellites = lab.api.lists[f"{storage_labs.PIRAEUS}/linstorsatellites"]
        satellites[1] = storage_labs.piraeus_object("z")
        assert (await judged(lab, copies=1)).faults == ("LinstorSatellite z is no node of the controller",)


async def test_a_right_that_is_missing_says_where_to_get_it() -> None:
    async with storage_labs.piraeus_alone() as lab:
        lab.api.refuses = True
        with pytest.raises(BackendError, match="nodemanager edge rbac"):
            await lab.backend.observe()


async def test_an_object_that_cannot_be_read_is_not_taken_for_one_that_is_not_there() -> None:
    strange = {"metadata": {"name": "strange"}, "status": {"conditions": "all well", "phase": 1}}
    async with storage_labs.piraeus_alone() as lab, storage_labs.local_path() as folders:
        lab.api.lists[f"{storage_labs.PIRAEUS}/linstorsatellites"].append(strange)
        folders.api.lists[storage_labs.VOLUMES_PATH].append(strange)
        for backend, doing in ((lab.backend, "LinstorSatellites"), (folders.backend, "PersistentVolumes")):
            with pytest.raises(Garbled, match=f"cannot list {doing}: strange cannot be read"):
                await backend.observe()
        lab.api.lists[f"{storage_labs.PIRAEUS}/linstorclusters"] = [
            {**strange, "metadata": {"name": "linstorcluster"}}
        ]
        with pytest.raises(Garbled, match="cannot look at the LinstorCluster linstorcluster"):
            await lab.backend.observe()


async def test_a_local_volume_of_which_nobody_says_where_it_is() -> None:
    async with storage_labs.local_path() as lab:
        lab.api.lists[storage_labs.VOLUMES_PATH].append(storage_labs.persistent_volume("lost", ""))
        found = judging.judge(await lab.backend.observe(), Wanted())
        assert (found.state, found.text) == (
            UNKNOWN, "PersistentVolume lost: nothing says on which node it is",
        )  # fmt: skip
        assert found.summary == "2/2 nodes; 3 volumes, each on its node only"
