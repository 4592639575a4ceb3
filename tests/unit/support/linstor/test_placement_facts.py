"""The simulator of LINSTOR: where replicas go, how they sync, and the traps in that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.linstor import codes, drbd_feed, placing, server, showing, sites, syncing
from support.linstor.server import Controller
from support.linstor.sites import GIB, ask, states

RSC = "/v1/resource-definitions/pvc-1"


@pytest.fixture(name="controller")
async def _controller() -> AsyncIterator[Controller]:
    world = sites.cluster("a", "b")
    sites.volume(world, "pvc-1", "a")
    async with server.serve(world) as found:
        yield found


async def place(controller: Controller, **chosen: Any) -> tuple[int, Any]:
    return await ask(controller, "POST", f"{RSC}/autoplace", {"select_filter": chosen})


async def seen(controller: Controller, node: str) -> dict[str, Any]:
    _, body = await ask(controller, "GET", f"/v1/view/resources?resources=pvc-1&nodes={node}")
    found: dict[str, Any] = body[0]
    return found


async def test_a_new_replica_has_no_state_then_attaches_syncs_and_is_there(controller: Controller) -> None:
    status, _ = await place(controller, place_count=2)
    assert status == 201
    assert "state" not in await seen(controller, "b")
    walked = []
    for _ in range(16):
        syncing.advance(controller.world, 1)
        volume = (await seen(controller, "b"))["volumes"][0]
        walked.append(volume.get("state", {}).get("disk_state", ""))
    order = ["Diskless", "Attaching", "Negotiating", "Inconsistent", "UpToDate"]
    assert list(dict.fromkeys(walked)) == order


async def test_while_it_syncs_both_sides_say_so_and_the_share_rises(controller: Controller) -> None:
    await place(controller, place_count=2)
    syncing.advance(controller.world, 6)
    shares = []
    for _ in range(3):
        syncing.advance(controller.world, 1)
        target = (await seen(controller, "b"))["volumes"][0]["state"]["replication_states"]["a"]
        source = (await seen(controller, "a"))["volumes"][0]["state"]["replication_states"]["b"]
        assert (target["replication_state"], source["replication_state"]) == ("SyncTarget", "SyncSource")
        shares.append(target["done_percentage"])
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 100
    syncing.settle(controller.world, 60)
    target = (await seen(controller, "b"))["volumes"][0]["state"]["replication_states"]["a"]
    assert target == {"replication_state": "Established"}


async def test_a_half_flipped_bond_stalls_a_sync(controller: Controller) -> None:
    await place(controller, place_count=2)
    syncing.advance(controller.world, 6)
    controller.world.speeds[frozenset("ab")] = 0
    syncing.advance(controller.world, 600)
    assert states(controller.world, "pvc-1") == {"a": "UpToDate", "b": "Inconsistent"}
    assert not (await seen(controller, "b"))["layer_object"]["drbd"]["connections"]["a"]["connected"]
    del controller.world.speeds[frozenset("ab")]
    syncing.advance(controller.world, 60)
    assert states(controller.world, "pvc-1") == {"a": "UpToDate", "b": "UpToDate"}


async def test_equal_count_is_a_warning_lower_an_error_and_more_ignores_what_is_there(
    controller: Controller,
) -> None:
    status, body = await place(controller, place_count=1)
    assert status == 201
    assert body[0]["ret_code"] & 0xFFFF_FFFF_FFFF_FFFF & codes.ERROR == codes.WARN
    assert (await place(controller, additional_place_count=1))[0] == 201
    status, body = await place(controller, place_count=1)
    assert (status, body[0]["ret_code"] < 0) == (500, True)


async def test_autoplace_wants_two_unless_told(controller: Controller) -> None:
    assert (await place(controller))[0] == 201
    assert set(states(controller.world, "pvc-1")) == {"a", "b"}


@pytest.mark.parametrize("why", ["EVACUATE", "EVICTED", "AutoplaceTarget", "offline", "full", "named"])
async def test_autoplace_leaves_out(controller: Controller, why: str) -> None:
    node, chosen = controller.world.nodes["b"], {"place_count": 2}
    match why:
        case "AutoplaceTarget":
            node.props["AutoplaceTarget"] = "false"
        case "offline":
            controller.world.silence("b")
        case "full":
            controller.world.pools[1].free = 10
        case "named":
            chosen |= {"node_name_list": ["a"]}  # type: ignore[dict-item]
        case flag:
            node.flags.add(flag)
    status, body = await place(controller, **chosen)
    assert (status, body[0]["ret_code"] & 0x7FFF) == (500, codes.NOT_ENOUGH_NODES)


async def test_a_group_with_a_higher_count_places_everything_at_once(controller: Controller) -> None:
    for number in range(2, 6):
        sites.volume(controller.world, f"pvc-{number}", "a")
    wanted = {"select_filter": {"place_count": 2}}
    assert (await ask(controller, "PUT", "/v1/resource-groups/edge", wanted))[0] == 200
    assert all(len(one.holders()) == 2 for one in controller.world.definitions.values())


async def test_a_group_counts_clients_without_a_disk(controller: Controller) -> None:
    await ask(controller, "POST", f"{RSC}/resources/b", {"resource": {"flags": ["DRBD_DISKLESS"]}})
    wanted = {"select_filter": {"place_count": 2}}
    assert (await ask(controller, "PUT", "/v1/resource-groups/edge", wanted))[0] == 200
    assert [one.node for one in controller.world.definitions["pvc-1"].holders()] == ["a"]
    assert (await place(controller, place_count=2))[0] == 201  # which turns the client into a copy
    assert len(controller.world.definitions["pvc-1"].holders()) == 2


async def test_a_group_with_a_lower_count_removes_nothing(controller: Controller) -> None:
    await place(controller, place_count=2)
    controller.world.groups["edge"].place_count = 2
    await ask(controller, "PUT", "/v1/resource-groups/edge", {"select_filter": {"place_count": 1}})
    assert len(controller.world.definitions["pvc-1"].holders()) == 2


async def test_adjust_places_what_is_missing_and_spawn_makes_one(controller: Controller) -> None:
    controller.world.groups["edge"].place_count = 2
    assert (await ask(controller, "POST", "/v1/resource-groups/edge/adjust"))[0] == 200
    assert len(controller.world.definitions["pvc-1"].holders()) == 2
    body = {"resource_definition_name": "pvc-9", "volume_sizes": [GIB]}
    assert (await ask(controller, "POST", "/v1/resource-groups/edge/spawn", body))[0] == 201
    status, said = await ask(controller, "POST", "/v1/resource-groups/edge/spawn", body)
    assert (status, said[0]["ret_code"] & 0x7FFF) == (500, codes.EXISTS_RSC_DFN)
    assert (await ask(controller, "POST", "/v1/resource-groups/adjustall"))[0] == 200


async def test_a_disk_is_added_to_a_client_and_made_available(controller: Controller) -> None:
    assert (await ask(controller, "POST", f"{RSC}/resources/b/make-available", {"diskful": False}))[0] == 200
    assert states(controller.world, "pvc-1")["b"] == "Diskless"
    assert (await ask(controller, "PUT", f"{RSC}/resources/b/toggle-disk", {"storage_pool": "thin"}))[
        0
    ] == 200
    syncing.settle(controller.world, 60)
    assert states(controller.world, "pvc-1")["b"] == "UpToDate"
    controller.world.definitions["pvc-1"].replicas["b"].in_use = True
    assert (await ask(controller, "DELETE", f"{RSC}/resources/b"))[1][0]["ret_code"] & 0x7FFF == codes.IN_USE
    controller.world.definitions["pvc-1"].replicas["b"].in_use = False
    assert (await ask(controller, "DELETE", f"{RSC}/resources/b"))[0] == 200
    assert (await ask(controller, "DELETE", f"{RSC}/resources/b"))[0] == 404


async def test_the_third_node_breaks_ties_and_two_alone_have_no_quorum(controller: Controller) -> None:
    world = controller.world
    await place(controller, place_count=2)
    what = world.definitions["pvc-1"]
    assert what.props[placing.QUORUM] == "off"
    sites.add_node(world, "c")
    assert "TIE_BREAKER" in what.replicas["c"].flags
    assert what.props[placing.QUORUM] == "majority"
    await place(controller, place_count=3)
    assert what.replicas["c"].diskful  # the tie-breaker became a copy, and there is no other one
    assert what.props[placing.QUORUM] == "majority"
    assert not [one for one in what.replicas.values() if "TIE_BREAKER" in one.flags]


async def test_a_volume_without_peer_slots_gains_no_peer(controller: Controller) -> None:
    controller.world.definitions["pvc-1"].peer_slots = 0
    assert (await place(controller, place_count=2))[0] == 500


async def test_an_offline_satellite_has_no_state_and_sync_status_still_says_yes(
    controller: Controller,
) -> None:
    await place(controller, place_count=2)
    syncing.advance(controller.world, 6)
    assert (await ask(controller, "GET", f"{RSC}/sync-status"))[1] == {"synced_on_all": False}
    controller.world.silence("b")
    assert "state" not in await seen(controller, "b")
    assert (await ask(controller, "GET", f"{RSC}/sync-status"))[1] == {"synced_on_all": True}


async def test_sync_status_passes_over_who_has_no_disk(controller: Controller) -> None:
    await ask(controller, "POST", f"{RSC}/resources/b", {"resource": {"flags": ["DRBD_DISKLESS"]}})
    assert states(controller.world, "pvc-1") == {"a": "UpToDate", "b": "Diskless"}
    assert (await ask(controller, "GET", f"{RSC}/sync-status"))[1] == {"synced_on_all": True}
    controller.world.definitions["pvc-1"].replicas["a"].forced = "Outdated"
    assert (await ask(controller, "GET", f"{RSC}/sync-status"))[1] == {"synced_on_all": False}


async def test_a_named_pool_without_room_has_a_number_of_its_own(controller: Controller) -> None:
    """Who asks for any node hears that there are too few; nothing was made, and no room is taken."""
    pool = controller.world.pools[1]
    pool.free = GIB - 1
    wanted = {"resource": {"props": {"StorPoolName": "thin"}}}
    status, body = await ask(controller, "POST", f"{RSC}/resources/b", wanted)
    assert (status, body[0]["ret_code"] & 0x7FFF) == (500, 980)
    assert (set(states(controller.world, "pvc-1")), pool.free) == ({"a"}, GIB - 1)


async def test_changes_for_a_satellite_that_is_away_warn_and_are_made_when_it_is_back(
    controller: Controller,
) -> None:
    world = controller.world
    world.silence("b")
    status, body = await ask(controller, "POST", f"{RSC}/resources/b", {})
    assert (status, body[0]["ret_code"] < 0) == (201, True)
    syncing.advance(world, 60)
    assert states(world, "pvc-1")["b"] == ""
    syncing.come_back(world, "b")
    syncing.advance(world, 60)
    assert states(world, "pvc-1")["b"] == "UpToDate"
    world.silence("b")
    assert (await ask(controller, "DELETE", f"{RSC}/resources/b"))[0] == 200
    assert world.definitions["pvc-1"].replicas["b"].flags == {"DELETE"}
    syncing.come_back(world, "b")
    assert "b" not in world.definitions["pvc-1"].replicas


async def test_a_node_that_is_away_for_long_is_evicted_unless_that_is_off(controller: Controller) -> None:
    world = controller.world
    sites.add_node(world, "c")
    await place(controller, place_count=2, node_name_list=["b"])
    syncing.advance(world, 60)
    off = {"override_props": {"DrbdOptions/AutoEvictAllowEviction": "false"}}
    await ask(controller, "PUT", "/v1/nodes/b", off)
    world.silence("b")
    syncing.advance(world, 7200)
    assert not world.nodes["b"].flags
    on = {"delete_props": ["DrbdOptions/AutoEvictAllowEviction"]}
    await ask(controller, "PUT", "/v1/nodes/b", on)
    syncing.advance(world, 60)
    assert world.nodes["b"].flags == {"EVICTED"}
    assert {one.node for one in world.definitions["pvc-1"].holders()} == {"a", "c"}


@pytest.mark.parametrize("disk", ["Failed", "Outdated", "Inconsistent"])
async def test_faults_of_a_disk_stay(controller: Controller, disk: str) -> None:
    await place(controller, place_count=2)
    syncing.settle(controller.world, 60)
    controller.world.definitions["pvc-1"].replicas["b"].forced = disk
    syncing.advance(controller.world, 600)
    shown = await seen(controller, "b")
    assert shown["volumes"][0]["state"]["disk_state"] == disk
    assert shown["layer_object"]["drbd"]["promotion_score"] == 0
    states_of = shown["volumes"][0]["state"]["replication_states"]["a"]
    assert states_of["replication_state"] == "Established"


async def test_a_pair_that_stands_alone(controller: Controller) -> None:
    await place(controller, place_count=2)
    syncing.settle(controller.world, 60)
    controller.world.definitions["pvc-1"].standalone.add(frozenset("ab"))
    shown = await seen(controller, "a")
    assert shown["layer_object"]["drbd"]["connections"]["b"] == {"connected": False, "message": "StandAlone"}


JSON9 = """[{"name": "pvc-1", "role": "Secondary", "devices": [{"volume": 0, "disk-state": "Inconsistent"}],
"connections": [{"name": "a", "connection-state": "Connected", "peer_devices":
[{"volume": 0, "replication-state": "SyncTarget", "percent-in-sync": 40.0}]}]}]"""
TEXT84 = """pvc-1 role:Secondary suspended:no
    write-ordering:flush
  volume:0 minor:1 disk:Inconsistent
      size:65496 read:0 written:12288
  peer connection:Connected role:Primary congested:no
    volume:0 replication:SyncTarget peer-disk:UpToDate done:18.76 resync-suspended:no
        received:12288 sent:0 out-of-sync:53208 pending:0 unacked:0
"""


@pytest.mark.parametrize("printed", [JSON9, TEXT84], ids=["drbd 9", "drbd 8.4"])
def test_states_of_a_real_drbd_can_be_put_in_its_place(printed: str) -> None:
    world = sites.cluster("a", "b")
    sites.volume(world, "pvc-1", "a", "b")
    drbd_feed.feed(world, "b", printed, peer="a")
    (shown,) = [one for one in showing.resources(world, {}) if one["node_name"] == "b"]
    state = shown["volumes"][0]["state"]
    assert state["disk_state"] == "Inconsistent"
    assert state["replication_states"]["a"]["replication_state"] == "SyncTarget"
    assert shown["layer_object"]["drbd"]["connections"]["a"]["connected"]


def test_of_a_real_drbd_that_stands_alone_no_line_tells_of_the_peer() -> None:
    world = sites.cluster("a", "b")
    sites.volume(world, "pvc-1", "a", "b")
    drbd_feed.feed(world, "b", TEXT84.partition("  peer")[0].replace("Inconsistent", "UpToDate"), peer="a")
    (shown,) = [one for one in showing.resources(world, {}) if one["node_name"] == "b"]
    assert shown["layer_object"]["drbd"]["connections"]["a"]["message"] == "StandAlone"
