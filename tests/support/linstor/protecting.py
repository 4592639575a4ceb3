"""Snapshots, clones, and nodes that are emptied."""

from __future__ import annotations

from typing import Any

from support.linstor import codes, placing
from support.linstor.codes import (
    CREATE,
    DELETE,
    MODIFY,
    NODE,
    RSC,
    RSC_DFN,
    SNAPSHOT,
    SUCCESS,
    WARN,
    Line,
    Refusal,
    line,
)
from support.linstor.syncing import CLONE_SECONDS
from support.linstor.world import THIN, Definition, LinstorWorld, Replica, Snapshot


def snapshot(world: LinstorWorld, resource: str, name: str, nodes: list[str]) -> list[Line]:
    what = world.definition(resource)
    if name in what.snapshots:
        raise Refusal(CREATE, SNAPSHOT, codes.EXISTS_SNAPSHOT, f"Snapshot '{name}' already exists.")
    chosen = [one for one in what.holders() if not nodes or one.node in nodes]
    for one in chosen:
        pool = world.pool(one.node, one.pool)
        if pool is None or pool.kind not in THIN:
            text = f"Storage driver of pool '{one.pool}' does not support snapshots."
            raise Refusal(CREATE, SNAPSHOT, codes.NO_SNAPSHOTS, text)
        if not world.nodes[one.node].online:
            text = f"No active connection to satellite '{one.node}'"
            raise Refusal(CREATE, SNAPSHOT, codes.NOT_CONNECTED, text)
        if one.disk != "UpToDate":
            text = f"Cannot create snapshot of '{resource}' on '{one.node}': it is not up to date"
            raise Refusal(CREATE, SNAPSHOT, codes.SNAPSHOT_NOT_UP_TO_DATE, text)
    what.snapshots[name] = Snapshot(name, [one.node for one in chosen], world.now)
    return [line(SUCCESS, CREATE, SNAPSHOT, 1, f"New snapshot '{name}' of '{resource}' registered")]


def snapshot_many(world: LinstorWorld, body: dict[str, Any]) -> list[Line]:
    """Take several at one moment: all, or none of them."""
    wanted = [(one["resource_name"], one["name"]) for one in body.get("snapshots", [])]
    trial = world.copy()
    for resource, name in wanted:
        snapshot(trial, resource, name, [])
    return [said for resource, name in wanted for said in snapshot(world, resource, name, [])]


def _snapshot_of(what: Definition, name: str) -> Snapshot:
    if name not in what.snapshots:
        raise Refusal(MODIFY, SNAPSHOT, codes.NO_SNAPSHOT, f"Snapshot '{name}' not found.")
    return what.snapshots[name]


def drop_snapshot(world: LinstorWorld, resource: str, name: str) -> list[Line]:
    found = _snapshot_of(world.definition(resource), name)
    found.flags.add("DELETE")
    found.since = world.now
    return [line(SUCCESS, DELETE, SNAPSHOT, 2, f"Snapshot '{name}' marked for deletion")]


def roll_back(world: LinstorWorld, resource: str, name: str) -> list[Line]:
    what = world.definition(resource)
    _snapshot_of(what, name)
    if any(one.in_use for one in what.replicas.values()):
        raise Refusal(MODIFY, SNAPSHOT, codes.IN_USE, f"Resource '{resource}' is still in use.")
    return [line(SUCCESS, MODIFY, SNAPSHOT, 3, f"Resource '{resource}' rolled back")]


def restore_definition(world: LinstorWorld, resource: str, name: str, to: str) -> list[Line]:
    what = world.definition(resource)
    _snapshot_of(what, name)
    if to in world.definitions:
        raise Refusal(CREATE, RSC_DFN, codes.EXISTS_RSC_DFN, f"'{to}' already exists.")
    world.definitions[to] = Definition(to, what.group, what.size, what.drbd)
    return [line(SUCCESS, CREATE, RSC_DFN, 1, f"Volume definition of '{to}' restored")]


def restore_resource(world: LinstorWorld, resource: str, name: str, body: dict[str, Any]) -> list[Line]:
    what, target = world.definition(resource), world.definition(body["to_resource"])
    for node in body.get("nodes") or _snapshot_of(what, name).nodes:
        _whole(world, target, node, what.replicas[node].pool)
    return [line(SUCCESS, CREATE, RSC, 1, f"Resource '{target.name}' restored")]


def clone(world: LinstorWorld, resource: str, to: str) -> list[Line]:
    what = world.definition(resource)
    if to in world.definitions:
        raise Refusal(CREATE, RSC_DFN, codes.EXISTS_RSC_DFN, f"'{to}' already exists.")
    made = Definition(to, what.group, what.size, what.drbd)
    world.definitions[to] = made
    for one in what.holders():
        _whole(world, made, one.node, one.pool)
    what.clones[to] = world.now
    return [line(SUCCESS, CREATE, RSC_DFN, 1, f"'{to}' is being cloned")]


def clone_status(world: LinstorWorld, resource: str, to: str) -> dict[str, str]:
    what = world.definition(resource)
    if to not in what.clones:
        raise Refusal(MODIFY, RSC_DFN, codes.NO_RSC_DFN, f"'{to}' is no clone of '{resource}'")
    if world.now - what.clones[to] < CLONE_SECONDS:
        return {"status": "CLONING"}
    return {"status": "FAILED" if to in what.spoilt else "COMPLETE"}


def _whole(world: LinstorWorld, what: Definition, node: str, pool: str) -> None:
    what.replicas[node] = Replica(node, pool, stage="UpToDate", since=world.now, synced=what.size)
    placing.settle_quorum(world, what)


def evacuate(world: LinstorWorld, name: str, body: dict[str, Any]) -> list[Line]:
    """Empty a node. What is not UpToDate there is deleted at once; the rest moves, and is deleted then."""
    node = world.node(name)
    node.flags.add("EVACUATE")
    said = [line(SUCCESS, MODIFY, NODE, 3, f"Node '{name}' is being evacuated")]
    for what in world.definitions.values():
        replica = what.replicas.get(name)
        if replica is None:
            continue
        if not what.drbd:
            said.append(line(WARN, MODIFY, RSC, 0, f"'{what.name}' has no DRBD layer and is skipped"))
        elif replica.disk != "UpToDate" or not replica.diskful:
            world.drop(what, name)
            placing.settle_quorum(world, what)
        else:
            said += _move_away(world, what, replica, body)
    return said


def _move_away(world: LinstorWorld, what: Definition, replica: Replica, body: dict[str, Any]) -> list[Line]:
    replica.flags.add("EVACUATE")
    spared = set(body.get("do_not_target") or ())
    only = body.get("target") or [one for one in world.nodes if one not in spared]
    before = {one.node for one in what.holders()}
    try:
        placing.autoplace(world, what, {"additional_place_count": 1, "node_name_list": only})
    except Refusal as refused:
        return [line(WARN, MODIFY, RSC, codes.NOT_ENOUGH_NODES, str(refused))]
    replica.replaced_by = next(one.node for one in what.holders() if one.node not in before)
    return []


def restore_node(world: LinstorWorld, name: str, body: dict[str, Any]) -> list[Line]:
    node = world.node(name)
    if not node.flags & {"EVACUATE", "EVICTED"}:
        raise Refusal(MODIFY, NODE, codes.OTHER, f"Node '{name}' is neither evicted nor evacuating.")
    node.flags -= {"EVACUATE", "EVICTED"}
    for what in world.definitions.values():
        replica = what.replicas.get(name)
        if replica is not None:
            replica.flags -= {"EVACUATE", "EVICTED", "DELETE"}
            replica.replaced_by = ""
            if body.get("delete_resources"):
                world.drop(what, name)
    return [line(SUCCESS, MODIFY, NODE, 3, f"Node '{name}' restored")]
