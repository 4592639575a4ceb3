"""Indexes of tasks in a cache: by host, by phase, and by run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nodemanager.api.maintenance.nodetask import PHASES, RUN, NodeTask, is_ended

BY_NODE: Final = "node"
BY_PHASE: Final = "phase"
UNFINISHED: Final = "unfinished tasks of a run"


def by_node(task: NodeTask) -> Iterable[str]:
    """Index tasks by the host that they are for."""
    return (task.spec.node_name,)


def by_phase(task: NodeTask) -> Iterable[str]:
    """Index tasks by their phase; a task that no agent has taken is Pending."""
    return (task.status.phase or PHASES[0],)


def unfinished(task: NodeTask) -> Iterable[str]:
    """Index tasks that have not ended by their run."""
    run = task.metadata.labels.get(RUN, "")
    return (run,) if run and not is_ended(task.status) else ()
