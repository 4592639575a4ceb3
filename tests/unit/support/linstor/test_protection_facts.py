"""The simulator of LINSTOR: snapshots, clones, and what emptying a node does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.linstor import codes, server, sites, syncing
from support.linstor.server import Controller
from support.linstor.sites import ask

RSC = "/v1/resource-definitions/pvc-1"


@pytest.fixture(name="controller")
async def _controller() -> AsyncIterator[Controller]:
    world = sites.cluster("a", "b", "c")
    sites.volume(world, "pvc-1", "a", "b")
    async with server.serve(world) as found:
        yield found


def code(body: Any) -> int:
    return int(body[0]["ret_code"]) & 0x7FFF


async def flags(controller: Controller) -> list[list[str]]:
    return [one["flags"] for one in (await ask(controller, "GET", "/v1/view/snapshots"))[1]]


async def test_a_snapshot_is_successful_later_and_is_deleted_later(controller: Controller) -> None:
    assert (await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s", "nodes": []}))[0] == 201
    assert await flags(controller) == [[]]
    syncing.advance(controller.world, 3)
    assert await flags(controller) == [["SUCCESSFUL"]]
    status, body = await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s"})
    assert (status, code(body)) == (500, codes.EXISTS_SNAPSHOT)
    assert (await ask(controller, "DELETE", f"{RSC}/snapshots/s"))[0] == 200
    assert await flags(controller) == [["DELETE", "SUCCESSFUL"]]
    syncing.advance(controller.world, 2)
    assert await flags(controller) == []
    assert (await ask(controller, "DELETE", f"{RSC}/snapshots/s"))[0] == 404


async def test_snapshots_need_thin_pools_and_disks_that_are_up_to_date(controller: Controller) -> None:
    controller.world.definitions["pvc-1"].replicas["b"].forced = "Inconsistent"
    assert code((await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s"}))[1]) == 979
    controller.world.definitions["pvc-1"].replicas["b"].forced = ""
    controller.world.pools[1].kind = "LVM"
    assert code((await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s"}))[1]) == 994


async def test_a_snapshot_needs_satellites_that_answer(controller: Controller) -> None:
    controller.world.silence("b")
    status, body = await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s"})
    assert (status, code(body)) == (500, 995)


async def test_a_snapshot_of_some_nodes_asks_nothing_of_the_others(controller: Controller) -> None:
    controller.world.definitions["pvc-1"].replicas["b"].forced = "Inconsistent"
    assert code((await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s", "nodes": ["b"]}))[1]) == 979
    assert (await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s", "nodes": ["a"]}))[0] == 201
    (shown,) = (await ask(controller, "GET", f"{RSC}/snapshots"))[1]
    assert shown["nodes"] == ["a"]
    to = {"to_resource": "pvc-new"}
    await ask(controller, "POST", f"{RSC}/snapshot-restore-volume-definition/s", to)
    await ask(controller, "POST", f"{RSC}/snapshot-restore-resource/s", to)
    assert [one.node for one in controller.world.definitions["pvc-new"].holders()] == ["a"]


async def test_several_snapshots_are_taken_all_or_none(controller: Controller) -> None:
    sites.volume(controller.world, "pvc-2", "a", "b")
    controller.world.definitions["pvc-2"].replicas["b"].forced = "Outdated"
    body = {"snapshots": [{"resource_name": one, "name": "s"} for one in ("pvc-1", "pvc-2")]}
    assert (await ask(controller, "POST", "/v1/actions/snapshot/multi", body))[0] == 500
    assert await flags(controller) == []
    controller.world.definitions["pvc-2"].replicas["b"].forced = ""
    assert (await ask(controller, "POST", "/v1/actions/snapshot/multi", body))[0] == 201
    assert len(await flags(controller)) == 2


async def test_a_rollback_is_refused_while_somebody_uses_it(controller: Controller) -> None:
    await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s"})
    controller.world.definitions["pvc-1"].replicas["a"].in_use = True
    status, body = await ask(controller, "POST", f"{RSC}/snapshot-rollback/s")
    assert (status, code(body)) == (500, codes.IN_USE)
    controller.world.definitions["pvc-1"].replicas["a"].in_use = False
    assert (await ask(controller, "POST", f"{RSC}/snapshot-rollback/s"))[0] == 200


async def test_a_snapshot_is_restored_into_another_volume(controller: Controller) -> None:
    await ask(controller, "POST", f"{RSC}/snapshots", {"name": "s"})
    to = {"to_resource": "pvc-new"}
    path = f"{RSC}/snapshot-restore-volume-definition/s"
    assert (await ask(controller, "POST", path, to))[0] == 200
    assert code((await ask(controller, "POST", path, to))[1]) == codes.EXISTS_RSC_DFN
    assert (await ask(controller, "POST", f"{RSC}/snapshot-restore-resource/s", to))[0] == 200
    assert len(controller.world.definitions["pvc-new"].holders()) == 2


async def test_a_clone_takes_its_time(controller: Controller) -> None:
    assert (await ask(controller, "POST", f"{RSC}/clone", {"name": "copy"}))[0] == 201
    assert (await ask(controller, "GET", f"{RSC}/clone/copy"))[1] == {"status": "CLONING"}
    syncing.advance(controller.world, 6)
    assert (await ask(controller, "GET", f"{RSC}/clone/copy"))[1] == {"status": "COMPLETE"}
    assert (await ask(controller, "POST", f"{RSC}/clone", {"name": "copy"}))[0] == 500
    assert (await ask(controller, "GET", f"{RSC}/clone/none"))[0] == 404


async def test_a_clone_may_fail(controller: Controller) -> None:
    await ask(controller, "POST", f"{RSC}/clone", {"name": "copy"})
    controller.world.definitions["pvc-1"].spoilt.add("copy")
    assert (await ask(controller, "GET", f"{RSC}/clone/copy"))[1] == {"status": "CLONING"}
    syncing.advance(controller.world, 6)
    assert (await ask(controller, "GET", f"{RSC}/clone/copy"))[1] == {"status": "FAILED"}


async def test_evacuate_destroys_what_is_not_up_to_date(controller: Controller) -> None:
    world = controller.world
    world.definitions["pvc-1"].replicas["b"].forced = "Inconsistent"
    assert (await ask(controller, "PUT", "/v1/nodes/b/evacuate", {}))[0] == 200
    assert "b" not in world.definitions["pvc-1"].replicas
    assert [one.node for one in world.definitions["pvc-1"].holders()] == ["a"]


async def test_evacuate_moves_what_is_up_to_date_and_deletes_it_then(controller: Controller) -> None:
    world = controller.world
    await ask(controller, "PUT", "/v1/nodes/b/evacuate", {})
    assert world.nodes["b"].flags == {"EVACUATE"}
    assert world.definitions["pvc-1"].replicas["b"].flags == {"EVACUATE"}
    assert world.definitions["pvc-1"].replicas["c"].diskful
    syncing.advance(world, 60)
    assert {one.node for one in world.definitions["pvc-1"].holders()} == {"a", "c"}


async def test_evacuate_skips_what_has_no_drbd_with_a_warning(controller: Controller) -> None:
    sites.volume(controller.world, "plain", "b", drbd=False)
    _, body = await ask(controller, "PUT", "/v1/nodes/b/evacuate", {})
    assert [one["ret_code"] < 0 for one in body] == [False, True]
    assert "b" in controller.world.definitions["plain"].replicas


@pytest.mark.parametrize(
    ("body", "target"),
    [({}, "c"), ({"target": ["d"]}, "d"), ({"do_not_target": ["c"]}, "d"),
     ({"target": ["a"]}, ""), ({"do_not_target": ["c", "d"]}, "")],
    ids=["any", "target", "do_not_target", "target that has it", "nowhere"],
)  # fmt: skip
async def test_evacuate_moves_where_it_may_and_warns_where_there_is_no_place(
    controller: Controller, body: dict[str, Any], target: str
) -> None:
    world = controller.world
    sites.add_node(world, "d")
    world.pools[2].free += 1  # of c, which is taken first where nobody says anything
    status, said = await ask(controller, "PUT", "/v1/nodes/b/evacuate", body)
    syncing.advance(world, 60)
    holders = {one.node for one in world.definitions["pvc-1"].holders()}
    assert holders == ({"a", target} if target else {"a", "b"}), "what can go nowhere stays"
    warned = [one["ret_code"] & 0x7FFF for one in said if one["ret_code"] < 0]
    assert (status, warned) == (200, [] if target else [codes.NOT_ENOUGH_NODES])


async def test_restore_is_for_nodes_that_are_evacuated_only(controller: Controller) -> None:
    assert (await ask(controller, "PUT", "/v1/nodes/b/restore", {}))[0] == 500
    await ask(controller, "PUT", "/v1/nodes/b/evacuate", {})
    assert (await ask(controller, "PUT", "/v1/nodes/b/restore", {"delete_resources": False}))[0] == 200
    syncing.advance(controller.world, 60)
    assert "b" in controller.world.definitions["pvc-1"].replicas


async def test_restore_may_delete_what_is_there(controller: Controller) -> None:
    world = controller.world
    await ask(controller, "PUT", "/v1/nodes/b/evacuate", {})
    assert (await ask(controller, "PUT", "/v1/nodes/b/restore", {"delete_resources": True}))[0] == 200
    assert world.nodes["b"].flags == set()
    syncing.advance(world, 60)
    assert {one.node for one in world.definitions["pvc-1"].holders()} == {"a", "c"}


async def test_a_lost_node_is_gone_for_good(controller: Controller) -> None:
    assert (await ask(controller, "DELETE", "/v1/nodes/b/lost"))[0] == 200
    assert [one.node for one in controller.world.definitions["pvc-1"].holders()] == ["a"]
    assert (await ask(controller, "PUT", "/v1/nodes/b/reconnect", {}))[0] == 404
