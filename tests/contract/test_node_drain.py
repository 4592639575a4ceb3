"""The agent's own drain, against the embedded server and against kube-apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.upgrades import drain
from nodemanager.agent.upgrades.drain import ANNOTATION_CORDONED, DrainFailed, KubernetesNode
from nodemanager.client import subresources
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import DeleteOptions, Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core
from nodemanager.kube.objects import Resource, Untyped
from support import whole_server
from support.clients import Tokens, connected

NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
BUDGETS: Resource[Untyped] = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict)


@dataclass
class Site:
    """A server with a Node and a namespace of our own."""

    client: Client
    config: ClientConfig
    name: str = field(default_factory=lambda: f"host-{uuid.uuid4().hex[:8]}")

    @property
    def node(self) -> KubernetesNode:
        return KubernetesNode(self.client, self.name, f"nodemanager/{self.name}")

    async def pod(self, name: str, *, kind: str = "ReplicaSet", **spec: Any) -> None:
        """Store a ready pod on the Node; of no controller when `kind` is empty."""
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
        meta = {"name": name, "labels": {"app": name}, "ownerReferences": [owner] if kind else []}
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "automountServiceAccountToken": False,
            "nodeName": self.name,
            **spec,
        }
        await self.client.create(core.PODS, {"metadata": meta, "spec": spec}, self.name)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        patch = MergePatch({"status": status})
        await self.client.patch(core.PODS, name, self.name, patch, subresource="status")

    async def budget(self, name: str) -> None:
        """Say that a pod must stay."""
        spec = {"selector": {"matchLabels": {"app": name}}, "minAvailable": 1}
        await self.client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, self.name)

    async def pods(self) -> dict[str, bool]:
        """Return the pods there are, and whether each is on its way out."""
        found = (await self.client.list(core.PODS, Selection(self.name))).items
        return {one["metadata"]["name"]: "deletionTimestamp" in one["metadata"] for one in found}

    async def bury(self) -> None:
        """Play the kubelet: delete for good what is being terminated."""
        for name, leaving in (await self.pods()).items():
            if leaving:
                gone = DeleteOptions(grace_period=0)
                await self.client.delete(core.PODS, name, self.name, options=gone)

    async def seen(self) -> tuple[bool, str | None]:
        """Return whether the Node is cordoned, and by whom."""
        node = await self.client.get(core.NODES, self.name)
        mark = (node["metadata"].get("annotations") or {}).get(ANNOTATION_CORDONED)
        return bool(node.get("spec", {}).get("unschedulable")), mark


@contextlib.asynccontextmanager
async def _site(config: ClientConfig) -> AsyncIterator[Site]:
    async with connected(config) as client:
        site = Site(client, config)
        await client.create(NAMESPACES, {"metadata": {"name": site.name}})
        await client.create(core.NODES, {"metadata": {"name": site.name}})
        yield site


@pytest.fixture
async def ours(tmp_path: Path) -> AsyncIterator[Site]:
    async with whole_server.serving(tmp_path) as (config, _), _site(config) as site:
        yield site


@pytest.fixture(
    params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.xdist_group("apiserver"))]
)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    if request.param == "embedded":
        async with whole_server.serving(tmp_path) as (config, _), _site(config) as found:
            yield found
    else:
        kube = request.getfixturevalue("kube")
        async with _site(whole_server.load(kube.kubeconfig)) as found:
            yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(drain, "MAX_PAUSE", 0.1)


async def test_a_cordon_is_marked_and_undone(site: Site) -> None:
    assert await site.node.cordon()
    assert await site.seen() == (True, f"nodemanager/{site.name}")
    assert await site.node.cordon()  # again, by the process after a crash
    assert await site.node.uncordon()
    assert await site.seen() == (False, None)
    assert not await site.node.uncordon()


async def test_a_cordon_of_somebody_else_is_left_alone(site: Site) -> None:
    body = MergePatch({"spec": {"unschedulable": True}})
    await site.client.patch(core.NODES, site.name, "", body)
    assert not await site.node.cordon()
    assert not await site.node.uncordon()
    assert await site.seen() == (True, None)


async def test_what_has_to_leave_leaves_and_the_rest_stays(site: Site) -> None:
    await site.pod("web", volumes=[{"name": "v", "emptyDir": {}}])
    await site.pod("daemon", kind="DaemonSet")
    await site.pod("bare", kind="")
    await site.pod("done")
    done = MergePatch({"status": {"phase": "Succeeded"}})
    await site.client.patch(core.PODS, "done", site.name, done, subresource="status")
    draining = asyncio.create_task(site.node.drain(120))
    async with asyncio.timeout(90):
        while not (await site.pods())["web"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    assert not draining.done()  # it is still terminating
    await site.bury()
    async with asyncio.timeout(90):
        await draining
    assert await site.pods() == {"daemon": False, "bare": False, "done": False}


async def test_a_budget_is_waited_for(ours: Site) -> None:
    await ours.pod("web", terminationGracePeriodSeconds=0)
    await ours.budget("web")
    draining = asyncio.create_task(ours.node.drain(120))
    await asyncio.sleep(0.5)
    assert not draining.done()
    assert await ours.pods() == {"web": False}
    await ours.client.patch(BUDGETS, "web", ours.name, MergePatch({"spec": {"minAvailable": 0}}))
    async with asyncio.timeout(90):
        await draining
    assert await ours.pods() == {}


async def test_a_budget_that_never_allows_it_is_named(ours: Site) -> None:
    await ours.pod("web")
    await ours.budget("web")
    with pytest.raises(DrainFailed, match=rf"within 0.5 s: {ours.name}/web: .*disruption budget"):
        await ours.node.drain(0.5)
    assert await ours.pods() == {"web": False}


async def test_a_pod_that_does_not_end_is_named(site: Site) -> None:
    await site.pod("web")
    with pytest.raises(DrainFailed, match=rf"{site.name}/web: it is still terminating"):
        await site.node.drain(0.5)


async def test_without_rights_there_is_no_node(ours: Site, caplog: pytest.LogCaptureFixture) -> None:
    await ours.client.create(core.SERVICE_ACCOUNTS, {"metadata": {"name": "host"}}, ours.name)
    issued = await subresources.request_token(ours.client, "host", ours.name, seconds=600)
    config = ClientConfig(ours.config.server, ca=ours.config.ca, credentials=Tokens(issued.token))
    await ours.pod("web")
    async with connected(config) as client:
        node = KubernetesNode(client, ours.name, "x")
        with caplog.at_level(logging.WARNING):
            assert not await node.cordon()
            await node.drain(5)
            assert await node.ready()
            assert not await node.uncordon()
    assert len([one for one in caplog.records if "no Kubernetes Node" in one.message]) == 1
    assert await ours.seen() == (False, None)
    assert await ours.pods() == {"web": False}


async def test_no_node_is_no_trouble(site: Site) -> None:
    node = KubernetesNode(site.client, "elsewhere", "x")
    assert not await node.cordon()
    await node.drain(5)
    assert await node.ready()
    assert not await node.uncordon()


async def test_ready_is_what_the_kubelet_says_in_this_boot(site: Site) -> None:
    assert await site.node.ready()

    async def says(status: str, boot: str) -> None:
        # kube-apiserver wants all of nodeInfo
        names = ("machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion",
                 "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture")  # fmt: skip
        info = dict.fromkeys(names, "") | {"bootID": boot}
        body = {"status": {"conditions": [{"type": "Ready", "status": status}], "nodeInfo": info}}
        await site.client.patch(core.NODES, site.name, "", MergePatch(body), subresource="status")

    await says("False", "a")
    assert not await site.node.ready()
    await says("True", "a")
    assert await site.node.ready()
    assert not await site.node.ready("a")
    await says("True", "b")
    assert await site.node.ready("a")
