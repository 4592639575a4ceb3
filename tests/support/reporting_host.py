"""All of an agent that has to do with reporting; what it reports is made up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nodemanager.agent.declared.memory import Memory
from nodemanager.agent.drift.delivery import Delivery
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.link.api_reachability import ApiReachability, SecretLimits, UnixClocks
from nodemanager.agent.passes.host_state import HostState
from nodemanager.agent.report.host_inventory import HostInventory
from nodemanager.agent.report.host_report import HostReport
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.agent.report.status import Pass
from nodemanager.agent.report.status_writer import Contribution, EarlyPart, StatusWriter
from nodemanager.agent.requests import Requests
from nodemanager.api.common.managednode import MANAGED_NODES, DriftRecord, Interface, ManagedNode
from nodemanager.client.http.transport import Transport
from nodemanager.client.verbs import Client
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime import controller
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support.memory_host import Host
from support.root_tree import config_set

WHO = Identity("web1", "debian", (), "linux", "amd64", "6.1")
KEY = ObjectKey("n", "web1")
START = datetime(2026, 1, 1, tzinfo=UTC)
log = logging.getLogger("nodemanager.agent")


class Inspector:
    """Sees an interface with the address that a test gives it."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.looks = 0

    async def look(self, _: ManagedNode) -> HostInventory:
        self.looks += 1
        return HostInventory(interfaces={"eth0": Interface(ipv4=[self.address])} if self.address else {})

    def close(self) -> None:
        """Hold nothing open."""


class ReportingHost:
    """One process of an agent; another one begins with the same folder."""

    def __init__(
        self,
        folder: Path,
        transport: Transport,
        others: Sequence[Contribution] = (),
        early: EarlyPart | None = None,
        namespace: str = KEY.namespace,
    ) -> None:
        loop, key = asyncio.get_running_loop(), ObjectKey(namespace, KEY.name)
        self.reachability = ApiReachability(
            Vault("/", str(folder)), SecretLimits(), UnixClocks(lambda: 1.8e9 + loop.time(), loop.time)
        )
        self.client = Client(self.reachability.watching(transport, ()))
        self.log = DriftLog("/", str(folder))
        self.cache = Cache(self.client, MANAGED_NODES)
        self.node = NodeObject(self.client, self.cache, namespace, WHO)
        self.memory = Memory(Vault("/", str(folder)), None, key)
        self.host_state = HostState(self.log, self._now, loop.time, DriftWatch(self.memory))
        self.machine = Host(folder)
        self.requests = Requests(WorkQueue("host", metrics=Registry()), key)
        self.report = HostReport(self.host_state, self.log, self.machine.converger, self.memory)
        self.inspector = Inspector()
        self.writer = StatusWriter(
            self.node, self.reachability, self.requests, self.report, self.inspector, others, self._now,
            early=early,
        )  # fmt: skip
        self.delivery = Delivery(self.client, self.log, self.node, self.reachability, self.writer.request)
        self.reachability.subscribe(self.requests.pass_soon)

    @staticmethod
    def _now() -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    async def host_pass(self) -> None:
        """Do what is left of a pass where there is no host."""
        if not self.reachability.offline:
            self.report.adopt((await self.node.ensure()).status.drift)
        self.report.passed(Pass([config_set("a")], {}, (), None), 1)
        await self.writer.write(look=True)

    def loop(self) -> controller.Controller:
        """Return what answers requests."""

        async def answer(key: ObjectKey) -> None:
            await (self.writer.answer() if key == self.requests.status_key else self.host_pass())

        return controller.Controller(
            "host", answer, queue=self.requests.queue, metrics=Registry(), log=log, concurrency=2
        )

    def drift(self, count: int = 1) -> None:
        """Add drifts, each named after its number."""
        for _ in range(count):
            name = f"file:/{self.log.sequence + 1}"
            self.log.add(DriftRecord(time="2026-01-01T00:00:00Z", resource=name, outcome="repaired"))

    async def close(self) -> None:
        """End as a process that is killed does: nothing more is written."""
        self.log._tree.close()
        self.memory.close()
        self.reachability.close()
        self.machine.tree.close()
        await self.client.close()
