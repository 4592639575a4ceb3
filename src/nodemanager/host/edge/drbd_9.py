"""DRBD 9: many peers, and its state as JSON from drbdsetup; pure.

Keys that older tools lack are unknown, not false.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from nodemanager.api.common.edge_state import (
    DISKLESS,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdVolume,
)

STATUS: Final = ("drbdsetup", "status", "--json", "--statistics")
_WHY: Final = ("user", "no-data", "fencing", "quorum")


class _Kebab(msgspec.Struct, frozen=True, rename="kebab"):
    """Names in the output of drbdsetup have dashes."""


class _Device(_Kebab, frozen=True):
    volume: int
    minor: int = 0
    disk_state: str = ""
    client: bool | None = None
    quorum: bool | None = None


class _PeerDevice(_Kebab, frozen=True):
    volume: int
    replication_state: str = ""
    peer_disk_state: str = ""
    peer_client: bool | None = None
    resync_suspended: str = ""
    out_of_sync: int | None = None
    percent_resync_done: float | None = None


class _Connection(msgspec.Struct, frozen=True):
    node: int = msgspec.field(name="peer-node-id")
    name: str = ""
    state: str = msgspec.field(default="", name="connection-state")
    role: str = msgspec.field(default="", name="peer-role")
    devices: list[_PeerDevice] = msgspec.field(default_factory=list, name="peer_devices")


class _Resource(_Kebab, frozen=True):
    name: str
    role: str = ""
    suspended: bool | None = None
    devices: list[_Device] = []
    connections: list[_Connection] = []


def parse(output: bytes) -> list[DrbdResource]:
    """Return the resources that drbdsetup prints; raises msgspec.MsgspecError if that is something else."""
    raw = msgspec.json.decode(output or b"[]", type=list[dict[str, Any]])
    return [_resource(msgspec.convert(one, _Resource), one) for one in raw]


def _resource(found: _Resource, raw: dict[str, Any]) -> DrbdResource:
    why = [one for one in _WHY if raw.get(f"suspended-{one}") is True]
    known = found.suspended is not None or any(f"suspended-{one}" in raw for one in _WHY)
    suspended = ",".join(why) or ("user" if found.suspended else "no" if known else "")
    return DrbdResource(
        name=found.name, role=found.role, suspended=suspended,
        volumes=[DrbdVolume(volume=one.volume, minor=one.minor, disk=one.disk_state,
                            client=one.client if one.disk_state == DISKLESS else None, quorum=one.quorum)
                 for one in found.devices],
        peers=[_peer(one) for one in found.connections],
    )  # fmt: skip


def _peer(found: _Connection) -> DrbdPeer:
    name = found.name or f"node-{found.node}"
    volumes = [_volume(one) for one in found.devices]
    return DrbdPeer(name=name, node_id=found.node, connection=found.state, role=found.role, volumes=volumes)


def _volume(found: _PeerDevice) -> DrbdPeerVolume:
    done = found.percent_resync_done
    return DrbdPeerVolume(
        volume=found.volume, replication=found.replication_state, disk=found.peer_disk_state,
        client=found.peer_client if found.peer_disk_state == DISKLESS else None,
        out_of_sync=found.out_of_sync, resync_suspended=found.resync_suspended,
        done=None if done is None else max(0, min(int(done), 100)),
    )  # fmt: skip
