"""Agents of all hosts at once that take the revision that is theirs, and report it, until the input ends.

python -m bench.children.rollout_agents KUBECONFIG NAMESPACE BROKEN

With the revision of the number BROKEN they fail.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field

import msgspec

from bench.children import until_input_ends
from nodemanager.api.common import choosing
from nodemanager.api.common.choosing import ContentSource
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, AppliedConfigSet
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.cache import Cache, Change

AT_ONCE = 24


@dataclass
class RolloutAgents:
    """The agents of all hosts of a namespace."""

    client: Client
    namespace: str
    broken: int
    hosts: list[ObjectMeta]
    reports: int = 0
    last: dict[str, float] = field(default_factory=dict)
    """When the last report of a stage, by revision and stage, was taken."""
    _has: dict[str, str] = field(default_factory=dict)
    """The digest that a host has."""
    _queue: asyncio.Queue[tuple[str, ConfigSet, AppliedConfigSet]] = field(default_factory=asyncio.Queue)

    def hear(self, change: Change[ConfigSet]) -> None:
        """Have every host take what is its own now."""
        if (config_set := change.new) is None:
            return
        for host in self.hosts:
            choice = choosing.chosen(config_set, host)
            if choice.content is not ContentSource.REVISION or choice.revision is None:
                continue
            ref = choice.revision
            if self._has.get(host.name) != ref.digest:
                self._has[host.name] = ref.digest
                failed = "it failed" if ref.revision == self.broken else ""
                said = AppliedConfigSet(
                    name=config_set.metadata.name, observed_generation=config_set.metadata.generation,
                    revision=ref.revision, digest=ref.digest, error=failed,
                )  # fmt: skip
                self._queue.put_nowait((host.name, config_set, said))

    async def work(self) -> None:
        """Report, host by host."""
        while True:
            host, config_set, said = await self._queue.get()
            body = {"status": {"release": "6.1", "configsets": msgspec.to_builtins([said])}}
            await self.client.patch(
                MANAGED_NODES, host, self.namespace, MergePatch(body), subresource="status"
            )
            self.reports += 1
            stage = (config_set.status.rollout or RolloutStatus()).stage
            self.last[f"{said.revision}/{stage}"] = time.monotonic()


async def main(kubeconfig: str, namespace: str, broken: str) -> None:
    """Work until nobody wants it any more, and say how much that was."""
    client = Client(HttpTransport(load.discover(path=kubeconfig, environ={}, run=runner.run)))
    nodes = (await client.list(MANAGED_NODES, Selection(namespace))).items
    agents = RolloutAgents(client, namespace, int(broken), [one.metadata for one in nodes])
    cache = Cache(client, CONFIG_SETS, Selection(namespace))
    cache.subscribe(agents.hear)
    await until_input_ends.run(cache.run(), *(agents.work() for _ in range(AT_ONCE)))
    await client.close()
    print(json.dumps({"reports": agents.reports, "last": agents.last}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
