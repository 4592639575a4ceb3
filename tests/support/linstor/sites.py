"""Clusters to begin with, and plain requests to their controller."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, Request, read_all
from support.linstor import placing, syncing
from support.linstor.server import Controller
from support.linstor.world import Definition, Group, LinstorWorld, Node, Pool

GIB = 1024 * 1024
POOL = "thin"


def cluster(*names: str, kind: str = "LVM_THIN", copies: int = 1) -> LinstorWorld:
    """Return nodes with a pool each, and a group `edge` whose volumes are on so many of them."""
    world = LinstorWorld()
    for name in names:
        add_node(world, name, kind)
    world.groups["edge"] = Group("edge", copies)
    return world


def add_node(world: LinstorWorld, name: str, kind: str = "LVM_THIN") -> None:
    """Add a node, which may break ties from now on."""
    world.nodes[name] = Node(name)
    world.pools.append(Pool(POOL, name, kind))
    for what in world.definitions.values():
        placing.settle_quorum(world, what)


def volume(world: LinstorWorld, name: str, *nodes: str, size: int = GIB, **more: Any) -> Definition:
    """Return a volume that is on some nodes, whole and at rest."""
    made = world.definitions[name] = Definition(name, "edge", size, **more)
    for node in nodes:
        placing.create(world, made, node, POOL)
        syncing.advance(world, 5 + size / 102_400)
    return made


async def ask(controller: Controller, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return status and JSON of one request."""
    transport = HttpTransport(ClientConfig(controller.url))
    data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    try:
        async with asyncio.timeout(60):
            response = await transport.send(Request(method, path, data))
            return response.status, msgspec.json.decode(await read_all(response))
    finally:
        await transport.close()


def states(world: LinstorWorld, name: str) -> dict[str, str]:
    """Return the states of the disks of a volume, by node."""
    return {one.node: one.disk for one in world.definitions[name].replicas.values()}
