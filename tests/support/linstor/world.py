"""The truth about a LINSTOR cluster of a test: nodes, pools, resources with replicas, and time."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from support.linstor import codes
from support.linstor.codes import MODIFY, NODE, Line, Refusal

THIN = frozenset({"LVM_THIN", "ZFS", "ZFS_THIN", "FILE_THIN"})
"""Pools that can take snapshots."""
STAGES = ("new", "Diskless", "Attaching", "Negotiating")
"""What a replica goes through before it has data, a second each; a new one has no state at all."""
FULL_SPEED = 102_400.0
"""KiB a second over a link that is well."""
AUTO_EVICT_MINUTES = 60.0
_GONE = frozenset({"DELETE"})


@dataclass
class Node:
    name: str
    online: bool = True
    status: str = ""
    """What to say in the place of ONLINE or OFFLINE."""
    flags: set[str] = field(default_factory=set)
    props: dict[str, str] = field(default_factory=dict)
    interfaces: dict[str, str] = field(default_factory=lambda: {"default": "10.0.0.1"})
    offline_since: float = 0.0

    @property
    def connection(self) -> str:
        return self.status or ("ONLINE" if self.online else "OFFLINE")

    @property
    def placeable(self) -> bool:
        leaving = self.flags & {"EVACUATE", "EVICTED", "DELETE"}
        return self.connection == "ONLINE" and not leaving and self.props.get("AutoplaceTarget") != "false"


@dataclass
class Pool:
    name: str
    node: str
    kind: str = "LVM_THIN"
    total: int = 100 * 1024 * 1024
    free: int = 100 * 1024 * 1024


@dataclass
class Replica:
    node: str
    pool: str = ""
    flags: set[str] = field(default_factory=set)
    stage: str = "new"
    since: float = 0.0
    synced: float = 0.0
    """KiB that it has of the data."""
    in_use: bool = False
    forced: str = ""
    """A state of its disk that does not go away: Failed, Outdated, Inconsistent."""
    fed: str | None = None
    """What a real DRBD says of its disk; empty: it says nothing of it."""
    replaced_by: str = ""

    @property
    def diskful(self) -> bool:
        return not self.flags & {"DISKLESS", "DRBD_DISKLESS", "TIE_BREAKER"}

    @property
    def disk(self) -> str:
        """State of its disk as DRBD says it; empty: nobody knows yet."""
        if self.fed is not None:
            return self.fed
        if self.forced:
            return self.forced
        if not self.diskful:
            return "Diskless"
        return "" if self.stage == "new" else self.stage


class FedLink(NamedTuple):
    """What a real DRBD says of its peer."""

    connection: str = "StandAlone"
    replication: str = "Off"
    done: float | None = None
    """Percent, while a resync or a verify is under way."""


@dataclass
class Snapshot:
    name: str
    nodes: list[str]
    since: float
    flags: set[str] = field(default_factory=set)


@dataclass
class Definition:
    name: str
    group: str
    size: int
    """KiB."""
    drbd: bool = True
    peer_slots: int = 7
    props: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    replicas: dict[str, Replica] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    clones: dict[str, float] = field(default_factory=dict)
    """By name: when it was begun."""
    spoilt: set[str] = field(default_factory=set)
    """Clones that fail."""
    standalone: set[frozenset[str]] = field(default_factory=set)
    """Pairs of nodes that do not speak with each other any more."""
    fed_links: dict[tuple[str, str], FedLink] = field(default_factory=dict)
    """By node and peer."""

    def holders(self) -> list[Replica]:
        return [one for one in self.replicas.values() if one.diskful and not one.flags & _GONE]


@dataclass
class Group:
    name: str
    place_count: int = 2
    storage_pool: str = ""
    props: dict[str, str] = field(default_factory=dict)


@dataclass
class LinstorWorld:
    """A cluster. Use `support.linstor.syncing.advance` to let time go by."""

    now: float = 0.0
    nodes: dict[str, Node] = field(default_factory=dict)
    pools: list[Pool] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=lambda: {"DfltRscGrp": Group("DfltRscGrp")})
    definitions: dict[str, Definition] = field(default_factory=dict)
    props: dict[str, str] = field(default_factory=dict)
    connections: dict[frozenset[str], dict[str, str]] = field(default_factory=dict)
    """Properties of pairs of nodes."""
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    speeds: dict[frozenset[str], float] = field(default_factory=dict)
    """KiB a second between two nodes; a bond that was flipped at one end only lets nothing through."""
    blind_until: float = 0.0
    """The controller was restarted: it knows nothing of DRBD before that."""
    writes: int = 0

    def node(self, name: str) -> Node:
        if name not in self.nodes:
            raise Refusal(MODIFY, NODE, codes.NO_NODE, f"Node '{name}' not found.")
        return self.nodes[name]

    def definition(self, name: str) -> Definition:
        if name not in self.definitions:
            raise Refusal(MODIFY, codes.RSC_DFN, codes.NO_RSC_DFN, f"Resource definition '{name}' not found.")
        return self.definitions[name]

    def pool(self, node: str, name: str) -> Pool | None:
        return next((one for one in self.pools if one.node == node and one.name == name), None)

    def speed(self, one: str, other: str) -> float:
        return self.speeds.get(frozenset((one, other)), FULL_SPEED)

    def knows(self, node: str) -> bool:
        """Whether the controller knows the state of DRBD on a node."""
        return self.nodes[node].connection == "ONLINE" and self.now >= self.blind_until

    def silence(self, node: str) -> None:
        """Have a satellite be away."""
        self.nodes[node].online, self.nodes[node].offline_since = False, self.now

    def restart(self, seconds: float = 5.0) -> None:
        """Restart the controller: what satellites said is forgotten for a while."""
        self.blind_until = self.now + seconds

    def drop(self, definition: Definition, node: str) -> None:
        """Take a replica away, with what it occupies."""
        gone = definition.replicas.pop(node)
        if (pool := self.pool(node, gone.pool)) is not None:
            pool.free += definition.size

    def copy(self) -> LinstorWorld:
        return copy.deepcopy(self)


def offline_warning(node: Node) -> list[Line]:
    """Return what is said when a satellite that is concerned is away: it is told when it is back."""
    if node.connection == "ONLINE":
        return []
    text = f"No active connection to satellite '{node.name}'"
    return [codes.line(codes.WARN, MODIFY, NODE, codes.NOT_CONNECTED, text)]
