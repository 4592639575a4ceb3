"""A namespace with hosts, pretend agents and the real operator, which can be killed at any of its writes."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import DeleteOptions, Selection
from nodemanager.client.http.transport import Request, Response, Transport
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, disruption, node_maintenances, notifications
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.node_maintenances import observing
from nodemanager.controllers.registration import Entry
from nodemanager.host.process import runner
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.runtime.metrics import Registry
from support import running, whole_server
from support.clients import Tokens, connected
from support.either import NAMESPACES, Place
from support.pretend_agents import PretendAgents, join, say

BUDGETS: Resource[Untyped] = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict)
PATIENCE = 90.0
ENTRIES = (node_maintenances.REGISTRATION, disruption.REGISTRATION, notifications.REGISTRATION)
TOUCH = [{"name": "touch", "execution": {"argv": ["touch", "/x"]}}]
REBOOT = [*TOUCH, {"name": "reboot", "reboot": {"when": "always"}}]


@dataclass
class Mortal:
    """A way to the server that ends with a certain write: before it leaves, or before its answer is read."""

    inner: Transport
    at: int = 0
    """Which write; 0 = none."""
    after: bool = True
    writes: list[str] = field(default_factory=list)
    dead: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, request: Request) -> Response:
        if self.dead.is_set():
            if "/events" in request.target:  # nobody tries again to tell of it
                raise errors.Forbidden("this process is dead")
            raise errors.Unreachable("this process is dead")
        if request.method == "GET" or "/events" in request.target or _is_leading(request.target):
            return await self.inner.send(request)
        self.writes.append(f"{request.method} {request.target}")
        if len(self.writes) != self.at:
            return await self.inner.send(request)
        self.dead.set()
        if self.after:
            await (await self.inner.send(request)).close()
        raise errors.Unreachable("this process is dead")

    async def reauthenticate(self) -> bool:
        return await self.inner.reauthenticate()

    async def close(self) -> None:
        await self.inner.close()


def _is_leading(target: str) -> bool:
    """Tell whether a write is about who leads; so may be the first of a Lease."""
    return target.partition("?")[0].endswith("/leases") or "/leases/nodemanager-operator" in target


@dataclass
class Site:
    """All of it, and what tests ask about it."""

    client: Client
    own: ClientConfig
    """As the operator connects: with its own rights and no others."""
    namespace: str
    agents: PretendAgents
    prefix: str = field(default_factory=lambda: f"h{uuid.uuid4().hex[:6]}")
    nodes: list[str] = field(default_factory=list)
    shift: datetime | None = None
    """What time it is for the operator; None = what it is."""
    metrics: Registry = field(default_factory=Registry)
    """Those of the operator that was started last."""

    def now(self) -> datetime:
        return self.shift or datetime.now(UTC)

    # Hosts

    async def host(self, name: str, *, node: bool = False, **labels: str) -> str:
        """Have a host join; its name is made unlike those of other tests, as Nodes are in no namespace."""
        full = f"{self.prefix}-{name}"
        if node:
            await self.client.create(core.NODES, {"metadata": {"name": full}})
            self.nodes.append(full)
        await join(self.client, self.namespace, full, **labels)
        return full

    async def say(self, host: str, **conditions: str) -> None:
        await say(self.client, self.namespace, host, **conditions)

    async def managed(self, host: str) -> ManagedNode:
        return await self.client.get(MANAGED_NODES, host, self.namespace)

    async def ready(self, host: str, status: str) -> None:
        """Have the kubelet say whether its Node is Ready."""
        said = {"type": "Ready", "status": status, "reason": "Told"}
        body = MergePatch({"status": {"conditions": [said]}})
        await self.client.patch(core.NODES, host, "", body, subresource="status")

    async def cordon(self, host: str) -> None:
        """As an administrator does."""
        await self.client.patch(core.NODES, host, "", MergePatch({"spec": {"unschedulable": True}}))

    async def is_cordoned(self, host: str) -> bool:
        return (await self.client.get(NODES, host)).spec.unschedulable

    async def pod(self, name: str, host: str, **annotations: str) -> None:
        """Store a pod on a Node that ends at once when it is told to."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "u", "controller": True}
        meta = {"name": name, "labels": {"app": name}, "ownerReferences": [owner], "annotations": annotations}
        spec = {
            "containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False,
            "nodeName": host, "terminationGracePeriodSeconds": 0,
        }  # fmt: skip
        await self.client.create(core.PODS, {"metadata": meta, "spec": spec}, self.namespace)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        patch = MergePatch({"status": status})
        await self.client.patch(core.PODS, name, self.namespace, patch, subresource="status")

    async def pods(self) -> list[str]:
        found = (await self.client.list(core.PODS, Selection(self.namespace))).items
        return sorted(pod["metadata"]["name"] for pod in found)

    async def bury(self) -> None:
        """Play the kubelet: delete for good what is being terminated."""
        for pod in (await self.client.list(core.PODS, Selection(self.namespace))).items:
            if "deletionTimestamp" in pod["metadata"]:
                gone = DeleteOptions(grace_period=0)
                with contextlib.suppress(errors.NotFound):
                    await self.client.delete(core.PODS, pod["metadata"]["name"], self.namespace, options=gone)

    async def protect(self, pod: str) -> None:
        """Give a pod a budget that lets nobody evict it, on either server."""
        spec = {"selector": {"matchLabels": {"app": pod}}, "minAvailable": 1}
        await self.client.create(BUDGETS, {"metadata": {"name": pod}, "spec": spec}, self.namespace)

    async def unprotect(self, pod: str) -> None:
        await self.client.delete(BUDGETS, pod, self.namespace)

    # Maintenances

    async def maintenance(self, name: str = "monday", **spec: Any) -> NodeMaintenance:
        """Create a maintenance, by default one that touches a file on all hosts, once and now."""
        whole = {
            "window": {"always": True},
            "operations": [{"name": "note", "type": "one-shot", "steps": TOUCH}],
            **spec,
        }
        return await self.client.create(
            NODE_MAINTENANCES, {"metadata": {"name": name}, "spec": whole}, self.namespace
        )

    async def change(self, name: str = "monday", **spec: Any) -> None:
        await self.client.patch(NODE_MAINTENANCES, name, self.namespace, MergePatch({"spec": spec}))

    async def status(self, name: str = "monday") -> NodeMaintenance:
        return await self.client.get(NODE_MAINTENANCES, name, self.namespace)

    async def until(
        self, holds: Callable[[NodeMaintenance], object], name: str = "monday"
    ) -> NodeMaintenance:
        """Wait until a maintenance says something."""
        found = NodeMaintenance()
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = await self.status(name)
                    if holds(found):
                        return found
                    await asyncio.sleep(0.06)
        except TimeoutError:
            raise AssertionError(f"never came true; the last status is {found.status}") from None

    async def until_phase(self, *phases: str, name: str = "monday") -> NodeMaintenance:
        return await self.until(lambda found: found.status.phase in phases, name)

    async def tasks(self) -> list[NodeTask]:
        return (await self.client.list(NODE_TASKS, Selection(self.namespace))).items

    async def visits(self) -> dict[str, str]:
        """Return the hosts that somebody works on, and what the claim says."""
        found = (await self.client.list(MANAGED_NODES, Selection(self.namespace))).items
        visits = {one.metadata.name: observing.claim_of(one) for one in found}
        return {name: str(claim) for name, claim in visits.items() if claim is not None and claim.holds}

    async def nothing_is_left(self, *foreign: str) -> None:
        """Fail if a host is claimed or cordoned, but for those that others cordoned."""
        assert await self.visits() == {}
        for name in self.nodes:
            node = await self.client.get(NODES, name)
            assert (name, node.spec.unschedulable, node.mark) == (name, name in foreign, None)

    # The operator

    @contextlib.asynccontextmanager
    async def operator(
        self,
        kill_at: int = 0,
        *,
        after: bool = True,
        leader_elect: bool = False,
        entries: tuple[Entry, ...] = (),
    ) -> AsyncIterator[Mortal]:
        """Run the operator until the end of the block, or until it is killed."""
        mortals: list[Mortal] = []

        def wrap(inner: Transport) -> Transport:
            mortals.append(Mortal(inner, kill_at, after))
            return mortals[0]

        self.metrics = Registry()
        async with connected(self.own) as own:
            given = Dependencies(
                own.through(wrap), self.namespace, self.metrics, runner.companion, leader_elect, now=self.now
            )
            manager = assembly.assemble(given, entries or ENTRIES).manager
            async with running.operator(manager, mortals[0].dead.is_set):
                yield mortals[0]


@contextlib.asynccontextmanager
async def site_at(place: Place, *, disruptive: bool = True) -> AsyncIterator[Site]:
    """A namespace of one of the servers."""
    config = whole_server.load(place.kubeconfig)
    async with connected(config) as admin:
        objects = assembly.manifests(place.namespace)
        unique = f"{assembly.DISRUPTION}-{place.namespace}"
        if disruptive:
            role, binding = assembly.disruption_manifests(place.namespace)
            role["metadata"]["name"] = binding["metadata"]["name"] = binding["roleRef"]["name"] = unique
            objects = [*objects, role, binding]
        kinds: dict[str, Resource[Any]] = {
            "Namespace": NAMESPACES, "ServiceAccount": core.SERVICE_ACCOUNTS, "Role": core.ROLES,
            "RoleBinding": core.ROLE_BINDINGS, "ClusterRole": core.CLUSTER_ROLES,
            "ClusterRoleBinding": core.CLUSTER_ROLE_BINDINGS,
        }  # fmt: skip
        for obj in objects:
            with contextlib.suppress(errors.AlreadyExists):
                await admin.create(kinds[obj["kind"]].untyped(), obj, obj["metadata"].get("namespace", ""))
        issued = await request_token(admin, "nodemanager-operator", place.namespace, seconds=3600)
        own = ClientConfig(config.server, ca=config.ca, credentials=Tokens(issued.token))
        site = Site(admin, own, place.namespace, PretendAgents(admin, place.namespace))
        try:
            async with site.agents.at_work():
                yield site
        finally:
            for name in site.nodes:
                await admin.delete(core.NODES, name)
            if disruptive:
                await admin.delete(core.CLUSTER_ROLE_BINDINGS, unique)
                await admin.delete(core.CLUSTER_ROLES, unique)
