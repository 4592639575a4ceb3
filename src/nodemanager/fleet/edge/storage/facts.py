"""What a storage backend reports about nodes, pools and volumes, as far as it matters here. Pure.

Unknown values stay empty: a replica without a state has none, and never counts as good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

UP_TO_DATE: Final = "UpToDate"
INCONSISTENT: Final = "Inconsistent"
OUTDATED: Final = "Outdated"
DISKLESS: Final = "Diskless"
ESTABLISHED: Final = "Established"
STANDALONE: Final = "StandAlone"
AT_REST: Final = (ESTABLISHED, "VerifyS", "VerifyT")
"""States of two copies that have the same data; a verify only compares them."""

DISKFUL: Final = "diskful"
CLIENT: Final = "client"
TIE_BREAKER: Final = "tie-breaker"
LEAVING: Final = "leaving"
"""The replica is about to be deleted, or moved away: it does not count any more."""


@dataclass(frozen=True, slots=True)
class StorageNode:
    """A node, as the backend knows it."""

    name: str
    online: bool = True
    said: str = ""
    """The state in the words of the backend."""
    leaving: bool = False
    """Whether the node is being emptied, or was given up."""


@dataclass(frozen=True, slots=True)
class ReplicaVolume:
    """A volume of a replica."""

    number: int = 0
    disk: str = ""
    """The state of its disk; empty: not known."""
    pool: str = ""
    replication: Mapping[str, str] = field(default_factory=dict)
    """The state of the replication, by peer."""
    done: Mapping[str, float] = field(default_factory=dict)
    """How much of a resync is done in per cent, by peer."""


@dataclass(frozen=True, slots=True)
class Replica:
    """The copy of a resource on a node."""

    resource: str
    node: str
    kind: str = DISKFUL
    known: bool = True
    """Whether its state is known: its node may be away."""
    in_use: bool | None = None
    volumes: tuple[ReplicaVolume, ...] = ()
    connections: Mapping[str, str] = field(default_factory=dict)
    """The state of the connection by peer; Connected is good."""
    promotable: bool = True
    """Whether it could be used, in the judgement of the backend."""


@dataclass(frozen=True, slots=True)
class StoragePool:
    """A place where a node keeps volumes."""

    name: str
    node: str
    free_kib: int | None = None
    total_kib: int | None = None
    snapshots: bool = False
    fault: str = ""


class DefinedVolume(NamedTuple):
    """A resource that should exist somewhere."""

    name: str
    quorum: bool | None = None
    """Whether copies write only while they see enough of the others; None: not known."""


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """Everything that one look at a backend saw."""

    nodes: tuple[StorageNode, ...] = ()
    replicas: tuple[Replica, ...] = ()
    pools: tuple[StoragePool, ...] = ()
    faults: tuple[str, ...] = ()
    """Other faults, for people."""
    unknown: tuple[str, ...] = ()
    """What else is not known, for people."""
    sees_replicas: bool = True
    """Whether this backend reports replicas at all: some parts of a backend do not."""
    defined: tuple[DefinedVolume, ...] = ()
    """The resources that should exist: some of them may have no replica at all."""
    note: str = ""
    """Other notes, for people."""

    def resources(self) -> dict[str, list[Replica]]:
        """Return the replicas of each resource, possibly none."""
        found: dict[str, list[Replica]] = {one.name: [] for one in self.defined}
        for one in self.replicas:
            found.setdefault(one.resource, []).append(one)
        return found

    def diskful(self, resource: str) -> list[Replica]:
        """Return the replicas of a resource that have its data, or will soon have it."""
        return [one for one in self.replicas if one.resource == resource and one.kind == DISKFUL]
