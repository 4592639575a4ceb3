"""What an agent of an edge site says of its host: taken by both servers, as much of it as there may be."""

from __future__ import annotations

import msgspec

from nodemanager.api.common import edge_state
from nodemanager.api.common.edge_state import (
    BondSlave,
    BondState,
    BootState,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdVolume,
    EdgeState,
    LinkState,
)
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.patches import MergePatch
from nodemanager.host.edge import drbd
from support.agent_process import Api

WORD = "x" * edge_state.MAX_WORD


def full() -> EdgeState:
    """Return the largest that an agent sends."""
    there = DrbdPeerVolume(
        volume=1, replication=WORD, disk=WORD, out_of_sync=2**63 - 1, resync_suspended=WORD
    )
    peer = DrbdPeer(name="n" * 253, node_id=3, connection=WORD, role=WORD, volumes=[there])
    here = DrbdVolume(volume=1, minor=2**31, disk=WORD)
    found = [DrbdResource(name=f"r{number}", role=WORD, suspended=WORD, volumes=[here], peers=[peer] * 31)
             for number in range(200)]  # fmt: skip
    cards = [BondSlave(name=f"eth{number}", state="active", mii="up") for number in range(16)]
    bonds = [BondState(name=f"bond{number}", mode=WORD, slaves=cards) for number in range(16)]
    links = [LinkState(name=f"eth{number}", mac="52:54:00:00:00:01", mtu=9000) for number in range(64)]
    return EdgeState(boot=BootState(entry="active"), links=links, bonds=bonds, drbd=drbd.bounded("9", found))


async def test_the_most_that_a_host_says_is_taken_and_taken_away(api: Api) -> None:
    meta = {"name": "edge1", "namespace": api.namespace}
    await api.client.create(MANAGED_NODES, {"metadata": meta}, api.namespace)
    for edge in (full(), None):
        patch = MergePatch({"status": {"edge": None if edge is None else msgspec.to_builtins(edge)}})
        await api.client.patch(MANAGED_NODES, "edge1", api.namespace, patch, subresource="status")
        found = await api.client.get(MANAGED_NODES, "edge1", api.namespace)
        assert found.status.edge == edge
