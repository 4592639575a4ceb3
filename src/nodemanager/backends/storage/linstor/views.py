"""LINSTOR's answers to reads, with the fields that we use, and what they say about the storage. Pure.

Missing fields stay missing: a replica has no `state` when its satellite is away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Final

import msgspec

from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.storage import facts
from nodemanager.fleet.edge.storage.facts import (
    DefinedVolume,
    Replica,
    ReplicaVolume,
    StorageFacts,
    StorageNode,
    StoragePool,
)
from nodemanager.kube.objects import FrozenMeta

ONLINE: Final = "ONLINE"
"""The only good connection of a satellite."""
_LEAVING_NODE: Final = frozenset({"EVICTED", "EVACUATE", "DELETE"})
_LEAVING: Final = frozenset({"DELETE", "INACTIVE", "EVACUATE", "EVICTED"})
_QUORUM: Final = "DrbdOptions/Resource/quorum"
_CLIENT: Final = frozenset({"DISKLESS", "DRBD_DISKLESS"})
Amount = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""In KiB, as LINSTOR counts; a status takes no larger number, and it has no fractions."""


class _View(msgspec.Struct, metaclass=FrozenMeta, frozen=True, kw_only=True):
    """Fields of LINSTOR have names with underscores, and there are more of them than we read."""


class NodeView(_View):
    """`/v1/nodes`."""

    name: str
    type: str = ""
    connection_status: str = ""
    flags: list[str] | None = None
    props: dict[str, str] | None = None


class ReplicationView(_View):
    """The replication between two replicas of a volume."""

    replication_state: str = ""
    done_percentage: float | None = None


class VolumeState(_View):
    """The state of a volume's disk."""

    disk_state: str = ""
    replication_states: dict[str, ReplicationView] | None = None


class VolumeView(_View):
    """A volume of a replica."""

    volume_number: int = 0
    storage_pool_name: str = ""
    state: VolumeState | None = None


class ConnectionView(_View):
    """A connection to a peer."""

    connected: bool = False
    message: str = ""


class DrbdView(_View):
    """DRBD's facts about a replica."""

    connections: dict[str, ConnectionView] | None = None
    promotion_score: int | None = None


class LayerView(_View):
    """The layers of a replica."""

    drbd: DrbdView | None = None


class ReplicaState(_View):
    """Whether the replica is in use."""

    in_use: bool | None = None


class ReplicaView(_View):
    """`/v1/view/resources`."""

    name: str
    node_name: str
    flags: list[str] | None = None
    state: ReplicaState | None = None
    layer_object: LayerView | None = None
    volumes: list[VolumeView] | None = None


class PoolReport(_View):
    """A message of LINSTOR about a pool."""

    ret_code: int = 0
    message: str = ""


class PoolView(_View):
    """`/v1/view/storage-pools`."""

    storage_pool_name: str
    node_name: str
    provider_kind: str = ""
    free_capacity: Amount | None = None
    total_capacity: Amount | None = None
    supports_snapshots: bool = False
    reports: list[PoolReport] | None = None


class SnapshotView(_View):
    """`/v1/view/snapshots`."""

    name: str
    resource_name: str
    nodes: list[str] | None = None
    flags: list[str] | None = None


class LayerData(_View):
    """A layer of a definition."""

    type: str = ""


class DefinitionView(_View):
    """`/v1/resource-definitions`."""

    name: str
    resource_group_name: str = ""
    flags: list[str] | None = None
    props: dict[str, str] | None = None
    layer_data: list[LayerData] | None = None


class CloneView(_View):
    """State of a clone."""

    status: str = ""


def kind_of(flags: Collection[str]) -> str:
    """Return what a replica is for. One that is leaving counts no more, whatever else it is."""
    if _LEAVING.intersection(flags):
        return facts.LEAVING
    if "TIE_BREAKER" in flags:
        return facts.TIE_BREAKER
    return facts.CLIENT if _CLIENT.intersection(flags) else facts.DISKFUL


def volumes(
    definitions: Iterable[DefinitionView],
    replicas: Iterable[ReplicaView],
    snapshots: Iterable[SnapshotView],
) -> Iterator[DefinedVolume]:
    """Yield what shall be somewhere, whether or not there is a replica of it.

    Of a volume that was deleted, linstor-csi keeps the definition for as long as it has snapshots: with
    these, one without a replica is nothing that is missing.
    """
    placed = {one.name for one in replicas}
    kept = {one.resource_name for one in snapshots} - placed
    for one in definitions:
        if one.name not in kept and not _LEAVING.intersection(one.flags or ()):
            quorum = (one.props or {}).get(_QUORUM)
            yield DefinedVolume(printable(one.name), quorum != "off" if quorum else None)


def storage(
    nodes: Iterable[NodeView],
    replicas: Iterable[ReplicaView],
    pools: Iterable[PoolView],
    defined: Iterable[DefinedVolume] = (),
) -> StorageFacts:
    """Return what these answers say together."""
    listed = tuple(nodes)
    online = {one.name for one in listed if one.connection_status == ONLINE}
    return StorageFacts(
        tuple(_node(one) for one in listed),
        tuple(_replica(one, online) for one in replicas),
        tuple(_pool(one) for one in pools if one.provider_kind != "DISKLESS"),
        defined=tuple(defined),
    )


def _node(view: NodeView) -> StorageNode:
    flags = _LEAVING_NODE.intersection(view.flags or ())
    said = " ".join([view.connection_status or "not connected", *sorted(flags)])
    return StorageNode(
        printable(view.name), view.connection_status == ONLINE, printable(said, 100), bool(flags)
    )


def _replica(view: ReplicaView, online: Collection[str]) -> Replica:
    drbd = view.layer_object.drbd if view.layer_object else None
    # Reports about a node that is away, or not known any more, are from another time.
    known = view.state is not None and view.node_name in online
    return Replica(
        printable(view.name),
        printable(view.node_name),
        kind_of(view.flags or ()),
        known,
        view.state.in_use if view.state and known else None,
        tuple(_volume(one) for one in view.volumes or ()) if known else (),
        {
            printable(peer): "Connected" if one.connected else printable(one.message, 63) or "not connected"
            for peer, one in ((drbd.connections if drbd else None) or {}).items()
        },
        drbd is None or drbd.promotion_score != 0,
    )


def _volume(view: VolumeView) -> ReplicaVolume:
    state = view.state or VolumeState()
    peers = state.replication_states or {}
    return ReplicaVolume(
        view.volume_number,
        printable(state.disk_state, 63),
        printable(view.storage_pool_name),
        {peer: printable(one.replication_state, 63) for peer, one in peers.items()},
        {peer: one.done_percentage for peer, one in peers.items() if one.done_percentage is not None},
    )


def _pool(view: PoolView) -> StoragePool:
    said = "; ".join(one.message for one in view.reports or () if one.message)
    return StoragePool(
        printable(view.storage_pool_name),
        printable(view.node_name),
        view.free_capacity,
        view.total_capacity,
        view.supports_snapshots,
        printable(said, 200),
    )
