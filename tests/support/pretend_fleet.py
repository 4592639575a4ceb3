"""Hosts that send signs of life, and an API that has nothing but their Leases and ManagedNodes.

The caches of the operator are fed by hand, as its watches would; what it writes comes back the same way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from nodemanager.agent.report.heartbeat import DURATION, INTERVAL, lease_name
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.controllers import liveness, registration
from nodemanager.controllers.registration import Caches, ControllerContext
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.kube import conditions, errors
from nodemanager.kube.core import LEASES, Lease, LeaseSpec
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support.model_api import Answer, status_body
from support.rendering import Inline

log = logging.getLogger("nodemanager.operator")
NAMESPACE = "ns"
START = datetime(2026, 1, 1, tzinfo=UTC)


def now() -> datetime:
    """The operator's clock: that of the loop."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


class PretendFleet:
    """An operator that judges who is alive, and what it judges by."""

    def __init__(self, seed: int = 1) -> None:
        self.leases_stored: dict[str, Lease] = {}
        self.down = False
        self.conflicts = 0
        """How many writes are refused because somebody else was faster."""
        self.gone: set[str] = set()
        """Hosts that the API does not have any more, and the cache still shows."""
        self.writes: list[tuple[float, str, dict[str, Any]]] = []
        self.reads = 0
        self.events: list[dict[str, Any]] = []
        self.registry = Registry()
        self.random = random.Random(seed)
        self.client = Client(self)
        self.nodes = Cache(self.client, MANAGED_NODES, Selection(NAMESPACE))
        self.leases = Cache(self.client, LEASES, Selection(NAMESPACE))
        self.recorder = EventRecorder(self.client, "nodemanager-operator", now=now)
        self._version = 0

    # The operator

    def controller(self) -> Controller:
        """Return the controller, wired as the operator wires it; a second one is a restarted operator."""
        queue: WorkQueue[ObjectKey] = WorkQueue("liveness", metrics=Registry())
        caches = Caches("liveness", {MANAGED_NODES: self.nodes, LEASES: self.leases})
        registration.connect(liveness.REGISTRATION.watches, caches, queue)
        context = ControllerContext(
            self.client,
            caches,
            self.recorder,
            Inline(),
            now,
            self.registry,
            NAMESPACE,
            AuditSettings(),
            queue,
        )
        return Controller(
            "liveness", liveness.REGISTRATION.build(context), queue=queue, metrics=Registry(),
            log=log, concurrency=liveness.REGISTRATION.concurrency,
        )  # fmt: skip

    # The hosts

    def join(self, *hosts: str, ready: bool = True) -> None:
        """Create ManagedNodes as their agents do."""
        for host in hosts:
            status = (
                {"conditions": [{"type": "Ready", "status": "True", "reason": "Applied"}]} if ready else {}
            )
            self._store_node({"metadata": {"name": host, "namespace": NAMESPACE}, "status": status})

    def renew(self, host: str, *, stamp: str = "", seen: bool = True) -> None:
        """Renew a Lease; while the API is down, nobody can. One that is not `seen` is lost by the watch."""
        if self.down:
            return
        spec = LeaseSpec(
            holder_identity=host,
            lease_duration_seconds=DURATION,
            renew_time=stamp or now().isoformat(timespec="microseconds"),
        )
        lease = Lease(ObjectMeta(name=lease_name(host), namespace=NAMESPACE), spec)
        self.leases_stored[host] = lease
        if seen:
            self.leases._put(ObjectKey(NAMESPACE, lease_name(host)), lease)

    async def live(self, host: str, until: float = float("inf")) -> None:
        """Send signs of life as an agent does."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.random.uniform(0, INTERVAL))
        while loop.time() < until:
            self.renew(host)
            await asyncio.sleep(INTERVAL * self.random.uniform(0.9, 1.1))

    def delete_lease(self, host: str) -> None:
        """Delete a Lease, as revoking a host does."""
        del self.leases_stored[host]
        key = ObjectKey(NAMESPACE, lease_name(host))
        self.leases._tell(Change(key, self.leases._objects.pop(key), None))

    # The API

    async def outage(self, seconds: float) -> None:
        """Be out of reach for a while, for everybody."""
        self.down = True
        await asyncio.sleep(seconds)
        self.down = False
        self.leases.steady_since = asyncio.get_running_loop().time()

    async def send(self, request: Request) -> Answer:
        """Answer the operator."""
        if self.down:
            raise errors.Unreachable("cannot reach the API: it is down")
        if "/events" in request.target:
            self.events.append(json.loads(request.body))
            return Answer(201, request.body)
        name = request.target.partition("?")[0].split("/")[-1 if "/leases/" in request.target else -2]
        if "/leases/" in request.target:
            self.reads += 1
            found = self.leases_stored.get(name.removeprefix("nodemanager-"))
            return Answer(404, status_body(404, "NotFound")) if found is None else _ok(found)
        return self._patch(name, json.loads(request.body))

    def _patch(self, host: str, body: dict[str, Any]) -> Answer:
        if host in self.gone:
            return Answer(404, status_body(404, "NotFound"))
        found = self.node(host)
        if self.conflicts or body["metadata"]["resourceVersion"] != found.metadata.resource_version:
            self.conflicts = max(self.conflicts - 1, 0)
            return Answer(409, status_body(409, "Conflict"))
        self.writes.append((asyncio.get_running_loop().time(), host, body["status"]))
        status = {**msgspec.to_builtins(found.status), **body["status"]}
        meta = {"name": host, "namespace": NAMESPACE}
        return _ok(self._store_node({"metadata": meta, "status": status}))

    def _store_node(self, node: dict[str, Any]) -> ManagedNode:
        self._version += 1
        node["metadata"]["resourceVersion"] = str(self._version)
        found = msgspec.convert(node, ManagedNode)
        self.nodes._put(ObjectKey(NAMESPACE, found.metadata.name), found)
        return found

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass

    # What is seen

    def node(self, host: str) -> ManagedNode:
        """Return a ManagedNode as the API has it."""
        found = self.nodes.get(ObjectKey(NAMESPACE, host))
        assert found is not None
        return found

    def condition(self, host: str, kind: str = "Alive") -> str:
        """Return the status of a condition; empty = there is none."""
        found = conditions.get(self.node(host).status.conditions, kind)
        return found.status if found else ""


def _ok(found: Any) -> Answer:
    return Answer(200, msgspec.json.encode(found))
