"""Tasks of a run stay as long as the run goes on, also if all of them have ended: they say who is done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nodemanager.api.maintenance.maintenance_status import NodeMaintenanceStatus, RunState
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_tasks.keeping import RunsGoingOn


def caches(unfinished: list[str], *running: NodeMaintenance) -> tuple[Any, Any]:
    tasks = SimpleNamespace(find=lambda _index, run: [run] if run in unfinished else [])
    return tasks, SimpleNamespace(values=lambda: list(running))


def test_a_run_goes_on_while_a_task_does_or_a_maintenance_says_so() -> None:
    waiting = NodeMaintenance(status=NodeMaintenanceStatus(run=RunState(id="waits")))
    known = RunsGoingOn(*caches(["works"], waiting, NodeMaintenance()))
    assert [run in known for run in ("works", "waits", "over", "")] == [True, True, False, False]
