"""An EdgeCluster before one of both servers, and the operator that looks at it, with exactly its rights."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS, EdgeCluster, EdgeClusterStatus
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES, EdgeProfile
from nodemanager.api.rights.host_rights import account_name
from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, Request, Response, Transport
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, edge_clusters
from nodemanager.controllers.registration import Caches, ControllerContext
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.host.process import runner
from nodemanager.kube import errors, manifests
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectKey, Untyped, key_of
from nodemanager.runtime import tasks
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Reconcile
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support import edge_profiles
from support.agent_process import Api
from support.clients import Tokens
from support.daemonset.pods import DaemonSet
from support.edge_reports import ToldHost
from support.either import Place
from support.rendering import Inline
from support.scripted_server import until

Fault = Callable[[Transport, Request], Awaitable[Response]]
_BEATS = itertools.count(1)
START = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)


class Ledger:
    """A transport that writes down what was asked for, and has answers go wrong."""

    def __init__(self, inner: Transport, asked: list[str], faults: dict[str, Fault]) -> None:
        self._inner, self._asked, self._faults = inner, asked, faults

    async def send(self, request: Request) -> Response:
        path, _, query = request.target.partition("?")
        watched = "WATCH" if "watch=" in query else request.method
        self._asked.append(f"{watched} {path}")
        for end, fault in self._faults.items():
            if path.endswith(end) and request.method == "GET":
                return await fault(self._inner, request)
        return await self._inner.send(request)

    async def reauthenticate(self) -> bool:
        return await self._inner.reauthenticate()

    async def close(self) -> None:
        await self._inner.close()


@dataclass
class EdgeSite:
    """A site, its DaemonSet, and an operator whose clock is ours."""

    place: Place
    api: Api
    daemon_set: DaemonSet
    profile: Untyped
    clusters: Cache[EdgeCluster]
    reconcile: Reconcile
    events: EventRecorder
    registry: Registry
    profiles: Cache[EdgeProfile]
    context: ControllerContext
    asked: list[str] = field(default_factory=list)
    faults: dict[str, Fault] = field(default_factory=dict)
    """What goes wrong, by the end of the path that is asked for."""
    now: datetime = START

    @property
    def key(self) -> ObjectKey:
        """Which EdgeCluster."""
        return ObjectKey(self.place.namespace, "site")

    def restart(self) -> None:
        """Have another operator go on: it knows what is in the API, and nothing else."""
        self.registry = Registry()
        self.reconcile = edge_clusters.REGISTRATION.build(replace(self.context, metrics=self.registry))

    async def look(self, seconds: float = 10) -> EdgeClusterStatus:
        """Let time go by and have the operator look; returns what the API has then."""
        self.now += timedelta(seconds=seconds)
        while True:
            try:
                await self.reconcile(self.key)
                break
            except errors.Conflict:  # what we wrote last is on its way to the cache
                await asyncio.sleep(0.02)
        stored = await self.api.client.get(EDGE_CLUSTERS, "site", self.place.namespace)
        await until(lambda: self._has(stored.metadata.resource_version))
        return stored.status

    def _has(self, version: str) -> bool:
        found = self.clusters.get(self.key)
        return found is not None and found.metadata.resource_version == version


def profile_for(place: Place, name: str, forget: str, *, with_set: bool, more: Mapping[str, Any]) -> Untyped:
    """Return the shipped profile with a namespace of its own; the embedded API has no DaemonSets."""
    patch: dict[str, Any] = {
        "bridge": {"namespace": f"{place.namespace}-vx"},
        "thresholds": {"forgetNodes": forget},
    }
    if not with_set:
        patch["bridge"]["daemonSet"] = None
    return edge_profiles.shipped("vx-rail", name, {**patch, **more})


def grant(place: Place, profile: EdgeProfile) -> None:
    """Give the operator what it needs for edge sites, and nothing else."""
    bridge = profile.spec.bridge
    _, account, *_ = assembly.manifests(place.namespace)
    rights = [
        account,
        *(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bridge.namespace}}]
            if bridge
            else []
        ),
        *assembly.edge_manifests(place.namespace),
        *assembly.site_manifests(profile, place.namespace),
    ]
    place.kubectl("apply", "-f", "-", stdin=manifests.dump(rights))


@contextlib.asynccontextmanager
async def standing(
    place: Place, api: Api, forget: str = "1h", more: Mapping[str, Any] = {}, **spec: Any
) -> AsyncIterator[EdgeSite]:
    """Run the operator's part for sites, with one EdgeCluster called site; `more` is for its profile."""
    with_set = await _serves_daemon_sets(api.client)
    obj = profile_for(place, f"vx-of-{place.namespace}", forget, with_set=with_set, more=more)
    name = obj["metadata"]["name"]
    bridge = edge_profiles.typed(obj).spec.bridge
    assert bridge is not None
    place.kubectl("apply", "-f", "-", stdin=manifests.dump([edge_profiles.signed(obj)]))
    grant(place, edge_profiles.typed(obj))
    cluster = {"metadata": {"name": "site"}, "spec": {"profile": name, **spec}}
    await api.client.create(EDGE_CLUSTERS, cluster, place.namespace)
    issued = await request_token(api.client, "nodemanager-operator", place.namespace, seconds=6 * 3600)
    found = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    own = ClientConfig(found.server, ca=found.ca, credentials=Tokens(issued.token))
    asked: list[str] = []
    faults: dict[str, Fault] = {}
    client = Client(Ledger(HttpTransport(own), asked, faults))
    site: EdgeSite
    caches = {
        watch.resource: Cache(client, watch.resource, watch.selection(place.namespace))
        for watch in edge_clusters.REGISTRATION.watches
    }
    events, registry = EventRecorder(client, "nodemanager-operator"), Registry()
    context = ControllerContext(
        client, Caches("edge", caches), events, Inline(), lambda: site.now, registry, place.namespace,
        AuditSettings(), WorkQueue("edge", metrics=Registry()),
    )  # fmt: skip
    site = EdgeSite(
        place, api, DaemonSet(place, api.client, bridge, lambda: site.now), obj, caches[EDGE_CLUSTERS],
        edge_clusters.REGISTRATION.build(context), events, registry, caches[EDGE_PROFILES], context, asked,
        faults,
    )  # fmt: skip
    running = [asyncio.create_task(one.run()) for one in caches.values()]
    running.append(asyncio.create_task(events.run()))
    try:
        await until(lambda: all(one.has_synced for one in caches.values()))
        yield site
    finally:
        site.daemon_set.end()
        await tasks.end(running)
        await client.close()
        place.kubectl("delete", "edgeprofile", name, "--wait=false")


async def tell(site: EdgeSite, name: str, host: ToldHost) -> None:
    """Have an agent, and the operator that judges its life, write the status of a host."""
    client, space = site.api.client, site.place.namespace
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(MANAGED_NODES, {"metadata": {"name": name}}, space)
    patch = MergePatch({"status": msgspec.to_builtins(host.node(name).status)})
    await client.patch(MANAGED_NODES, name, space, patch, subresource="status")


async def renew(site: EdgeSite, *names: str) -> None:
    """Have agents give a sign of life, and wait until the operator has heard of it."""
    client, space = site.api.client, site.place.namespace
    leases = site.context.caches.of(LEASES)
    for name in names:
        account, stamp = account_name(name), f"2001-01-01T00:00:00.{next(_BEATS):06}Z"
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(LEASES, {"metadata": {"name": account}, "spec": {}}, space)
        renewed = MergePatch({"spec": {"holderIdentity": name, "renewTime": stamp}})
        found = await client.patch(LEASES, account, space, renewed)
        await until(functools.partial(_is_seen, leases, found))


def _is_seen(leases: Cache[Lease], lease: Lease) -> bool:
    seen = leases.get(key_of(lease))
    return seen is not None and seen.metadata.resource_version == lease.metadata.resource_version


async def _serves_daemon_sets(client: Client) -> bool:
    try:
        await client.page(edge_clusters.reading.DAEMON_SETS, limit=1)
    except errors.NotFound:
        return False
    return True
