"""Hosts that upgrade in a group, on virtual time: an API, machines that reboot, agents that are killed.

The agent is real from the content of its ledger to the HTTP request; modelled are the API behind the
transport, the package manager, and the power switch. Every request, write of the record and word to the
host counts as an effect, and an agent may be killed before or after any of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from nodemanager.agent.tasks.ledger import Entry
from nodemanager.agent.upgrades.drain import ANNOTATION_CORDONED, KubernetesNode
from nodemanager.agent.upgrades.locks import SharedLocks
from nodemanager.agent.upgrades.own_task import Stage, UpgradeEntry
from nodemanager.agent.upgrades.upgrade import UpgradeDependencies, UpgradeSettings
from nodemanager.agent.upgrades.upgrade_part import UpgradePart
from nodemanager.agent.upgrades.upgrade_reporter import UpgradeReporter, UpgradeStatus
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeSpec
from nodemanager.api.common.node_upgrades import Upgrade
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.host.base import HostError
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.patching.merge_patch import apply_merge_patch
from nodemanager.runtime.lease import Clocks
from nodemanager.runtime.metrics import Registry
from support.model_api import Answer, status_body
from support.upgrade_ledger import MemoryLedger, at, tools_of

EPOCH = datetime(2026, 6, 1, 2, 59, 30, tzinfo=UTC)
GROUP = "web"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/test/leases/{GROUP}"
DOWN_SECONDS = 90.0
SHUTDOWN_SECONDS = 7.0


class Killed(BaseException):
    """What a process that is no more raises."""


@dataclass
class Kill:
    """The end of a process: at which effect, and for how long it stays away."""

    at: int
    after: bool = True
    away: float = 5.0
    power: bool = False
    """The host goes down with it."""


@dataclass
class Life:
    """Counts the effects of one process."""

    kill: Kill | None = None
    effects: int = 0
    dead: bool = False

    def before(self) -> None:
        if self.dead:
            raise Killed
        self.effects += 1
        if self.kill and self.effects == self.kill.at and not self.kill.after:
            self._die()

    def after(self) -> None:
        if self.dead or (self.kill and self.effects == self.kill.at and self.kill.after):
            self._die()

    def _die(self) -> None:
        self.dead = True
        raise Killed


class Cluster:
    """Objects by path, with optimistic locking; pods that take a while to go."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.revision = 0
        self.evictable: Callable[[str], bool] = lambda _: True
        self.forbidden = ""
        """Beginning of the paths that nobody may use."""
        self.asked: list[tuple[str, str]] = []

    def put(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        self.revision += 1
        meta = {**obj.get("metadata", {}), "resourceVersion": str(self.revision)}
        self.objects[path] = {**obj, "metadata": meta}
        return self.objects[path]

    def handle(self, request: Request) -> Answer:
        path = urlsplit(request.target).path
        self.asked.append((request.method, path))
        if self.forbidden and path.startswith(self.forbidden):
            return _no(403, "Forbidden")
        body = json.loads(request.body) if request.body else {}
        if request.method == "POST" and path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"))
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return _no(409, "AlreadyExists")
            return _yes(self.put(path, body))
        if path == "/api/v1/pods":
            node = request.target.partition("nodeName%3D")[2].partition("&")[0]
            pods = [one for name, one in self.objects.items() if "/pods/" in name]
            found = [one for one in pods if one["spec"]["nodeName"] == node]
            return _yes({"metadata": {"resourceVersion": "1"}, "items": found})
        if path not in self.objects:
            return _no(404, "NotFound")
        if request.method == "PATCH":
            version = body.get("metadata", {}).get("resourceVersion")
            if version not in (None, self.objects[path]["metadata"]["resourceVersion"]):
                return _no(409, "Conflict")
            return _yes(self.put(path, apply_merge_patch(self.objects[path], body)))
        return _yes(self.objects[path])

    def _evict(self, path: str) -> Answer:
        pod = self.objects.get(path)
        if pod is None:
            return _no(404, "NotFound")
        if not self.evictable(path):
            return _no(429, "TooManyRequests")
        if "deletionTimestamp" not in pod["metadata"]:
            self.put(path, {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "now"}})
            asyncio.get_running_loop().call_later(10, self.objects.pop, path, None)
        return _yes({"kind": "Status", "status": "Success"})

    def holder(self) -> str | None:
        found: str | None = self.objects.get(LEASE, {}).get("spec", {}).get("holderIdentity")
        return found

    def node(self, name: str) -> dict[str, Any]:
        return self.objects[f"/api/v1/nodes/{name}"]

    def cordoned(self, name: str) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))


@dataclass
class Link:
    """The way of one process to the API."""

    cluster: Cluster
    life: Life
    cut: Callable[[], bool] = lambda: False

    async def send(self, request: Request) -> Answer:
        self.life.before()
        await asyncio.sleep(0.01)
        answer = self.cluster.handle(request)
        await asyncio.sleep(0.01)
        self.life.after()
        return answer

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass


@dataclass
class Machine:
    """A host: what survives its agent, and its power switch."""

    name: str
    world: World
    kills: list[Kill] = field(default_factory=list)
    delay: str = "12h"
    schedule: str = "0 3 * * *"
    needs_reboot: bool = True
    shutdown_takes: float = SHUTDOWN_SECONDS
    upgrade_fails: bool = False
    held: bool = False
    busy: bool = False
    """Whether a task has its turn."""
    tasks: list[Entry] = field(default_factory=list)
    """The operator's tasks that it has taken."""
    proof_takes: float = 20.0
    files: dict[str, bytes] = field(default_factory=dict)
    """What is on its disk."""
    boot: int = 1
    asked: int = 0
    """The boot in which a reboot was asked for."""
    killed: int = 0
    killed_in: list[str] = field(default_factory=list)
    going_down: asyncio.Event = field(default_factory=asyncio.Event)
    deeds: list[tuple[str, datetime | None]] = field(default_factory=list)
    """What was done to the host, and in which slot."""
    status: UpgradeStatus | None = None
    registry: Registry = field(default_factory=Registry)
    effects: int = 0
    part: UpgradePart | None = None

    @property
    def disk(self) -> UpgradeEntry:
        """What is written down of its last upgrade."""
        return MemoryLedger(self.files).last

    @property
    def disrupted(self) -> bool:
        """Whether others have to leave it alone: cordoned, or not yet proven since it went down."""
        return self.world.cluster.cordoned(self.name) or at(self.disk) in ("Upgrading", "Rebooting")

    def did(self, what: str) -> None:
        self.world.check_alone(self, what)
        self.deeds.append((what, self.disk.slot))

    async def live(self) -> None:
        """Run agents, one after the other, until cancelled."""
        while True:
            kill = self.kills.pop(0) if self.kills else None
            process = Process(self, Life(kill))
            down = await process.run()
            self.killed += not down
            if not down:
                self.killed_in.append(at(self.disk))
            if kill and not kill.power and not down:
                await asyncio.sleep(kill.away)
            if down or (kill and kill.power) or self.going_down.is_set():
                await asyncio.sleep(DOWN_SECONDS)
                self.boot += 1
                self.going_down = asyncio.Event()

    def managed_node(self) -> ManagedNode:
        upgrade = Upgrade(group=GROUP, schedule=self.schedule, delay=self.delay)
        return ManagedNode(
            metadata=ObjectMeta(name=self.name, namespace="test"), spec=ManagedNodeSpec(upgrade=upgrade)
        )


class Process:
    """One agent, and the host as it sees it."""

    def __init__(self, machine: Machine, life: Life) -> None:
        self._machine = machine
        self._life = life
        world = machine.world
        client = Client(Link(world.cluster, life))
        clocks = Clocks(steady=lambda: asyncio.get_running_loop().time(), wall=world.now)

        def was_drained() -> bool:
            return upgrade_tasks.was_drained(machine.managed_node().metadata.annotations)

        means = UpgradeDependencies(
            tools=tools_of(self, self._prove, lambda: not machine.held),
            locks=SharedLocks(client, "test", machine.name, clocks=clocks),
            node=KubernetesNode(client, machine.name, f"test/{machine.name}", was_drained),
            ledger=MemoryLedger(machine.files, life.before, life.after),
            clocks=clocks,
            may_act=lambda: not machine.held,
            in_turn=lambda: not machine.busy,
            tasks=lambda: machine.tasks,
        )
        reporter = UpgradeReporter(machine.name, machine.registry, None)
        self.part = machine.part = UpgradePart(
            means,
            machine.managed_node,
            reporter,
            settings=world.settings,
            zone=lambda: UTC,
            report=self._report,
        )

    async def run(self) -> bool:
        """Run until killed or rebooted; tell whether it was a reboot."""
        working = asyncio.create_task(self.part.run())
        down = asyncio.create_task(self._machine.going_down.wait())
        try:
            await asyncio.wait({working, down}, return_when=asyncio.FIRST_COMPLETED)
            return not working.done()
        finally:
            rebooted = not working.done()
            self._life.dead = True
            for task in (working, down):
                task.cancel()
            await asyncio.wait({working, down})
            if not rebooted:
                with contextlib.suppress(Killed):
                    working.result()
            self._machine.effects = self._life.effects

    # The host

    async def upgrade(self) -> None:
        self._life.before()
        self._machine.did("upgrade")
        await asyncio.sleep(60)
        if self._machine.upgrade_fails:
            raise HostError("disk full")
        self._life.after()

    async def reboot_needed(self) -> str:
        self._life.before()
        self._life.after()
        return "a new kernel" if self._machine.needs_reboot else ""

    async def boot_id(self) -> str:
        self._life.before()
        self._life.after()
        return f"{self._machine.name}-{self._machine.boot}"

    async def reboot(self) -> None:
        """Go down; asked once more, a host that goes down already does so once."""
        self._life.before()
        machine = self._machine
        if machine.asked != machine.boot:
            machine.asked = machine.boot
            machine.did("reboot")
            asyncio.get_running_loop().call_later(machine.shutdown_takes, machine.going_down.set)
        self._life.after()

    async def _prove(self) -> None:
        await asyncio.sleep(self._machine.proof_takes)

    def _report(self, status: UpgradeStatus) -> None:
        self._machine.status = status


class World:
    """Everything there is."""

    def __init__(self, count: int = 1, **machine: Any) -> None:
        self.cluster = Cluster()
        self.settings = UpgradeSettings(forgiveness=timedelta(hours=2))
        self.machines = [Machine(f"h{number}", self, **machine) for number in range(count)]
        self.wrong: list[str] = []
        self.offset = timedelta()
        for one in self.machines:
            node = {"metadata": {"name": one.name}, "spec": {}}
            self.cluster.put(f"/api/v1/nodes/{one.name}", node)
            owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
            meta = {"name": f"web-{one.name}", "namespace": "prod", "ownerReferences": [owner]}
            pod = {"metadata": meta, "spec": {"nodeName": one.name}, "status": {"phase": "Running"}}
            self.cluster.put(f"/api/v1/namespaces/prod/pods/web-{one.name}", pod)

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=asyncio.get_running_loop().time()) + self.offset

    def tomorrow(self) -> None:
        """Set the clock, everywhere, to shortly before the next slot."""
        late = (self.now() - EPOCH) % timedelta(days=1)
        self.offset += timedelta(days=1) - late

    def check_alone(self, machine: Machine, what: str) -> None:
        """Note it if a host does something to itself while it is the turn of another."""
        if self.cluster.holder() != machine.name:
            self.wrong.append(f"{machine.name} {what} while {self.cluster.holder()} has the lock")
        others = [one.name for one in self.machines if one is not machine and one.disrupted]
        if others:
            self.wrong.append(f"{machine.name} {what} while {others} are not back")

    async def run(self, seconds: float) -> None:
        """Let all hosts live for so long."""
        lives = [asyncio.create_task(one.live()) for one in self.machines]
        try:
            done, _ = await asyncio.wait(lives, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            for one in done:
                one.result()
        finally:
            for one in lives:
                one.cancel()
            await asyncio.wait(lives)

    def assert_nothing_is_stranded(self) -> None:
        assert self.wrong == []
        assert self.cluster.holder() is None
        for one in self.machines:
            assert not self.cluster.cordoned(one.name)
            marks = self.cluster.node(one.name)["metadata"].get("annotations", {})
            assert ANNOTATION_CORDONED not in marks
            assert one.disk.stage is Stage.OVER
            for deed in ("upgrade", "reboot"):
                slots = [slot for what, slot in one.deeds if what == deed]
                assert len(slots) == len(set(slots)), f"{one.name}: {deed} twice in a slot: {one.deeds}"


def _yes(obj: dict[str, Any]) -> Answer:
    return Answer(200, json.dumps(obj).encode())


def _no(code: int, reason: str) -> Answer:
    return Answer(code, status_body(code, reason))
