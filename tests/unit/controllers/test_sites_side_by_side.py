"""Several sites of one operator: one whose storage does not answer keeps no other one waiting."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS, EdgeCluster, EdgeClusterSpec
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES
from nodemanager.client.verbs import Client
from nodemanager.controllers.edge_clusters import REGISTRATION
from nodemanager.controllers.registration import Caches, ControllerContext
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime import tasks
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support import edge_profiles, objects_api, storage_labs, virtual_time
from support.linstor import server
from support.linstor.server import Fault
from support.objects_api import ObjectsApi
from support.rendering import Inline

LOG = logging.getLogger("test")


@dataclass
class Kept:
    """What a cache has."""

    found: dict[ObjectKey, Any]

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


def controller(client: Client, found: dict[Any, Kept], registry: Registry) -> Controller:
    """Return the controller of sites, as the operator has it."""
    queue: WorkQueue[ObjectKey] = WorkQueue("edge", metrics=Registry())
    context = ControllerContext(
        client, Caches("edge", cast("Any", found)), EventRecorder(client, "operator"), Inline(),
        lambda: datetime(2026, 3, 1, tzinfo=UTC), registry, "edge", AuditSettings(), queue,
    )  # fmt: skip
    return Controller(
        "edge", REGISTRATION.build(context), queue=queue, metrics=Registry(), log=LOG,
        concurrency=REGISTRATION.concurrency, timeout=REGISTRATION.timeout,
    )  # fmt: skip


def test_a_site_whose_storage_does_not_answer_keeps_no_other_one_waiting() -> None:
    async def scenario() -> None:
        registry = Registry()
        async with server.serve(storage_labs.world()) as slow, objects_api.serve(ObjectsApi()) as client:
            slow.faults.append(Fault(server.HANG_BEFORE, times=99))
            found = sites(slow=slow.url, quick="")
            sut = controller(client, found, registry)
            for key in found[EDGE_CLUSTERS].found:
                sut.queue.add(key)
            running = asyncio.create_task(sut.run())
            try:
                await asyncio.sleep(5)
                looked = "nodemanager_edge_cluster_observed_timestamp_seconds"
                text = registry.render()
                assert f'{looked}{{name="quick"}}' in text
                assert f'{looked}{{name="slow"}}' not in text
                await asyncio.sleep(8)
                assert f'{looked}{{name="slow"}}' in registry.render()
            finally:
                await tasks.end([running])

    virtual_time.run(scenario())
