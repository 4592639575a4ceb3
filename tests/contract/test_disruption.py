"""Nodes that the operator holds for a maintenance, against the embedded server and against kube-apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import DeleteOptions, Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, disruption
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.disruption.holding import CordonHolder, DrainRules, NodeHold
from nodemanager.controllers.disruption.nodes import (
    CORDONED,
    DRAIN_IN_PROGRESS,
    DRAINED,
    MAINTENANCE_IN_PROGRESS,
    NODES,
)
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.host.process import runner
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.selectors import LabelSelector
from nodemanager.runtime.metrics import Registry
from support import running, whole_server
from support.clients import Tokens, connected
from support.either import NAMESPACES, Place

BUDGETS: Resource[Untyped] = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict)
ALL = DrainRules()


@dataclass
class Site:
    """A server with a Node and a namespace of our own."""

    client: Client
    config: ClientConfig
    name: str = field(default_factory=lambda: f"host-{uuid.uuid4().hex[:8]}")

    def hold(self, uid: str = "1", client: Client | None = None, generation: int = 1) -> NodeHold:
        holder = CordonHolder("nodemanager", "monday", uid, generation)
        return NodeHold(client or self.client, self.name, holder)

    async def pod(self, name: str, *, kind: str = "ReplicaSet", **meta: Any) -> None:
        """Store a ready pod on the Node; of no controller when `kind` is empty."""
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
        about = {
            "name": name, "labels": {"app": name}, "ownerReferences": [owner] if kind else [], **meta,
        }  # fmt: skip
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "automountServiceAccountToken": False,
            "nodeName": self.name,
        }
        await self.client.create(core.PODS, {"metadata": about, "spec": spec}, self.name)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch(
            core.PODS, name, self.name, MergePatch({"status": status}), subresource="status"
        )

    async def bury(self) -> None:
        """Play the kubelet: delete for good what is being terminated."""
        for pod in (await self.client.list(core.PODS, Selection(self.name))).items:
            if "deletionTimestamp" in pod["metadata"]:
                gone = DeleteOptions(grace_period=0)
                await self.client.delete(core.PODS, pod["metadata"]["name"], self.name, options=gone)

    async def cordoned(self) -> bool:
        return await _cordoned(self.client, self.name)

    async def account(self, name: str) -> ClientConfig:
        await self.client.create(core.SERVICE_ACCOUNTS, {"metadata": {"name": name}}, self.name)
        issued = await request_token(self.client, name, self.name, seconds=600)
        return ClientConfig(self.config.server, ca=self.config.ca, credentials=Tokens(issued.token))


@contextlib.asynccontextmanager
async def _site(config: ClientConfig) -> AsyncIterator[Site]:
    async with connected(config) as client:
        site = Site(client, config)
        await client.create(NAMESPACES, {"metadata": {"name": site.name}})
        await client.create(core.NODES, {"metadata": {"name": site.name}})
        yield site


@pytest.fixture(
    params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.xdist_group("apiserver"))]
)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    if request.param == "embedded":
        async with whole_server.serving(tmp_path) as (config, _), _site(config) as found:
            yield found
    else:
        async with _site(whole_server.load(request.getfixturevalue("kube").kubeconfig)) as found:
            yield found


@pytest.fixture
async def ours(tmp_path: Path) -> AsyncIterator[Site]:
    """Of kube-apiserver, the controllers are missing that count the pods of a budget."""
    async with whole_server.serving(tmp_path) as (config, _), _site(config) as found:
        yield found


async def test_a_cordon_says_for_whom_and_is_undone_by_them_also_after_an_edit(site: Site) -> None:
    assert await site.hold().cordon()
    node = await site.client.get(NODES, site.name)
    assert (node.spec.unschedulable, CordonHolder.read(node.mark)) == (True, site.hold().holder)
    assert await site.hold().cordon()  # again, by the process after a crash
    assert not await site.hold("2").cordon()
    assert not await site.hold("2").release()
    assert await site.cordoned()
    assert await site.hold(generation=7).release()
    node = await site.client.get(NODES, site.name)
    assert (node.spec.unschedulable, node.mark) == (False, None)
    assert not await site.hold().release()


async def test_a_cordon_of_somebody_else_is_left_alone(site: Site) -> None:
    await site.client.patch(core.NODES, site.name, "", MergePatch({"spec": {"unschedulable": True}}))
    assert not await site.hold().cordon()
    assert not await site.hold().release()
    assert await site.cordoned()


async def test_what_somebody_else_wrote_into_the_annotation_is_not_ours(site: Site) -> None:
    body = {"metadata": {"annotations": {CORDONED: "by hand"}}, "spec": {"unschedulable": True}}
    await site.client.patch(core.NODES, site.name, "", MergePatch(body))
    assert not await site.hold().cordon()
    assert not await site.hold().release()
    assert await site.cordoned()


async def test_pods_are_gone_before_a_node_counts_as_drained(site: Site) -> None:
    await site.pod("web")
    await site.pod("daemon", kind="DaemonSet")
    await site.pod("bare", kind="")
    elsewhere = NodeHold(site.client, f"{site.name}-2", site.hold().holder)
    assert not (await elsewhere.drain(ALL)).blocked
    found = await site.hold().drain(ALL)
    assert found.blocked == {f"{site.name}/web": "it is still terminating"}
    assert found.unmanaged == (f"{site.name}/bare",)
    assert (await site.hold().drain(ALL)).blocked  # terminating is not gone
    await site.bury()
    assert not (await site.hold().drain(ALL)).blocked
    left = (await site.client.list(core.PODS, Selection(site.name))).items
    assert {pod["metadata"]["name"] for pod in left} == {"daemon", "bare"}


async def test_only_the_pods_that_are_meant_leave(site: Site) -> None:
    await site.pod("web")
    await site.pod("db")
    rules = DrainRules(LabelSelector(match_labels={"app": "web"}), grace_period=1)
    assert set((await site.hold().drain(rules)).blocked) == {f"{site.name}/web"}
    db = await site.client.get(core.PODS, "db", site.name)
    web = await site.client.get(core.PODS, "web", site.name)
    assert "deletionTimestamp" not in db["metadata"]
    assert web["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_a_budget_is_respected_and_named(ours: Site) -> None:
    await ours.pod("web")
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    await ours.client.create(BUDGETS, {"metadata": {"name": "web"}, "spec": spec}, ours.name)
    found = await ours.hold().drain(ALL)
    assert f"{ours.name}/web" in found.blocked
    assert "disruption budget" in found.said
    await ours.client.patch(BUDGETS, "web", ours.name, MergePatch({"spec": {"minAvailable": 0}}))
    while (await ours.hold().drain(ALL)).blocked:
        await ours.bury()


async def test_kubernetes_is_told_of_maintenance_and_its_end(site: Site) -> None:
    hold = site.hold()
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    await site.client.patch(
        core.NODES, site.name, "", MergePatch({"status": {"conditions": [ready]}}), subresource="status"
    )
    await hold.say({DRAIN_IN_PROGRESS: "pods are leaving"})
    await hold.say({DRAINED: "", MAINTENANCE_IN_PROGRESS: "its task runs"})
    node = await site.client.get(core.NODES, site.name)
    said = {one["type"]: (one["status"], one.get("message", "")) for one in node["status"]["conditions"]}
    assert said == {
        "Ready": ("True", ""),
        "DrainInProgress": ("False", "nodemanager/monday"),
        "Drained": ("True", "nodemanager/monday"),
        "MaintenanceInProgress": ("True", "nodemanager/monday: its task runs"),
    }
    await hold.release()
    node = await site.client.get(core.NODES, site.name)
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]} == {
        "Ready": "True", "DrainInProgress": "False", "Drained": "False", "MaintenanceInProgress": "False",
    }  # fmt: skip


async def test_no_node_is_no_trouble(site: Site) -> None:
    hold = NodeHold(site.client, "elsewhere", site.hold().holder)
    assert await hold.node() is None
    assert not await hold.cordon()
    assert not await hold.release()


async def test_what_the_opt_in_role_allows_is_enough_and_without_it_nothing_is(site: Site) -> None:
    config = await site.account("nodemanager-operator")
    await site.pod("web")
    async with connected(config) as client:
        hold = site.hold(client=client)
        for asked in (hold.node(), hold.cordon(), hold.drain(ALL)):
            with pytest.raises(errors.Forbidden):
                await asked
        role, binding = assembly.disruption_manifests(site.name)
        unique = f"{role['metadata']['name']}-{site.name}"
        role["metadata"]["name"] = binding["metadata"]["name"] = binding["roleRef"]["name"] = unique
        await site.client.create(core.CLUSTER_ROLES, role)
        await site.client.create(core.CLUSTER_ROLE_BINDINGS, binding)
        async with asyncio.timeout(90):
            while True:
                with contextlib.suppress(errors.Forbidden):  # rights take a moment in kube-apiserver
                    assert await hold.cordon()
                    break
        assert (await hold.drain(ALL)).blocked
        await hold.say({DRAINED: ""})
        assert await hold.release()
    await site.client.delete(core.CLUSTER_ROLE_BINDINGS, unique)
    await site.client.delete(core.CLUSTER_ROLES, unique)


async def test_a_node_whose_host_is_gone_is_given_back(place: Place) -> None:
    """The visit is written on the host, and goes with it; the cordon says itself whose it is."""
    name = f"host-{uuid.uuid4().hex[:8]}"
    now = datetime.now(UTC)
    claim = Claim("monday", "1", "h", "r", 0, State.DRAINING, now, now, now)
    meta = {"name": name, "annotations": {ANNOTATION_VISIT: claims.encode(claim)}}
    async with connected(whole_server.load(place.kubeconfig)) as client:
        await client.create(core.NODES, {"metadata": {"name": name}})
        await client.create(MANAGED_NODES, {"metadata": meta}, place.namespace)
        hold = NodeHold(client, name, CordonHolder(place.namespace, "monday", "1"))
        assert await hold.cordon()
        given = Dependencies(client, place.namespace, Registry(), runner.companion, leader_elect=False)
        manager = assembly.assemble(given, [disruption.REGISTRATION]).manager
        async with running.operator(manager):
            assert await _cordoned(client, name)
            await client.delete(MANAGED_NODES, name, place.namespace)
            async with asyncio.timeout(90):
                while await _cordoned(client, name):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        await client.delete(core.NODES, name)


async def _cordoned(client: Client, name: str) -> bool:
    return (await client.get(NODES, name)).spec.unschedulable
