"""Agents that only claim tasks and report: what becomes of each is up to the test.

They keep to what real ones promise: a task is taken once, by the host that it names, with a token above all
before it; what was reported is not taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask
from nodemanager.api.maintenance.task_steps import TaskStep
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors, times
from nodemanager.runtime.cache import Cache, Change

SUCCEEDED = "Succeeded"
HANG = "Hang"
"""Claimed, and nothing more."""
IGNORE = "Ignore"
"""Not even claimed."""


@dataclass
class PretendAgents:
    """The agents of all hosts of a namespace."""

    client: Client
    namespace: str
    behave: Callable[[NodeTask], str] = lambda _task: SUCCEEDED
    """The phase in which a task ends, or HANG or IGNORE."""
    taken: list[NodeTask] = field(default_factory=list)
    """In the order in which they were claimed."""
    tokens: dict[str, int] = field(default_factory=dict)
    boots: dict[str, int] = field(default_factory=dict)
    reboots: bool = True
    """Whether a reboot that is reported has happened."""
    running: dict[str, str] = field(default_factory=dict)
    """Hosts that have a task under way, by its name."""
    most: int = 0
    """How many hosts had a task under way at once, at most."""
    upgrades: dict[str, dict[str, str]] = field(default_factory=dict)
    """What previews tell, by host."""
    refused: list[str] = field(default_factory=list)
    _claimed: dict[str, str] = field(default_factory=dict)
    """The boot in which each task was taken, by uid."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def hosts(self) -> list[str]:
        """The hosts that took a task, in that order."""
        return [task.spec.node_name for task in self.taken]

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[PretendAgents]:
        """Let them work until the end of the block."""
        cache = Cache(self.client, NODE_TASKS, Selection(self.namespace))

        def hear(_change: Change[NodeTask]) -> None:
            self._wake.set()

        cache.subscribe(hear)
        parts = [asyncio.create_task(cache.run()), asyncio.create_task(self._run(cache))]
        try:
            await cache.synced()
            yield self
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    def look(self) -> None:
        """Look at all tasks again: the test behaves otherwise now."""
        self._wake.set()

    async def _run(self, cache: Cache[NodeTask]) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for task in cache.values():
                await self._look(task)

    async def _look(self, task: NodeTask) -> None:
        host, known = task.spec.node_name, {one.metadata.uid for one in self.taken}
        how = self.behave(task)
        if how == IGNORE or task.status.phase not in ("", "Pending", "Running"):
            return
        if task.metadata.uid not in known:
            if task.spec.fencing_token <= self.tokens.get(host, 0):
                self.refused.append(f"{host}: {task.spec.fencing_token} after {self.tokens[host]}")
                await self.report(task, "Refused", "its fencing token was seen before")
                return
            if host in self.running:
                self.refused.append(f"{host}: {task.metadata.name} while {self.running[host]}")
            self.tokens[host] = task.spec.fencing_token
            self.taken.append(task)
            self._claimed[task.metadata.uid] = self.boot(host)
            self.running[host] = task.metadata.name
            self.most = max(self.most, len(self.running))
            await self.report(task, "Running")
        if how != HANG:
            if self.reboots and any(step.reboot is not None for step in task.spec.steps):
                self.boots[host] = self.boots.get(host, 1) + 1
            self.running.pop(host, None)
            await self.report(task, how, "" if how == SUCCEEDED else f"told to be {how}")

    def _before(self, task: NodeTask) -> str:
        return self._claimed.get(task.metadata.uid, "")

    def _previewed(self, step: TaskStep, host: str) -> dict[str, Any]:
        found = self.upgrades.get(host, {})
        said = f"{len(found)} packages would be upgraded\n"
        return {} if step.preview is None else {"evidence": found, "output": said}

    def boot(self, host: str) -> str:
        """Return the boot ID of a host."""
        return f"boot-{self.boots.get(host, 1)}"

    async def report(self, task: NodeTask, phase: str, message: str = "") -> None:
        """Write the status of a task."""
        now = times.rfc3339(datetime.now(UTC))
        host = task.spec.node_name
        claim = {"agent": "a", "bootID": self.boot(host), "time": now,
                 "fencingToken": task.spec.fencing_token}  # fmt: skip
        done = "Succeeded" if phase == SUCCEEDED else "Failed" if phase == "Failed" else "Pending"
        booted = {"bootBefore": self._before(task), "bootAfter": self.boot(host)}
        steps: list[dict[str, Any]] = [
            {"name": step.name, "phase": done, "startedAt": now, "finishedAt": now,
             "changed": phase == SUCCEEDED,
             **({} if step.reboot is None else {"evidence": booted}), **self._previewed(step, host)}
            for step in task.spec.steps
        ]  # fmt: skip
        status = {"phase": phase, "message": message, "claim": claim, "steps": steps}
        if phase != "Running":
            status["finishedAt"] = now
        with contextlib.suppress(errors.NotFound):
            await self.client.patch(
                NODE_TASKS,
                task.metadata.name,
                self.namespace,
                MergePatch({"status": status}),
                subresource="status",
            )


async def join(client: Client, namespace: str, name: str, **labels: str) -> None:
    """Create a host that is alive and as it shall be."""
    await client.create(MANAGED_NODES, {"metadata": {"name": name, "labels": labels}}, namespace)
    await say(client, namespace, name, Alive="True", Ready="True")


async def say(client: Client, namespace: str, name: str, **conditions: str) -> None:
    """Have conditions of a host be these, and no others."""
    now = times.rfc3339(datetime.now(UTC))
    said = [
        {"type": kind, "status": status, "reason": "Told", "message": "", "lastTransitionTime": now}
        for kind, status in conditions.items()
    ]
    body = MergePatch({"status": {"conditions": said, "heartbeat": {"leaseName": f"nodemanager-{name}"}}})
    await client.patch(MANAGED_NODES, name, namespace, body, subresource="status")
