"""What time does: replicas attach and sync, satellites come back, nodes away for too long are given up."""

from __future__ import annotations

from support.linstor import placing
from support.linstor.codes import Refusal
from support.linstor.world import AUTO_EVICT_MINUTES, STAGES, Definition, LinstorWorld, Node, Replica

STEP = 1.0
SNAPSHOT_SECONDS = 2.0
DELETE_SECONDS = 1.0
CLONE_SECONDS = 5.0


def advance(world: LinstorWorld, seconds: float) -> None:
    """Let time go by, in steps of a second."""
    until = world.now + seconds
    while world.now < until - 1e-9:
        step = min(STEP, until - world.now)
        world.now += step
        for what in list(world.definitions.values()):
            for replica in list(what.replicas.values()):
                _move(world, what, replica, step)
            _finish(world, what)
        for node in list(world.nodes.values()):
            _evict(world, node)


def settle(world: LinstorWorld, most: float = 3600.0) -> None:
    """Let time go by until nothing moves any more."""
    advance(world, most)


def come_back(world: LinstorWorld, name: str) -> None:
    """Have a satellite be back: what it was not told is done now."""
    world.nodes[name].online = True
    for what in world.definitions.values():
        replica = what.replicas.get(name)
        if replica is not None and "DELETE" in replica.flags:
            world.drop(what, name)
        placing.settle_quorum(world, what)


def source_of(world: LinstorWorld, what: Definition, replica: Replica) -> Replica | None:
    """Return who a replica gets its data from now, over a link that lets something through."""
    for other in what.holders():
        pair = frozenset((other.node, replica.node))
        if (
            other is not replica
            and other.disk == "UpToDate"
            and world.nodes[other.node].online
            and pair not in what.standalone
            and world.speed(other.node, replica.node) > 0
        ):
            return other
    return None


def _move(world: LinstorWorld, what: Definition, replica: Replica, step: float) -> None:
    if not world.nodes[replica.node].online or replica.fed is not None or not replica.diskful:
        return
    if replica.stage in STAGES:
        if world.now - replica.since >= STEP:
            following = STAGES.index(replica.stage) + 1
            replica.stage = STAGES[following] if following < len(STAGES) else "Inconsistent"
            replica.since = world.now
    elif replica.stage == "Inconsistent" and not replica.forced:
        if (source := source_of(world, what, replica)) is not None:
            replica.synced += step * world.speed(source.node, replica.node)
        if replica.synced >= what.size:
            replica.stage = "UpToDate"


def _finish(world: LinstorWorld, what: Definition) -> None:
    for name, snapshot in list(what.snapshots.items()):
        age = world.now - snapshot.since
        if "DELETE" in snapshot.flags:
            if age >= DELETE_SECONDS:
                what.snapshots.pop(name)
        elif age >= SNAPSHOT_SECONDS and not any(one.startswith("FAILED") for one in snapshot.flags):
            snapshot.flags.add("SUCCESSFUL")
    for replica in list(what.replicas.values()):
        other = what.replicas.get(replica.replaced_by)
        if other is not None and other.disk == "UpToDate":
            world.drop(what, replica.node)
            placing.settle_quorum(world, what)


def _evict(world: LinstorWorld, node: Node) -> None:
    """Give up a node that is away for too long, where that is allowed."""
    away = not node.online and "EVICTED" not in node.flags
    allowed = {**world.props, **node.props}.get("DrbdOptions/AutoEvictAllowEviction", "true") == "true"
    minutes = float(world.props.get("DrbdOptions/AutoEvictAfterTime", AUTO_EVICT_MINUTES))
    if not away or not allowed or world.now - node.offline_since < minutes * 60:
        return
    node.flags.add("EVICTED")
    for what in world.definitions.values():
        replica = what.replicas.get(node.name)
        if replica is not None and replica.diskful:
            replica.flags |= {"DELETE", "EVICTED"}
            wanted = {"place_count": len(what.holders()) + 1}
            try:
                placing.autoplace(world, what, wanted)
            except Refusal:
                continue  # there is nowhere to put another one
