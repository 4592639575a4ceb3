"""`kubectl drain` against the embedded server and against kube-apiserver, and what only the former does."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client import subresources
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import DeleteOptions, Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped
from support import whole_server
from support.clients import Tokens, connected

PODS: Resource[Untyped] = Resource("", "v1", "Pod", "pods", dict)
NODES: Resource[Untyped] = Resource("", "v1", "Node", "nodes", dict, namespaced=False)
NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
ACCOUNTS: Resource[Untyped] = Resource("", "v1", "ServiceAccount", "serviceaccounts", dict)
BUDGETS: Resource[Untyped] = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict)
ROLES: Resource[Untyped] = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", dict)
CLUSTER_ROLES: Resource[Untyped] = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", dict, namespaced=False
)
BINDINGS: Resource[Untyped] = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", dict)


@dataclass
class Cluster:
    """One of the two servers, as its administrator sees it, with a namespace and a Node of our own."""

    client: Client
    config: Path
    name: str = field(default_factory=lambda: f"drain-{uuid.uuid4().hex[:8]}")

    async def pod(self, name: str, **spec: Any) -> None:
        """Store a ready pod on the Node."""
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "automountServiceAccountToken": False,
            "nodeName": self.name,
            **spec,
        }
        meta = {"name": name, "labels": {"app": "web"}}
        await self.client.create(PODS, {"metadata": meta, "spec": spec}, self.name)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch(PODS, name, self.name, MergePatch({"status": status}), subresource="status")

    async def budget(self, **spec: Any) -> None:
        spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
        await self.client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec}, self.name)

    async def status(self) -> Untyped:
        found: Untyped = (await self.client.get(BUDGETS, "b", self.name))["status"]
        return found

    async def pods(self) -> list[str]:
        return [one["metadata"]["name"] for one in (await self.client.list(PODS, Selection(self.name))).items]

    async def drain(self, *args: str) -> subprocess.CompletedProcess[str]:
        argv = ["kubectl", "--kubeconfig", str(self.config), "drain", self.name, "--force", *args]
        return await asyncio.to_thread(
            subprocess.run, argv, capture_output=True, text=True, timeout=50, check=False
        )

    async def bury(self) -> None:
        """Play the node's part: delete for good what is being terminated, until cancelled."""
        while True:
            for one in (await self.client.list(PODS, Selection(self.name))).items:
                if "deletionTimestamp" in one["metadata"]:
                    gone = DeleteOptions(grace_period=0)
                    await self.client.delete(PODS, one["metadata"]["name"], self.name, options=gone)
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def _cluster(config: ClientConfig, path: Path) -> AsyncIterator[Cluster]:
    async with connected(config) as client:
        cluster = Cluster(client, path)
        await client.create(NAMESPACES, {"metadata": {"name": cluster.name}})
        await client.create(NODES, {"metadata": {"name": cluster.name}})
        yield cluster


@pytest.fixture
def kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on PATH")


@pytest.fixture
async def ours(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with whole_server.serving(tmp_path) as (config, path), _cluster(config, path) as cluster:
        yield cluster


@pytest.fixture(
    params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.xdist_group("apiserver"))]
)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    if request.param == "embedded":
        async with whole_server.serving(tmp_path) as (config, path), _cluster(config, path) as found:
            yield found
    else:
        kube = request.getfixturevalue("kube")
        async with _cluster(whole_server.load(kube.kubeconfig), kube.kubeconfig) as found:
            yield found


@pytest.mark.usefixtures("kubectl")
async def test_a_drain_cordons_evicts_and_ends(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.pod(name)
    await cluster.pod("c", terminationGracePeriodSeconds=0)
    node = asyncio.create_task(cluster.bury())
    done = await cluster.drain("--timeout=30s")
    node.cancel()
    assert done.returncode == 0, done.stderr
    for name in ("a", "b", "c"):
        assert f"evicting pod {cluster.name}/{name}" in done.stdout + done.stderr
        assert f"pod/{name} evicted" in done.stdout
    assert await cluster.pods() == []
    assert (await cluster.client.get(NODES, cluster.name, ""))["spec"]["unschedulable"] is True


@pytest.mark.usefixtures("kubectl")
async def test_a_pod_that_nobody_runs_stays_until_somebody_deletes_it(cluster: Cluster) -> None:
    await cluster.pod("a")
    done = await cluster.drain("--timeout=5s")
    assert done.returncode == 1
    assert 'error when waiting for pod "a"' in done.stderr
    found = await cluster.client.get(PODS, "a", cluster.name)
    assert "deletionTimestamp" in found["metadata"]
    done = await cluster.drain("--timeout=40s", "--grace-period=0")
    assert done.returncode == 0, done.stderr
    assert await cluster.pods() == []


@pytest.mark.usefixtures("kubectl")
async def test_a_drain_waits_for_the_budget(ours: Cluster) -> None:
    for name in ("a", "b"):
        await ours.pod(name)
    await ours.budget(maxUnavailable=1)
    node = asyncio.create_task(ours.bury())
    done = await ours.drain("--timeout=40s")
    node.cancel()
    assert done.returncode == 0, done.stderr
    assert "would violate the pod's disruption budget" in done.stderr
    assert await ours.pods() == []


@pytest.mark.usefixtures("kubectl")
async def test_a_drain_gives_up_when_the_budget_never_lets_it(ours: Cluster) -> None:
    await ours.pod("a")
    await ours.budget(minAvailable=1)
    done = await ours.drain("--timeout=5s")
    assert done.returncode == 1
    assert await ours.pods() == ["a"]
    assert "deletionTimestamp" not in (await ours.client.get(PODS, "a", ours.name))["metadata"]


async def test_the_status_of_a_budget_follows_its_pods(ours: Cluster) -> None:
    await ours.budget(minAvailable="50%")
    for name in ("a", "b", "c"):
        await ours.pod(name)

    async def reaches(allowed: int, expected: int, disrupted: Untyped | None = None) -> Untyped:
        wanted = (allowed, expected, disrupted)
        async with asyncio.timeout(50):
            while True:
                seen = await ours.status()
                counts = (seen["disruptionsAllowed"], seen["expectedPods"], seen.get("disruptedPods"))
                if counts == wanted:
                    return seen

    assert (await reaches(1, 3))["conditions"][0]["reason"] == "SufficientPods"
    await subresources.evict(ours.client, "a", ours.name)
    assert (await reaches(0, 3))["conditions"][0]["reason"] == "InsufficientPods"
    await ours.client.delete(PODS, "a", ours.name, options=DeleteOptions(grace_period=0))
    await reaches(1, 2)


async def test_evicting_is_a_right_of_its_own(ours: Cluster) -> None:
    await ours.pod("a", terminationGracePeriodSeconds=0)
    await ours.client.create(ACCOUNTS, {"metadata": {"name": "drainer"}}, ours.name)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]
    await ours.client.create(ROLES, {"metadata": {"name": "drainer"}, "rules": rules}, ours.name)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "drainer"}
    subject = {"kind": "ServiceAccount", "name": "drainer", "namespace": ours.name}
    binding = {"metadata": {"name": "drainer"}, "roleRef": ref, "subjects": [subject]}
    await ours.client.create(BINDINGS, binding, ours.name)
    issued = await subresources.request_token(ours.client, "drainer", ours.name, seconds=600)
    config = whole_server.load(ours.config)
    config = ClientConfig(config.server, ca=config.ca, credentials=Tokens(issued.token))
    async with connected(config) as drainer:
        with pytest.raises(errors.Forbidden, match='cannot create resource "pods/eviction"'):
            await subresources.evict(drainer, "a", ours.name)
        rules.append({"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]})
        await ours.client.patch(ROLES, "drainer", ours.name, MergePatch({"rules": rules}))
        await subresources.evict(drainer, "a", ours.name)
    assert await ours.pods() == []


async def test_default_roles_show_the_rules_they_grant(ours: Cluster) -> None:
    view = await ours.client.get(CLUSTER_ROLES, "view", "")
    assert view["rules"]
    admin = await ours.client.get(CLUSTER_ROLES, "admin", "")
    assert any("pods/eviction" in one["resources"] for one in admin["rules"])
    extra = {"apiGroups": ["likeness.test"], "resources": ["widgets"], "verbs": ["get"]}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await ours.client.create(CLUSTER_ROLES, {"metadata": {"name": "w", "labels": labels}, "rules": [extra]})
    async with asyncio.timeout(50):
        for name in ("view", "edit", "admin"):
            while extra not in (await ours.client.get(CLUSTER_ROLES, name, ""))["rules"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_what_was_spent_survives_a_restart(tmp_path: Path) -> None:
    async with whole_server.serving(tmp_path) as (config, path), _cluster(config, path) as first:
        await first.pod("a")
        await first.budget(minAvailable=0)
        with pytest.raises(errors.Conflict):
            await _evict_another(first)
    async with whole_server.serving(tmp_path) as (config, path), connected(config) as client:
        status = (await client.get(BUDGETS, "b", first.name))["status"]
        assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])


async def _evict_another(cluster: Cluster) -> None:
    """Spend the budget on a pod that is then found to be another one."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a"},
        "deleteOptions": {"preconditions": {"uid": "another"}},
    }
    await cluster.client.create_subresource(PODS, "a", cluster.name, "eviction", body, retry=False)
