"""One upgrade at a time, without an agent around it: real locks and Node on a model API, a host by script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from nodemanager.agent.tasks.attempts import REBOOT_NEEDED
from nodemanager.agent.upgrades import own_task
from nodemanager.agent.upgrades.drain import KubernetesNode
from nodemanager.agent.upgrades.locks import SharedLocks
from nodemanager.agent.upgrades.own_task import Order, Stage, UpgradeEntry
from nodemanager.agent.upgrades.upgrade import UpgradeDependencies, Upgrader, UpgradeSettings
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.plan.tasks.record import StepPhase, StepRecord
from nodemanager.runtime.lease import Clocks
from support.model_api import Answer, status_body
from support.upgrade_ledger import MemoryLedger, at, tools_of
from support.upgrade_world import GROUP, LEASE, Cluster, Life, Link

NODE = "/api/v1/nodes/h0"
SLOT = datetime(2026, 6, 1, 3, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


STEPS = {
    "Upgrading": (StepPhase.RUNNING,),
    "Upgraded": (StepPhase.SUCCEEDED,),
    "Rebooting": (StepPhase.SUCCEEDED, StepPhase.RUNNING),
    "Proving": (StepPhase.SUCCEEDED, StepPhase.SUCCEEDED),
}


def interrupted(
    where: str, *, group: str = GROUP, cordoned: datetime | None = None, needed: str = "", **record: Any
) -> UpgradeEntry:
    """Return what is on disk of an upgrade that began ten minutes ago."""
    entry = own_task.write(Order(SLOT, group), "h0", 1, SLOT)
    told = {REBOOT_NEEDED: needed} if needed else {}
    steps = [StepRecord(phase, 1, "first", evidence=told) for phase in STEPS.get(where, ())]
    changes = {"claimed_at": SLOT - timedelta(minutes=10), "boot_id": "first", **record}
    changes["steps"] = (*steps, *entry.record.steps[len(steps) :])
    stage = Stage.WORKING if where in STEPS else Stage(where)
    known = msgspec.structs.replace(entry.record, **changes)
    return msgspec.structs.replace(entry, record=known, stage=stage, cordoned=cordoned)


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

    entry: UpgradeEntry | None = None
    """What an earlier process wrote down."""
    settings: UpgradeSettings = field(default_factory=UpgradeSettings)
    cluster: Moody = field(default_factory=Moody)
    told: list[UpgradeEntry] = field(default_factory=list)
    deeds: list[tuple[str, float]] = field(default_factory=list)
    boot: str = "first"
    next_boot: str = ""
    """The boot after a reboot; empty = the host does not go down."""
    needs_reboot: str = ""
    upgrading: float = 10.0
    base: bool = False
    """Whether there is an upgrade of what is no package."""
    fails: dict[str, BaseException] = field(default_factory=dict)
    """What is raised instead: by `upgrade`, `reboot`, `boot_id`, or `prove`."""
    held: bool = False
    on: Callable[[str], None] = lambda _: None
    """Is told where the upgrade is when that is on record, before anything is done about it."""

    def __post_init__(self) -> None:
        self.cluster.put(NODE, {"metadata": {"name": "h0"}, "spec": {}, "status": {}})
        client = Client(Link(self.cluster, Life()))
        clocks = Clocks(steady=now, wall=self.wall)
        self.locks = SharedLocks(client, "test", "h0", clocks=clocks)
        node = KubernetesNode(client, "h0", "test/h0")
        self.ledger = MemoryLedger({})
        if self.entry is not None:
            self.ledger.save(self.entry)
        tools = tools_of(self, self._prove, lambda: not self.held, self._upgrade_base)
        dependencies = UpgradeDependencies(tools, self.locks, node, self.ledger, clocks)
        self.upgrader = Upgrader(dependencies, self.settings, self._changed)

    @staticmethod
    def wall() -> datetime:
        return SLOT + timedelta(seconds=now())

    @staticmethod
    def order(group: str = GROUP, *, reboot: bool = False) -> Order:
        return Order(SLOT, group, reboot)

    @property
    def at(self) -> str:
        """Where the upgrade is."""
        return at(self.upgrader.entry)

    @property
    def way(self) -> list[str]:
        """Where the upgrade was, one after the other."""
        found: list[str] = []
        for entry in self.told:
            found += [] if at(entry) in found[-1:] else [at(entry)]
        return found

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

    def _changed(self, entry: UpgradeEntry) -> None:
        self.told.append(entry)
        self.on(at(entry))

    def _do(self, what: str) -> None:
        self.deeds.append((what, now()))
        if what in self.fails:
            raise self.fails[what]

    # The host

    async def upgrade(self) -> None:
        self._do("upgrade")
        try:
            await asyncio.sleep(self.upgrading)
        except asyncio.CancelledError:
            self.deeds.append(("broken off", now()))
            raise
        self.deeds.append(("upgraded", now()))

    async def _upgrade_base(self) -> bool:
        return self.base

    async def reboot_needed(self) -> str:
        return self.needs_reboot

    async def boot_id(self) -> str:
        if "boot_id" in self.fails:
            raise self.fails["boot_id"]
        return self.boot

    async def reboot(self) -> None:
        self._do("reboot")
        self.boot = self.next_boot or self.boot

    async def _prove(self) -> None:
        self._do("prove")
