"""What a storage backend says of its nodes, pools and volumes, as far as anything follows from it. Pure.

What is not known is not filled in: a replica without a state has none, and is never taken for a good one.
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
"""What two copies are at that have the same data; a verify only compares them."""

DISKFUL: Final = "diskful"
CLIENT: Final = "client"
TIE_BREAKER: Final = "tie-breaker"
LEAVING: Final = "leaving"
"""It is about to be deleted, or moved away: it counts no more."""


@dataclass(frozen=True, slots=True)
class StorageNode:
    """A node, as the backend knows it."""

    name: str
    online: bool = True
    said: str = ""
    """Its state in the words of the backend."""
    leaving: bool = False
    """It is being emptied, or was given up."""


@dataclass(frozen=True, slots=True)
class ReplicaVolume:
    """A volume of a replica."""

    number: int = 0
    disk: str = ""
    """State of its disk; empty: not known."""
    pool: str = ""
    replication: Mapping[str, str] = field(default_factory=dict)
    """By peer: what goes on between the two."""
    done: Mapping[str, float] = field(default_factory=dict)
    """By peer: how much of a resync is done, in per cent."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What a node has of a resource."""

    resource: str
    node: str
    kind: str = DISKFUL
    known: bool = True
    """Whether anybody knows its state: its node may be away."""
    in_use: bool | None = None
    volumes: tuple[ReplicaVolume, ...] = ()
    connections: Mapping[str, str] = field(default_factory=dict)
    """By peer: the state of the connection, Connected where it is good."""
    promotable: bool = True
    """Whether it could be used, as the backend reckons."""


@dataclass(frozen=True, slots=True)
class StoragePool:
    """Where a node keeps volumes."""

    name: str
    node: str
    free_kib: int | None = None
    total_kib: int | None = None
    snapshots: bool = False
    fault: str = ""


class DefinedVolume(NamedTuple):
    """A resource that shall be somewhere."""

    name: str
    quorum: bool | None = None
    """Whether copies write only while they see enough of the others; None: nobody says."""


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """All that one look at a backend has seen."""

    nodes: tuple[StorageNode, ...] = ()
    replicas: tuple[Replica, ...] = ()
    pools: tuple[StoragePool, ...] = ()
    faults: tuple[str, ...] = ()
    """What else is wrong, for people."""
    unknown: tuple[str, ...] = ()
    """What else is not known, for people."""
    sees_replicas: bool = True
    """Whether this backend tells of replicas at all: not every part of one does."""
    defined: tuple[DefinedVolume, ...] = ()
    """What shall be there: of some of it there may be no replica at all."""
    note: str = ""
    """What else people may want to know."""

    def resources(self) -> dict[str, list[Replica]]:
        """Return the replicas of each resource, which may be none."""
        found: dict[str, list[Replica]] = {one.name: [] for one in self.defined}
        for one in self.replicas:
            found.setdefault(one.resource, []).append(one)
        return found

    def diskful(self, resource: str) -> list[Replica]:
        """Return the replicas of a resource that have its data, or are about to get it."""
        return [one for one in self.replicas if one.resource == resource and one.kind == DISKFUL]
