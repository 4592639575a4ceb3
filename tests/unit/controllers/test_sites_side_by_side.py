"""Several sites of one operator: one whose storage does not answer keeps no other one waiting."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS, FRESH, UNPROVEN, EdgeCluster, EdgeClusterSpec
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES, EdgeProfileSpec
from nodemanager.api.rights.host_rights import account_name
from nodemanager.client.verbs import Client
from nodemanager.controllers.edge_clusters import REGISTRATION, reconciling
from nodemanager.controllers.registration import Caches, ControllerContext
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.fleet.edge.parts import SitePartFacts
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease, LeaseSpec
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime import tasks
from nodemanager.runtime.controller import Controller, Reconcile
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support import edge_profiles, objects_api, storage_labs, virtual_time
from support.edge_reports import ToldHost
from support.linstor import server
from support.linstor.server import Fault
from support.objects_api import ObjectsApi
from support.rendering import Inline

LOG = logging.getLogger("test")
API = functools.partial(ObjectsApi, takes_patches=True)
LOOKED = "nodemanager_edge_cluster_observed_timestamp_seconds"


@dataclass
class Kept:
    """What a cache has."""

    found: dict[ObjectKey, Any]
    interrupted: bool = False
    steady_since: float = -math.inf

    def get(self, key: ObjectKey) -> Any:
        return self.found.get(key)

    def values(self) -> list[Any]:
        return list(self.found.values())


def sites(**urls: str) -> dict[Any, Kept]:
    """Return one site for each name, with a controller at that address, or none."""
    profiles, clusters = {}, {}
    for name, url in urls.items():
        patch = {"storage": {"linstor": {"url": url}}} if url else {}
        profiles[ObjectKey("", name)] = edge_profiles.typed(edge_profiles.shipped("k3s-linstor", name, patch))
        meta = ObjectMeta(name=name, namespace="edge", uid=name)
        clusters[ObjectKey("edge", name)] = EdgeCluster(metadata=meta, spec=EdgeClusterSpec(profile=name))
    kept = {watch.resource: Kept({}) for watch in REGISTRATION.watches}
    return kept | {EDGE_PROFILES: Kept(profiles), EDGE_CLUSTERS: Kept(clusters)}


def now() -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())


def context_of(client: Client, found: dict[Any, Kept], registry: Registry) -> ControllerContext:
    queue: WorkQueue[ObjectKey] = WorkQueue("edge", metrics=Registry())
    return ControllerContext(
        client, Caches("edge", cast("Any", found)), EventRecorder(client, "operator"), Inline(),
        now, registry, "edge", AuditSettings(), queue,
    )  # fmt: skip


def watcher(client: Client, found: dict[Any, Kept], registry: Registry) -> Reconcile:
    """Return the reconcile of sites, as the operator has it."""
    return REGISTRATION.build(context_of(client, found, registry))


def controller(client: Client, found: dict[Any, Kept], registry: Registry) -> Controller:
    """Return the controller of sites, as the operator has it."""
    context = context_of(client, found, registry)
    return Controller(
        "edge", REGISTRATION.build(context), queue=context.queue, metrics=Registry(), log=LOG,
        concurrency=REGISTRATION.concurrency, timeout=REGISTRATION.timeout,
    )  # fmt: skip


def test_a_site_whose_storage_does_not_answer_keeps_no_other_one_waiting() -> None:
    async def scenario() -> None:
        registry = Registry()
        async with server.serve(storage_labs.world()) as slow, objects_api.serve(API()) as client:
            slow.faults.append(Fault(server.HANG_BEFORE, times=99))
            found = sites(slow=slow.url, quick="")
            sut = controller(client, found, registry)
            for key in found[EDGE_CLUSTERS].found:
                sut.queue.add(key)
            running = asyncio.create_task(sut.run())
            try:
                await asyncio.sleep(5)
                text = registry.render()
                assert f'{LOOKED}{{name="quick"}}' in text
                assert f'{LOOKED}{{name="slow"}}' not in text
                await asyncio.sleep(8)
                assert f'{LOOKED}{{name="slow"}}' in registry.render()
            finally:
                await tasks.end([running])

    virtual_time.run(scenario())


def test_what_the_api_did_not_take_is_not_in_the_metrics_either() -> None:
    async def scenario() -> None:
        registry, api = Registry(), API(takes_patches=False)
        async with objects_api.serve(api) as client:
            found = sites(quick="")
            (key,) = found[EDGE_CLUSTERS].found
            reconcile = watcher(client, found, registry)
            with pytest.raises(errors.KubeError):
                await reconcile(key)
            assert f'{LOOKED}{{name="quick"}}' not in registry.render()
            api.takes_patches = True
            await reconcile(key)
            assert f'{LOOKED}{{name="quick"}}' in registry.render()

    virtual_time.run(scenario())


async def nothing(_client: Client, _spec: EdgeProfileSpec, _namespace: str) -> SitePartFacts:
    return SitePartFacts()


def test_a_lease_that_changed_while_the_api_was_away_proves_nothing_new() -> None:
    """Nobody knows when that was; one that changes while it is watched counts from the look before."""

    async def scenario() -> None:
        async with objects_api.serve(API()) as client:
            found = sites(quick="")
            (key,) = found[EDGE_CLUSTERS].found
            nodes, leases = found[MANAGED_NODES], found[LEASES]
            nodes.found[ObjectKey("edge", "a")] = ToldHost().node("a")
            sut = reconciling.SiteWatcher(context_of(client, found, Registry()), nothing)
            seen = []
            for number, outage in enumerate(["", "", "", "begins", "goes on", "ends", "", ""]):
                await asyncio.sleep(60)
                if outage == "ends":
                    leases.steady_since = asyncio.get_running_loop().time()
                leases.interrupted = outage in ("begins", "goes on")
                renewed = 2 if leases.interrupted else number
                spec = LeaseSpec(renew_time=str(renewed), lease_duration_seconds=60)
                name = account_name("a")
                leases.found[ObjectKey("edge", name)] = Lease(metadata=ObjectMeta(name=name), spec=spec)
                await sut.reconcile(key)
                seen.append(sut._last[key].status.nodes[0].heartbeat)
            assert seen == [UNPROVEN, FRESH, FRESH, UNPROVEN, UNPROVEN, UNPROVEN, FRESH, FRESH]

    virtual_time.run(scenario())
