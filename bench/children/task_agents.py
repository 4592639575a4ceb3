"""Agents that only claim tasks and report, of all hosts at once; ends when its input does.

python -m bench.children.task_agents KUBECONFIG NAMESPACE
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.children import until_input_ends
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.host.process import runner
from nodemanager.kube import times
from nodemanager.kube.core import LEASES
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change

AT_ONCE = 24
BEATS = (1.0, 3.0, 6.0, 15.0)
"""Seconds between the first signs of life after a task."""
BEAT = 30.0
"""The same of those that follow, until the visit is over."""
STAY = 450.0
"""Seconds between two signs of life of a host that waits: an operator believes no Lease for over 600."""


@dataclass
class TaskAgents:
    """The agents of all hosts of a namespace."""

    client: Client
    namespace: str
    hosts: Cache[ManagedNode]
    reports: int = 0
    done: int = 0
    _beating: set[asyncio.Task[None]] = field(default_factory=set)
    _queue: asyncio.Queue[NodeTask] = field(default_factory=asyncio.Queue)

    def hear(self, change: Change[NodeTask]) -> None:
        """Take a task that is new."""
        if change.old is None and change.new is not None and not change.new.status.phase:
            self._queue.put_nowait(change.new)

    async def work(self) -> None:
        """Do task by task: claim it, report that it succeeded, and live on."""
        while True:
            task = await self._queue.get()
            now = times.rfc3339(datetime.now(UTC))
            claim = {"agent": "a", "bootID": "b", "time": now, "fencingToken": task.spec.fencing_token}
            await self._report(task, {"phase": "Running", "claim": claim})
            steps = [
                {"name": step.name, "phase": "Succeeded", "attempts": 1, "startedAt": now, "finishedAt": now}
                for step in task.spec.steps
            ]
            await self._report(task, {"phase": "Succeeded", "finishedAt": now, "steps": steps})
            self.done += 1
            beats = asyncio.create_task(self._live(task.spec.node_name))
            self._beating.add(beats)
            beats.add_done_callback(self._beating.discard)

    async def _live(self, host: str) -> None:
        """Give signs of life: a host is proven by one that comes after the operator has seen its report."""
        for pause in itertools.chain(BEATS, itertools.repeat(BEAT)):
            await asyncio.sleep(pause)
            if self._is_over(host):
                return
            await self._beat(host)

    async def stay(self) -> None:
        """Give signs of life of all hosts, one after the other and evenly."""
        while True:
            names = [host.metadata.name for host in self.hosts.values()]
            for host in names:
                await self._beat(host)
                await asyncio.sleep(STAY / len(names))
            if not names:
                await asyncio.sleep(1.0)  # until the list is there

    async def _beat(self, host: str) -> None:
        beat = MergePatch({"spec": {"renewTime": times.rfc3339_micro(datetime.now(UTC))}})
        await self.client.patch(LEASES, f"nodemanager-{host}", self.namespace, beat)

    def _is_over(self, host: str) -> bool:
        node = self.hosts.get(ObjectKey(self.namespace, host))
        claim = claims.decode(node.metadata.annotations.get(ANNOTATION_VISIT)) if node else None
        return not isinstance(claim, Claim) or claim.state.is_end

    async def _report(self, task: NodeTask, status: dict[str, Any]) -> None:
        self.reports += 1
        body = MergePatch({"status": status})
        await self.client.patch(NODE_TASKS, task.metadata.name, self.namespace, body, subresource="status")


async def main(kubeconfig: str, namespace: str) -> None:
    """Work until nobody wants it any more, and say how much that was."""
    client = Client(HttpTransport(load.discover(path=kubeconfig, environ={}, run=runner.run)))
    hosts = Cache(client, MANAGED_NODES, Selection(namespace))
    agents = TaskAgents(client, namespace, hosts)
    cache = Cache(client, NODE_TASKS, Selection(namespace))
    cache.subscribe(agents.hear)
    work = [agents.work() for _ in range(AT_ONCE)]
    await until_input_ends.run(cache.run(), hosts.run(), agents.stay(), *work)
    await client.close()
    print(json.dumps({"reports": agents.reports, "done": agents.done}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
