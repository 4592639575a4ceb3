"""A pod of the DaemonSet becomes the host it runs on, and no other; on both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodemanager.client.auth import host_kubeconfig, kubeconfig
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly
from nodemanager.host.process import runner
from nodemanager.kube import core, errors, manifests
from support import daemonset_pod
from support.agent_process import Api, Starts
from support.apiserver import free_port
from support.clients import connected
from support.either import Place
from support.joined_host import ask, guard, join, succeeds

FORBIDDEN = 403
ACCOUNT = daemonset_pod.ACCOUNT


@pytest.fixture(name="guarded", autouse=True)
async def _guarded(place: Place, tmp_path: Path, api: Api) -> Place:
    """Nodes one and two run the agent as a pod of our namespace; web1 does not."""
    await guard(place, tmp_path)
    await api.client.create(
        core.SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT, "namespace": place.namespace}}, place.namespace
    )
    for node in ("one", "two"):
        rights = succeeds("rbac", "--hostname", node, "-n", place.namespace, f"--daemonset={place.namespace}")
        place.kubectl("apply", "-f", "-", stdin=rights.stdout)
    await join(place, tmp_path, "web1")
    operator = manifests.dump(assembly.manifests(place.namespace))
    place.kubectl("apply", "-f", "-", stdin=operator)
    return place


async def pod_token(api: Api, node: str) -> str:
    return await daemonset_pod.token(api.client, api.namespace, node)


def write_kubeconfig(place: Place, path: Path, token: str) -> Path:
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    path.write_bytes(host_kubeconfig.kubeconfig(config, "daemonset", place.namespace, token))
    return path


@asynccontextmanager
async def as_pod(place: Place, path: Path, token: str) -> AsyncIterator[Client]:
    written = write_kubeconfig(place, path, token)
    async with connected(kubeconfig.load(path=str(written), environ={}, run=runner.run)) as client:
        yield client


async def test_a_pod_gets_the_token_of_its_own_host_only(place: Place, api: Api, tmp_path: Path) -> None:
    accounts = f"/api/v1/namespaces/{place.namespace}/serviceaccounts"
    async with as_pod(place, tmp_path / "pod", await pod_token(api, "one")) as pod:
        got = {
            name: await ask(pod, "POST", f"{accounts}/nodemanager-{name}/token", {"spec": {}})
            for name in ("one", "two", "web1", "operator", "daemonset")
        }
        assert {name: reply.code for name, reply in got.items()} == {
            "one": 200, "two": FORBIDDEN, "web1": FORBIDDEN, "operator": FORBIDDEN, "daemonset": FORBIDDEN,
        }  # fmt: skip
        assert "that of the node which its token names" in got["two"].message  # RBAC would have let it
        for folder in ("secrets", "configmaps", "pods"):
            assert (await ask(pod, "GET", f"/api/v1/namespaces/{place.namespace}/{folder}")).code == FORBIDDEN


async def test_a_token_that_names_no_node_gets_nothing(place: Place, api: Api, tmp_path: Path) -> None:
    accounts = f"/api/v1/namespaces/{place.namespace}/serviceaccounts"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await api.client.create_subresource(core.SERVICE_ACCOUNTS, ACCOUNT, api.namespace, "token", body)
    async with as_pod(place, tmp_path / "pod", answer["status"]["token"]) as pod:
        for name in ("one", "two", "web1", ""):
            reply = await ask(pod, "POST", f"{accounts}/nodemanager-{name}/token", {"spec": {}})
            assert reply.code == FORBIDDEN, name


async def test_the_agent_in_a_pod_is_its_host(place: Place, api: Api, start: Starts, tmp_path: Path) -> None:
    """It reports as its host with nothing but the pod's token, and cannot pose as another."""
    credential = write_kubeconfig(place, tmp_path / "pod", await pod_token(api, "one"))
    await api.config_set("base", files=[])
    port = free_port()
    agent = start("one", kubeconfig=credential, flags=("--pod-identity",), metrics=f"127.0.0.1:{port}")
    await api.until(lambda node: [one.name for one in node.status.configsets] == ["base"], "one")
    _, metrics = await agent.get(f"127.0.0.1:{port}", "/metrics")
    assert 'nodemanager_token_expiry_timestamp_seconds{node="one"} 1' in metrics
    probes = f"127.0.0.1:{free_port()}"
    other = start("two", kubeconfig=credential, flags=("--pod-identity",), probes=probes)
    await other.logs(f"nodemanager rbac -n {place.namespace} --hostname two --kubernetes-node --daemonset")
    code, why = await other.get(probes, "/readyz?verbose")
    assert code != 200, why
    with pytest.raises(errors.NotFound):
        await api.node("two")
    assert agent.stop() == 0
    text = agent.log.read_text()
    assert "got the token of host one" in text
    assert "orbidden" not in text
    assert (await pod_token(api, "two"))[:40] not in text
