"""One upgrade at a time, without an agent around it: real locks and Node on a model API, a host by script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from nodemanager.agent.upgrades.drain import KubernetesNode
from nodemanager.agent.upgrades.locks import SharedLocks
from nodemanager.agent.upgrades.upgrade import Order, UpgradeDependencies, Upgrader, UpgradeSettings
from nodemanager.agent.upgrades.upgrade_record import Phase, RecordError, UpgradeRecord
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.runtime.lease import Clocks
from support.model_api import Answer, status_body
from support.upgrade_world import GROUP, LEASE, Cluster, Life, Link

NODE = "/api/v1/nodes/h0"
SLOT = datetime(2026, 6, 1, 3, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


class Moody(Cluster):
    """A cluster that refuses some requests."""

    refuses: Callable[[Request], bool] = staticmethod(lambda _: False)
    code, reason = 503, "ServiceUnavailable"

    def handle(self, request: Request) -> Answer:
        if self.refuses(request):
            self.asked.append(("refused", request.method))
            return Answer(self.code, status_body(self.code, self.reason))
        return super().handle(request)


@dataclass
class Desk:
    """Everything that an upgrade works with, and what it did."""

    record: UpgradeRecord = field(default_factory=UpgradeRecord)
    settings: UpgradeSettings = field(default_factory=UpgradeSettings)
    cluster: Moody = field(default_factory=Moody)
    saved: list[UpgradeRecord] = field(default_factory=list)
    told: list[Phase] = field(default_factory=list)
    deeds: list[tuple[str, float]] = field(default_factory=list)
    boot: str = "first"
    needs_reboot: str = ""
    upgrading: float = 10.0
    upgrade_says: str = ""
    fails: dict[str, BaseException] = field(default_factory=dict)
    """What is raised instead: by `upgrade`, `reboot`, `boot_id`, `save`, or `prove`."""
    held: bool = False
    on: Callable[[Phase], None] = lambda _: None
    """Is told of each phase when it is on record, before anything is done about it."""

    def __post_init__(self) -> None:
        self.cluster.put(NODE, {"metadata": {"name": "h0"}, "spec": {}, "status": {}})
        client = Client(Link(self.cluster, Life()))
        clocks = Clocks(steady=now, wall=self.wall)
        self.locks = SharedLocks(client, "test", "h0", clocks=clocks)
        node = KubernetesNode(client, "h0", "test/h0")
        dependencies = UpgradeDependencies(
            self, self.locks, node, records=self, prove=self._prove, clocks=clocks,
            may_act=lambda: not self.held,
        )  # fmt: skip
        self.upgrader = Upgrader(dependencies, self.settings, self._changed)

    @staticmethod
    def wall() -> datetime:
        return SLOT + timedelta(seconds=now())

    @staticmethod
    def order(group: str = GROUP, reboot: str = "") -> Order:
        return Order(SLOT, group, reboot)

    @property
    def phases(self) -> list[Phase]:
        """What was on record, one after the other."""
        return [one.phase for one in self.saved]

    def did(self) -> list[str]:
        return [what for what, _ in self.deeds]

    def steal(self, holder: str | None = "other", seconds: int = 36000) -> None:
        """Give the lock to somebody else."""
        meta = {"name": GROUP, "namespace": "test"}
        stamp = self.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": stamp}
        self.cluster.put(LEASE, {"metadata": meta, "spec": spec})

    def node_says(self, status: dict[str, Any]) -> None:
        self.cluster.put(NODE, {**self.cluster.node("h0"), "status": status})

    def pod(self) -> str:
        """Put a pod on the Node that has to leave; return its path."""
        owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
        meta = {"name": "web", "namespace": "prod", "ownerReferences": [owner]}
        path = "/api/v1/namespaces/prod/pods/web"
        pod = {"metadata": meta, "spec": {"nodeName": "h0"}, "status": {"phase": "Running"}}
        self.cluster.put(path, pod)
        return path

    def _changed(self, record: UpgradeRecord) -> None:
        self.told.append(record.phase)
        self.on(record.phase)

    def _do(self, what: str) -> None:
        self.deeds.append((what, now()))
        if what in self.fails:
            raise self.fails[what]

    # The host

    async def upgrade(self) -> str:
        self._do("upgrade")
        try:
            await asyncio.sleep(self.upgrading)
        except asyncio.CancelledError:
            self.deeds.append(("broken off", now()))
            raise
        self.deeds.append(("upgraded", now()))
        return self.upgrade_says

    async def reboot_needed(self) -> str:
        return self.needs_reboot

    async def boot_id(self) -> str:
        if "boot_id" in self.fails:
            raise self.fails["boot_id"]
        return self.boot

    async def reboot(self) -> None:
        self._do("reboot")

    async def _prove(self) -> None:
        self._do("prove")

    # The disk

    def load(self) -> UpgradeRecord:
        return self.record

    def save(self, record: UpgradeRecord) -> None:
        if "save" in self.fails:
            raise RecordError(str(self.fails["save"]))
        self.saved.append(record)
