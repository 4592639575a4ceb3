"""What the storage, Kubernetes and tasks tell of the nodes of a site, as rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodemanager.api.edge.edgecluster import EdgeNode
from nodemanager.api.edge.node_reports import FRESH, NodePool, NodeWork, ToldNode
from nodemanager.cli.views import output

COLUMNS: Final = ["NODE", "POOLS", "TAINTS", "TASK"]
_NONE: Final = "-"


def rows(nodes: Sequence[EdgeNode]) -> list[list[str]]:
    """Return all nodes, if anything of that is known of one of them, or shall be."""
    if not any(one.pools or one.kubernetes or one.work for one in nodes):
        return []
    return [
        [
            output.one_line(one.name, 63),
            ", ".join(map(_pool, one.pools)) or _NONE,
            _taints(one.kubernetes),
            _task(one.work),
        ]
        for one in nodes
    ]


def _pool(pool: NodePool) -> str:
    name = output.one_line(pool.name, 40)
    if pool.fault:
        return f"{name}: {output.one_line(pool.fault, 60)}"
    if pool.free_ki_bytes is None or not pool.total_ki_bytes:
        return f"{name} {output.UNKNOWN}"
    return f"{name} {100 * pool.free_ki_bytes // pool.total_ki_bytes}% free"


def _taints(node: ToldNode | None) -> str:
    if node is None:
        return _NONE
    if node.state != FRESH:
        return f"not known: {node.state}"
    found = ["cordoned"] if node.unschedulable else []
    return ", ".join([*found, *(output.one_line(one, 80) for one in node.taints)]) or "none"


def _task(work: NodeWork | None) -> str:
    if work is None:
        return _NONE
    step = f" at {output.one_line(work.step, 40)}" if work.step else ""
    return f"{output.one_line(work.name, 63)} {work.phase or 'waits'}{step}"
