"""What other sources report about a node: its pools, its Node of Kubernetes, its task. Pure.

Nothing here decides how the site is: pools are judged with the storage, and a taint is no fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from nodemanager.api.common import managednode
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import FRESH, EdgeNode
from nodemanager.api.edge.node_reports import (
    MAX_POOLS,
    MAX_TAINTS,
    NodePool,
    NodeWork,
    ToldNode,
)
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.fleet.edge import findings
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.facts import Read
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.parts import PartFacts
from nodemanager.fleet.edge.storage.facts import StorageFacts, StoragePool

NAME: Final = "Nodes of Kubernetes"
"""The name of this source, for people."""
RUNNING: Final = "Running"
UNKNOWN_PHASE: Final = "Unknown"
_STEP: Final = 63
"""Longest name of a step."""
_NOT_ASKED: Final = Read("Unanswered", message="nobody has asked for it yet")


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A Node that was asked for."""

    read: Read = field(default_factory=Read)
    taints: Sequence[str] = ()
    unschedulable: bool = False


KubernetesNodes = Mapping[str, SeenNode]
"""Nodes by name, where the profile has them looked at."""


def content(nodes: KubernetesNodes) -> Read:
    """Return the answer for all of them, with a digest that tells it from another answer."""
    bad = [one.read for _, one in sorted(nodes.items()) if one.read.answer != FRESH]
    if bad:
        return bad[0]
    return Read(data={name: f"{one.unschedulable} {list(one.taints)}" for name, one in nodes.items()})


def added(
    nodes: Iterable[EdgeNode], storage: PartFacts | None, kubernetes: KubernetesNodes | None
) -> list[EdgeNode]:
    """Return nodes with their pools and their Kubernetes Nodes, as far as these were read."""
    seen = storage.storage if storage is not None and storage.read.answer == FRESH else None
    return [
        msgspec.structs.replace(one, pools=_pools(one.name, seen), kubernetes=_node(one.name, kubernetes))
        for one in nodes
    ]


def judge(nodes: Sequence[EdgeNode], kubernetes: KubernetesNodes | None, said: Findings) -> None:
    """Report the nodes whose Kubernetes Node could not be read."""
    if kubernetes is None:
        return
    reads = {one.name: kubernetes.get(one.name, SeenNode(_NOT_ASKED)).read for one in nodes}
    unread = {name: read for name, read in reads.items() if read.answer != FRESH}
    if unread:
        texts = "; ".join(f"{name}: {read.message or read.answer}" for name, read in unread.items())
        said.untold(findings.NODES_SEEN, f"Node{next(iter(unread.values())).answer}", texts)
    else:
        said.good(findings.NODES_SEEN)


def _pools(name: str, seen: StorageFacts | None) -> list[NodePool]:
    if seen is None:
        return []
    online = {one.name for one in seen.nodes if one.online}
    found = {one.name: one for one in seen.pools if one.node == name}
    return [_pool(one, online) for _, one in sorted(found.items())[:MAX_POOLS]]


def _pool(pool: StoragePool, online: Collection[str]) -> NodePool:
    if pool.node not in online:  # the known values are from another time
        return NodePool(name=pool.name, fault="its node is away")
    return NodePool(
        name=pool.name, free_ki_bytes=pool.free_kib, total_ki_bytes=pool.total_kib, fault=pool.fault
    )


def _node(name: str, kubernetes: KubernetesNodes | None) -> ToldNode | None:
    if kubernetes is None:
        return None
    seen = kubernetes.get(name, SeenNode(_NOT_ASKED))
    if seen.read.answer != FRESH:
        return ToldNode(state=seen.read.answer)
    taints = list(seen.taints)
    if len(taints) > MAX_TAINTS:
        taints = [*taints[: MAX_TAINTS - 1], f"and {len(taints) - MAX_TAINTS + 1} more"]
    return ToldNode(state=FRESH, unschedulable=seen.unschedulable, taints=taints)


def steady(node: EdgeNode) -> EdgeNode:
    """Return a node without values that change with every look, such as the free space of its pools."""
    pools = [msgspec.structs.replace(one, free_ki_bytes=None) for one in node.pools]
    return msgspec.structs.replace(node, pools=pools)


def work(tasks: Iterable[NodeTask], hosts: Mapping[str, ManagedNode]) -> dict[str, NodeWork]:
    """Return the current task of each host: the one that has begun, else the first one that waits."""
    found: dict[str, NodeTask] = {}
    for one in sorted(tasks, key=_order):
        found.setdefault(one.spec.node_name, one)
    return {host: _work(one, hosts.get(host)) for host, one in found.items()}


def _order(one: NodeTask) -> tuple[bool, str, str]:
    return one.status.phase != RUNNING, one.metadata.creation_timestamp or "", one.metadata.name


def _work(one: NodeTask, host: ManagedNode | None) -> NodeWork:
    name, status = one.metadata.name, one.status
    if status.phase and (host is None or managednode.is_silent(host)):
        return NodeWork(name=name, phase=UNKNOWN_PHASE)  # a silent host's last report may be old
    return NodeWork(name=name, phase=status.phase, step=printable(status.step, _STEP))
