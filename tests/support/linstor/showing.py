"""What a controller answers to reads: the JSON of the REST interface."""

from __future__ import annotations

from typing import Any

from support.linstor.syncing import source_of
from support.linstor.world import THIN, Definition, LinstorWorld, Node, Replica


def nodes(world: LinstorWorld) -> list[dict[str, Any]]:
    return [node(one) for one in world.nodes.values()]


def node(one: Node) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": "SATELLITE",
        "connection_status": one.connection,
        "flags": sorted(one.flags),
        "props": one.props,
        "net_interfaces": [
            {"name": name, "address": address, "satellite_port": 3366, "satellite_encryption_type": "PLAIN",
             "is_active": name == "default"}
            for name, address in one.interfaces.items()
        ],
        "storage_providers": ["DISKLESS", "LVM", "LVM_THIN", "ZFS"],
        "resource_layers": ["DRBD", "STORAGE"],
    }  # fmt: skip


def definition(what: Definition) -> dict[str, Any]:
    layers = ["DRBD", "STORAGE"] if what.drbd else ["STORAGE"]
    return {
        "name": what.name,
        "resource_group_name": what.group,
        "props": what.props,
        "flags": sorted(what.flags),
        "layer_data": [{"type": one} for one in layers],
    }


def resources(world: LinstorWorld, query: dict[str, str]) -> list[dict[str, Any]]:
    wanted_nodes, wanted = query.get("nodes", ""), query.get("resources", "")
    return [
        _replica(world, what, one)
        for what in world.definitions.values()
        for one in what.replicas.values()
        if wanted in ("", what.name) and wanted_nodes in ("", one.node)
    ]


def _replica(world: LinstorWorld, what: Definition, one: Replica) -> dict[str, Any]:
    flags = sorted(one.flags)
    known = world.knows(one.node) and bool(one.disk)
    volume: dict[str, Any] = {"volume_number": 0, "storage_pool_name": one.pool or "DfltDisklessStorPool",
                              "device_path": "/dev/drbd1000", "provider_kind": "LVM_THIN"}  # fmt: skip
    shown: dict[str, Any] = {"name": what.name, "node_name": one.node, "flags": flags, "volumes": [volume]}
    if what.drbd:
        shown["layer_object"] = {"type": "DRBD", "drbd": _drbd(world, what, one, known=known)}
    if known:
        shown["state"] = {"in_use": one.in_use}
        volume["state"] = {"disk_state": one.disk, "replication_states": _replication(world, what, one)}
    return shown


def _drbd(world: LinstorWorld, what: Definition, one: Replica, *, known: bool) -> dict[str, Any]:
    if not known:
        return {"connections": {}, "drbd_volumes": []}
    good = one.disk == "UpToDate"
    return {
        "connections": {
            other.node: {"connected": state == "Connected", "message": state}
            for other in what.replicas.values()
            if other is not one
            for state in [connection(world, what, one.node, other.node)]
        },
        "promotion_score": 10101 if good else 0 if one.diskful else 1,
        "may_promote": good,
        "drbd_volumes": [{}],
    }


def connection(world: LinstorWorld, what: Definition, one: str, other: str) -> str:
    """Return how one replica sees its connection to another."""
    if (fed := what.fed_links.get((one, other))) is not None:
        return fed.connection
    if frozenset((one, other)) in what.standalone:
        return "StandAlone"
    away = not world.nodes[other].online
    return "Connecting" if away or world.speed(one, other) <= 0 else "Connected"


def _replication(world: LinstorWorld, what: Definition, one: Replica) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for other in what.replicas.values():
        if other is one:
            continue
        if (fed := what.fed_links.get((one.node, other.node))) is not None:
            done = {} if fed.done is None else {"done_percentage": fed.done}
            found[other.node] = {"replication_state": fed.replication, **done}
        elif connection(world, what, one.node, other.node) != "Connected":
            found[other.node] = {"replication_state": "Off"}
        else:
            found[other.node] = _between(world, what, one, other)
    return found


def _between(world: LinstorWorld, what: Definition, one: Replica, other: Replica) -> dict[str, Any]:
    for target, source, state in ((one, other, "SyncTarget"), (other, one, "SyncSource")):
        syncs = target.disk == "Inconsistent" and not target.forced and target.diskful
        if syncs and source_of(world, what, target) is source:
            done = round(100 * min(1.0, target.synced / what.size), 2)
            return {"replication_state": state, "done_percentage": done}
    return {"replication_state": "Established"}


def pools(world: LinstorWorld) -> list[dict[str, Any]]:
    return [
        {
            "storage_pool_name": one.name,
            "node_name": one.node,
            "provider_kind": one.kind,
            "free_capacity": one.free,
            "total_capacity": one.total,
            "supports_snapshots": one.kind in THIN,
            "reports": [] if world.nodes[one.node].online else [{"ret_code": -1, "message": "No connection"}],
        }
        for one in world.pools
    ]


def snapshots(world: LinstorWorld, resource: str = "") -> list[dict[str, Any]]:
    return [
        {"name": one.name, "resource_name": what.name, "nodes": one.nodes, "flags": sorted(one.flags)}
        for what in world.definitions.values()
        for one in what.snapshots.values()
        if resource in ("", what.name)
    ]


def sync_status(world: LinstorWorld, what: Definition) -> dict[str, bool]:
    """The trap: a replica whose state is not known counts as synced, and diskless ones are passed over."""
    states = [one.disk for one in what.replicas.values() if one.diskful and world.knows(one.node)]
    return {"synced_on_all": all(one in ("", "UpToDate") for one in states)}
