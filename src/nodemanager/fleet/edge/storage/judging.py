"""Whether the storage of a site is well: all of it must be known, and all that is known must be good. Pure.

A resource is replicated and well when each node is online and each replica has a state, enough of them
have the data, every disk is UpToDate, and every pair is connected and at rest. Blocks that differ between
two such disks are only seen by the hosts, so the backend cannot promise more than this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.fleet.edge.storage import facts
from nodemanager.fleet.edge.storage.facts import Replica, ReplicaVolume, StorageFacts
from nodemanager.kube.wording import plural

MAX_COPIES: Final = 32
"""DRBD connects no more copies than this, and every pair of them is looked at."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted storage of a site."""

    copies: int = 1
    """On how many nodes each resource should be, if the site has so many."""
    nodes: Collection[str] = ()
    """The nodes that should be there; empty: those that the backend knows."""
    free_percent: int = 0
    """How much should be free in each of these pools."""
    pools: Collection[str] = ()
    """The pools that every node should have; empty: any pools."""


@dataclass(frozen=True, slots=True)
class StorageVerdict:
    """The state of the storage (one of PartHealth), and why, the worst first."""

    state: str
    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    summary: str = ""

    @property
    def text(self) -> str:
        """The text for people."""
        return "; ".join([*self.faults, *self.unknown]) or self.summary


def judge(seen: StorageFacts, wanted: Wanted) -> StorageVerdict:
    """Judge the storage of a site."""
    faults = [*seen.faults, *_node_faults(seen, wanted), *_pool_faults(seen, wanted)]
    unknown = list(seen.unknown)
    if seen.sees_replicas and not seen.nodes:
        unknown.append("the storage knows no node at all: it is new, or not the one of this site")
    for name, replicas in sorted(seen.resources().items()):
        found = judge_resource(name, replicas, min(wanted.copies, max(1, len(seen.nodes))))
        faults += found.faults
        unknown += found.unknown
    faults += _quorum_faults(seen)
    state = UNHEALTHY if faults else UNKNOWN if unknown else HEALTHY if seen.sees_replicas else NOT_OBSERVED
    return StorageVerdict(state, tuple(faults), tuple(unknown), _summary(seen))


def judge_resource(name: str, replicas: Sequence[Replica], copies: int) -> StorageVerdict:
    """Report the state of one resource, given how many copies it should have."""
    holders = [one for one in replicas if one.kind == facts.DISKFUL]
    faults: list[str] = []
    unknown = [f"{name}: the state of the replica on {one.node} is not known"
               for one in replicas if not one.known]  # fmt: skip
    if len(holders) < copies:
        faults.append(f"{name} has {len(holders)} of {copies} copies")
    for one in holders:
        if one.known:
            faults += _replica_faults(name, one)
            unknown += [
                f"{name}: the disk on {one.node} has no state" for volume in one.volumes if not volume.disk
            ]
            if not one.volumes:
                unknown.append(f"{name}: nothing is said of the disk on {one.node}")
    if len(holders) > MAX_COPIES:
        faults.append(f"{name} has {len(holders)} copies, of which {MAX_COPIES} at most can be joined")
    faults += pair_faults(name, [one for one in holders if one.known][:MAX_COPIES])
    state = UNHEALTHY if faults else UNKNOWN if unknown else HEALTHY
    return StorageVerdict(state, tuple(faults), tuple(unknown))


def _replica_faults(name: str, one: Replica) -> Iterator[str]:
    where = f"{name}: the disk on {one.node}"
    for volume in one.volumes:
        if volume.disk in ("", facts.UP_TO_DATE):
            continue
        if volume.disk == facts.INCONSISTENT:
            done = _progress(volume)
            yield (
                f"{where} is syncing{done}"
                if _moves(volume)
                else f"{where} is Inconsistent, and does not sync"
            )
        elif volume.disk == facts.DISKLESS:
            yield f"{where} is lost: it is Diskless, and should not be"
        elif volume.disk == facts.OUTDATED:
            yield f"{where} is Outdated: it must not be used"
        else:
            yield f"{where} is {volume.disk}"
    if not one.promotable and all(volume.disk == facts.UP_TO_DATE for volume in one.volumes):
        yield f"{name}: {one.node} could not use it now"


def _moves(volume: ReplicaVolume) -> bool:
    return any(state in ("SyncTarget", "StartingSyncT", "WFBitMapT", "WFSyncUUID")
               for state in volume.replication.values())  # fmt: skip


def _progress(volume: ReplicaVolume) -> str:
    return f", {min(volume.done.values()):.0f} % done" if volume.done else ""


def pair_faults(name: str, holders: Sequence[Replica]) -> Iterator[str]:
    """Look at every pair from both sides, because the report of one side about itself proves nothing."""
    for one, other in combinations(holders, 2):
        states = [one.connections.get(other.node, ""), other.connections.get(one.node, "")]
        pair = f"{one.node} and {other.node}"
        if states == [facts.STANDALONE, facts.STANDALONE]:
            yield f"{name}: {pair} both stand alone: split brain is suspected, and a person has to decide"
        elif any(state != "Connected" for state in states):
            bad = next(state for state in states if state != "Connected")
            yield f"{name}: {pair} are not connected ({bad or 'nothing is said of it'})"
        else:
            yield from _replication_faults(name, one, other)
            yield from _replication_faults(name, other, one)


def _replication_faults(name: str, one: Replica, other: Replica) -> Iterator[str]:
    for volume in one.volumes:
        said = volume.replication.get(other.node, "")
        if volume.disk == facts.UP_TO_DATE and said not in facts.AT_REST:
            yield f"{name}: {one.node} with {other.node} is {said or 'in no known state'}"


def _quorum_faults(seen: StorageFacts) -> Iterator[str]:
    """Yield resources without quorum that could have it: with three copies, or with two and a tie-breaker."""
    able = sum(node.online and not node.leaving for node in seen.nodes)
    found = seen.resources()
    for one in seen.defined:
        copies = sum(each.kind == facts.DISKFUL for each in found[one.name])
        if one.quorum is False and (copies > 2 or (copies == 2 and able > 2)):
            yield f"{one.name}: its quorum is off, and two sides that lose each other may both write"


def _node_faults(seen: StorageFacts, wanted: Wanted) -> Iterator[str]:
    known = {one.name for one in seen.nodes}
    for name in sorted(set(wanted.nodes) - known):
        yield f"the storage knows no node {name}"
    for node in seen.nodes:
        if not node.online:
            yield f"node {node.name} is {node.said or 'not online'}"
        elif node.leaving:
            yield f"node {node.name} is being emptied ({node.said})"


def _pool_faults(seen: StorageFacts, wanted: Wanted) -> Iterator[str]:
    # LINSTOR treats names that differ only in case as the same.
    there = {(pool.node, pool.name.lower()) for pool in seen.pools}
    named = {name.lower() for name in wanted.pools}
    for node in seen.nodes if seen.sees_replicas else ():
        if node.name in (wanted.nodes or {node.name}):
            lacking = [name for name in wanted.pools if (node.name, name.lower()) not in there]
            yield from (f"no pool {name} on {node.name}" for name in lacking)
    for pool in seen.pools:
        if pool.fault:
            yield f"pool {pool.name} on {pool.node}: {pool.fault}"
        elif named and pool.name.lower() not in named:
            continue
        elif pool.total_kib and pool.free_kib is not None:
            free = 100 * pool.free_kib / pool.total_kib
            if free < wanted.free_percent:
                yield f"pool {pool.name} on {pool.node} has {free:.0f} % free of {wanted.free_percent} %"


def _summary(seen: StorageFacts) -> str:
    nodes = f"{sum(one.online for one in seen.nodes)}/{len(seen.nodes)} nodes"
    if not seen.sees_replicas:
        return f"{nodes}; {seen.note or 'nobody looks at replicas'}"
    holders = sum(one.kind == facts.DISKFUL for one in seen.replicas)
    volumes = plural(len(seen.resources()), "volume")
    return f"{nodes}, {volumes}, {plural(holders, 'copy', 'copies')}"
