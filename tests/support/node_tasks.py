"""NodeTasks as the operator makes them, for tests of the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from nodemanager.api.maintenance.nodetask import NODE, NODE_TASKS, NodeTask, node_label
from nodemanager.client.patches import MergePatch
from nodemanager.kube import errors, times
from support.accounts import operating
from support.agent_process import PATIENCE, Api


def moment(**later: float) -> str:
    return times.rfc3339(datetime.now(UTC) + timedelta(**later))


def shell(name: str, script: str, **more: Any) -> dict[str, Any]:
    """Return a step that runs a script; it finds what folder hosts have."""
    return {"name": name, "execution": {"argv": ["/bin/sh", "-c", script]}, **more}


@dataclass
class Tasks:
    """The tasks of one namespace; each that is made has a higher token than all before it."""

    api: Api
    host: str = "web1"
    token: int = field(default=0)

    async def make(self, name: str, *steps: dict[str, Any], **spec: Any) -> NodeTask:
        """Create a task for the host."""
        self.token += 1
        labels = {NODE: node_label(spec.pop("labelled", self.host))}
        meta = {"name": name, "namespace": self.api.namespace, "labels": labels}
        given = {"nodeName": self.host, "deadline": moment(hours=1), "fencingToken": self.token, **spec}
        body = {"metadata": meta, "spec": {**given, "steps": list(steps)}}
        async with operating(self.api) as operator:
            return await operator.create(NODE_TASKS, body, self.api.namespace)

    async def delete(self, name: str) -> None:
        async with operating(self.api) as operator:
            await operator.delete(NODE_TASKS, name, self.api.namespace)

    async def get(self, name: str) -> NodeTask:
        return await self.api.client.get(NODE_TASKS, name, self.api.namespace)

    async def write_status(self, name: str, status: dict[str, Any] | None) -> None:
        """Write a status as somebody who may do everything; None takes away all that there is."""
        patch = MergePatch({"status": status})
        await self.api.client.patch(NODE_TASKS, name, self.api.namespace, patch, subresource="status")

    async def until(self, name: str, holds: Callable[[NodeTask], object]) -> NodeTask:
        """Wait until something is true of a task."""
        task = NodeTask()
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        task = await self.get(name)
                        if holds(task):
                            return task
                    except errors.KubeError:
                        pass
                    await asyncio.sleep(0.06)
        except TimeoutError:
            raise AssertionError(f"never came true; the last status is {task.status}") from None

    async def ended(self, name: str, phase: str) -> NodeTask:
        """Wait until a task has ended, in this phase."""
        task = await self.until(name, lambda one: one.status.finished_at)
        assert task.status.phase == phase, task.status
        return task


def phases(task: NodeTask) -> Sequence[str]:
    return [step.phase for step in task.status.steps]
