"""Reports tasks to people: Events, metrics, the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.plan.tasks.admission import CLAIMED_ELSEWHERE, REFUSALS, RefusedTask
from nodemanager.plan.tasks.record import TaskPhase
from nodemanager.runtime.metrics import Registry

log = logging.getLogger(__name__)


class TaskNews:
    """Reports each event of tasks once; Events on the tasks themselves are the operator's."""

    def __init__(self, link: ApiLink, registry: Registry, running: Callable[[], bool]) -> None:
        self._link = link
        self._node = link.key.name
        self._refused: set[tuple[str, str]] = set()
        """Uids and reasons of tasks that this process refused."""
        self._total = registry.counter(
            "nodemanager_tasks_total", "Tasks of this host that ended, by phase.", ("node", "phase")
        )
        self._refusals = registry.counter(
            "nodemanager_tasks_refused_total",
            "Tasks that this host did not do, by reason.",
            ("node", "reason"),
        )
        for reason in REFUSALS:
            self._refusals.labels(self._node, reason)
        gauge = registry.gauge(
            "nodemanager_task_running", "1 = a task is being done, 0 = none is.", ("node",)
        )
        gauge.labels(self._node).set_function(lambda: float(running()))

    def refused(self, task: NodeTask, refused: RefusedTask) -> bool:
        """Count and tell that a task is not done; False = that was said before."""
        key = task.metadata.uid, refused.reason
        if key in self._refused:
            return False
        self._refused.add(key)
        self._refusals.labels(self._node, refused.reason).inc()
        log.warning("task %s is not done: %s: %s", task.metadata.name, refused.reason, refused.message)
        self._link.warn("TaskRefused", f"NodeTask {task.metadata.name}: {refused.message}")
        return True

    def lost(self, entry: Entry) -> None:
        """Count and tell that another agent was first."""
        self._refused.add((entry.record.uid, CLAIMED_ELSEWHERE))
        self._refusals.labels(self._node, CLAIMED_ELSEWHERE).inc()
        log.warning("task %s is not done: another agent of this name has taken it", entry.name)

    def started(self, entry: Entry) -> None:
        """Tell that a task begins."""
        log.info("task %s begins", entry.name)
        steps = ", ".join(step.name for step in entry.spec.steps)
        self._tell(entry, "TaskStarted", f"steps: {steps}", bad=False)

    def ended(self, entry: Entry) -> None:
        """Tell how a task ended."""
        phase = entry.record.phase
        self._total.labels(self._node, phase).inc()
        bad = phase is not TaskPhase.SUCCEEDED
        self._tell(entry, f"Task{phase}", entry.record.message or "all steps are done", bad=bad)

    def _tell(self, entry: Entry, reason: str, message: str, *, bad: bool) -> None:
        events = self._link.events
        send = events.warning if bad else events.normal
        if (own := self._link.nodes.get(self._link.key)) is not None:
            send(MANAGED_NODES, own, reason, f"NodeTask {entry.name}: {message}")
