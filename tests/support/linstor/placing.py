"""Where replicas are put: by name, by count, by a group; and who breaks a tie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.linstor import codes
from support.linstor.codes import CREATE, DELETE, MODIFY, RSC, RSC_GRP, SUCCESS, WARN, Line, Refusal, line
from support.linstor.world import Definition, Group, LinstorWorld, Replica, offline_warning

QUORUM = "DrbdOptions/Resource/quorum"
TIE = "DrbdOptions/auto-add-quorum-tiebreaker"


def create(world: LinstorWorld, what: Definition, node: str, pool: str, *, flags: Sequence[str] = ()) -> None:
    """Put a replica on a node; a diskless one that is there becomes diskful, a tie-breaker too."""
    if pool and (found := world.pool(node, pool)) is not None:
        if found.free < what.size:
            raise Refusal(CREATE, RSC, codes.NO_SPACE, f"Not enough free space in {pool} on {node}")
        found.free -= what.size
    if len(what.replicas) > what.peer_slots:
        raise Refusal(CREATE, RSC, codes.OTHER, f"Resource '{what.name}' has no peer slot left")
    first = not what.holders()
    was_used = what.replicas[node].in_use if node in what.replicas else False
    made = Replica(node, pool, set(flags), since=world.now, in_use=was_used)
    if first and made.diskful:
        made.synced = what.size  # there is nobody to sync from
    what.replicas[node] = made
    settle_quorum(world, what)


def create_named(world: LinstorWorld, resource: str, node: str, body: dict[str, Any]) -> list[Line]:
    what, where = world.definition(resource), world.node(node)
    there = what.replicas.get(node)
    if there is not None and there.diskful:
        text = f"A resource '{resource}' on node '{node}' already exists."
        raise Refusal(CREATE, RSC, codes.EXISTS_RSC, text)
    wanted = body.get("resource", {})
    pool = wanted.get("props", {}).get("StorPoolName", "") or _any_pool(world, node)
    flags = [one for one in wanted.get("flags", []) if one in ("DISKLESS", "DRBD_DISKLESS")]
    create(world, what, node, "" if flags else pool, flags=flags)
    return [*offline_warning(where), line(SUCCESS, CREATE, RSC, 1, f"New resource '{resource}' created")]


def delete(world: LinstorWorld, resource: str, node: str) -> list[Line]:
    what, where = world.definition(resource), world.node(node)
    if node not in what.replicas:
        raise Refusal(DELETE, RSC, codes.NO_RSC, f"Resource '{resource}' on node '{node}' not found.")
    if what.replicas[node].in_use:
        raise Refusal(DELETE, RSC, codes.IN_USE, f"Resource '{resource}' is still in use.")
    if where.online:
        world.drop(what, node)
    else:
        what.replicas[node].flags.add("DELETE")  # until the satellite is back, and can do it
    settle_quorum(world, what)
    return [*offline_warning(where), line(SUCCESS, DELETE, RSC, 2, f"Resource '{resource}' deleted")]


def toggle(world: LinstorWorld, resource: str, node: str, pool: str) -> list[Line]:
    what = world.definition(resource)
    if node not in what.replicas:
        raise Refusal(MODIFY, RSC, codes.NO_RSC, f"Resource '{resource}' on node '{node}' not found.")
    create(world, what, node, pool or _any_pool(world, node))
    return [line(SUCCESS, MODIFY, RSC, 3, "Disk added")]


def autoplace(world: LinstorWorld, what: Definition, chosen: dict[str, Any]) -> list[Line]:
    """Have so many diskful replicas of one resource."""
    have = len(what.holders())
    wanted = int(chosen.get("place_count") or 2)
    if more := chosen.get("additional_place_count"):
        wanted = have + int(more)
    if wanted < have:
        text = f"The resource '{what.name}' is already deployed on {have} nodes"
        raise Refusal(CREATE, RSC, codes.OTHER, text)
    if wanted == have:
        said = line(WARN, CREATE, RSC, 0, f"Resource '{what.name}' was already deployed on {have} nodes")
        return [said, line(SUCCESS, CREATE, RSC, 1, "Nothing to do")]
    places = _candidates(world, what, chosen)
    if len(places) < wanted - have:
        text = f"Not enough nodes fulfilling the auto-place criteria for '{what.name}'"
        raise Refusal(CREATE, RSC, codes.NOT_ENOUGH_NODES, text)
    for node, pool in places[: wanted - have]:
        create(world, what, node, pool)
    return [line(SUCCESS, CREATE, RSC, 1, f"Resource '{what.name}' placed on {wanted} nodes")]


def modify_group(world: LinstorWorld, group: Group, body: dict[str, Any]) -> list[Line]:
    """Change a group. A higher count places all of its resources at once; a lower one removes nothing."""
    group.props |= body.get("override_props", {})
    for key in body.get("delete_props", []):
        group.props.pop(key, None)
    before = group.place_count
    group.place_count = int(body.get("select_filter", {}).get("place_count", before))
    said = [line(SUCCESS, MODIFY, RSC_GRP, 3, f"Resource group '{group.name}' modified")]
    return said + (adjust(world, group) if group.place_count > before else [])


def adjust(world: LinstorWorld, group: Group) -> list[Line]:
    """Place what has too few replicas, by a count in which clients without a disk are replicas, too."""
    said: list[Line] = []
    for what in world.definitions.values():
        counted = [one for one in what.replicas.values() if "TIE_BREAKER" not in one.flags]
        if what.group == group.name and len(counted) < group.place_count:
            try:
                said += autoplace(world, what, {"place_count": group.place_count,
                                                "storage_pool": group.storage_pool})  # fmt: skip
            except Refusal as refused:
                said.append(refused.line)
    return said


def settle_quorum(world: LinstorWorld, what: Definition) -> None:
    """Add or take away the tie-breaker, and turn quorum on where it can be kept."""
    diskful = len(what.holders())
    ties = [one.node for one in what.replicas.values() if "TIE_BREAKER" in one.flags]
    clients = [one for one in what.replicas.values() if not one.diskful and "TIE_BREAKER" not in one.flags]
    needed = diskful == 2 and not clients and world.props.get(TIE) != "false" and what.drbd
    if not needed:
        for node in ties:
            what.replicas.pop(node)
        ties = []
    free = [one.name for one in world.nodes.values()
            if one.name not in what.replicas and one.online and not one.flags]  # fmt: skip
    if needed and not ties and free:
        node = min(free)
        what.replicas[node] = Replica(node, "", {"DISKLESS", "DRBD_DISKLESS", "TIE_BREAKER"}, since=world.now)
        ties = [node]
    kept = diskful >= 3 or (diskful == 2 and bool(ties or clients))
    what.props[QUORUM] = "majority" if kept else "off"


def _candidates(world: LinstorWorld, what: Definition, chosen: dict[str, Any]) -> list[tuple[str, str]]:
    only, named = chosen.get("node_name_list") or [], chosen.get("storage_pool") or ""
    fitting = [
        pool
        for pool in world.pools
        if world.nodes[pool.node].placeable
        and pool.free >= what.size
        and (not named or pool.name == named)
        and (not only or pool.node in only)
        and pool.node not in {one.node for one in what.holders()}
    ]
    best: dict[str, str] = {}
    for pool in sorted(fitting, key=lambda one: (-one.free, one.node)):
        best.setdefault(pool.node, pool.name)
    return list(best.items())


def _any_pool(world: LinstorWorld, node: str) -> str:
    return next((one.name for one in world.pools if one.node == node), "")
