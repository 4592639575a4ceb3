"""`nodemanager server` as a real process, with our own client, our commands and kubectl."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api import kinds
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client import subresources
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Call, Selection
from nodemanager.client.patches import ApplyPatch, MergePatch
from nodemanager.kube import errors, manifests
from nodemanager.kube.core import CRDS, LEASES, SERVICE_ACCOUNTS, Lease
from nodemanager.kube.objects import ObjectMeta, Resource, Untyped
from nodemanager.runtime.cache import Cache
from support import cases, cli, server_process
from support.clients import Tokens, connected
from support.scripted_server import until
from support.server_process import NAMESPACE, Server

ROLES: Resource[Untyped] = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", dict)
BINDINGS: Resource[Untyped] = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", dict)
SET: dict[str, Any] = {
    "metadata": {"name": "clock", "labels": {"role": "web"}},
    "spec": {"packages": [{"name": "chrony"}], "files": [{"path": "/etc/chrony.conf", "content": "x\n"}]},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with server_process.running(tmp_path / "data", first=True) as started:
        yield started


async def test_objects_are_created_watched_changed_and_deleted(server: Server) -> None:
    async with connected(server.config()) as client:
        cache = Cache(client, CONFIG_SETS, Selection(NAMESPACE))
        told: list[tuple[bool, bool]] = []
        cache.subscribe(lambda change: told.append((change.old is not None, change.new is not None)))
        following = asyncio.create_task(cache.run())
        await asyncio.wait_for(cache.synced(), 50)
        made = await client.create(CONFIG_SETS, SET, NAMESPACE)
        assert made.spec.drift == "repair"  # a default of the schema
        assert made.metadata.generation == 1
        patched = await client.patch(CONFIG_SETS, "clock", NAMESPACE, MergePatch({"spec": {"priority": 7}}))
        assert (patched.spec.priority, patched.metadata.generation) == (7, 2)
        applied = await client.patch(
            CONFIG_SETS, "clock", NAMESPACE, ApplyPatch({"metadata": {"labels": {"by": "apply"}}})
        )
        assert applied.metadata.labels == {"role": "web", "by": "apply"}
        stale = {"metadata": {"resourceVersion": made.metadata.resource_version}, "spec": {"priority": 1}}
        with pytest.raises(errors.Conflict):
            await client.patch(CONFIG_SETS, "clock", NAMESPACE, MergePatch(stale))
        await client.delete(CONFIG_SETS, "clock", NAMESPACE)
        await until(lambda: told[-1:] == [(True, False)])
        assert told == [(False, True), (True, True), (True, True), (True, False)]
        following.cancel()
        await asyncio.wait({following})


async def test_a_large_list_arrives_whole(server: Server) -> None:
    async with connected(server.config()) as client:
        text = "\u00e4" * 100_000
        for name in ("one", "two", "three"):
            spec = {"files": [{"path": "/etc/large", "content": text}]}
            await client.create(CONFIG_SETS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
        page = await client.list(CONFIG_SETS, Selection(NAMESPACE))
        assert [item.spec.files[0].content == text for item in page.items] == [True] * 3


async def test_a_bad_manifest_is_refused_by_field(server: Server) -> None:
    async with connected(server.config()) as client:
        bad = {"metadata": {"name": "bad"}, "spec": {"files": [{"path": "/x", "ensure": "sometimes"}]}}
        with pytest.raises(errors.Invalid) as e:
            await client.create(CONFIG_SETS, bad, NAMESPACE)
        assert e.value.causes[0].field == "spec.files[0].ensure"
        with pytest.raises(errors.NotFound, match='namespaces "nowhere" not found'):
            await client.create(CONFIG_SETS, SET, "nowhere")


async def test_what_was_acknowledged_survives_a_kill(server: Server) -> None:
    async with connected(server.config()) as client:
        for number in range(20):
            await client.create(LEASES, Lease(metadata=ObjectMeta(name=f"lease-{number}")), NAMESPACE)
        before = await client.list(LEASES, Selection(NAMESPACE))
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    server.start()
    async with connected(server.config()) as client:
        after = await client.list(LEASES, Selection(NAMESPACE))
        assert after.items == before.items
        assert int(after.resource_version) >= int(before.resource_version)
        nodes = await client.list(MANAGED_NODES, Selection(NAMESPACE))
        assert nodes.items == []
    assert server.stop() == 0


async def test_who_is_nobody_and_who_has_few_rights(server: Server) -> None:
    config = server.config()
    async with connected(config) as admin:
        await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": "host"}}, NAMESPACE)
        rules = [{"apiGroups": [CONFIG_SETS.group], "resources": ["configsets"], "verbs": ["get", "list"]}]
        await admin.create(ROLES, {"metadata": {"name": "reader"}, "rules": rules}, NAMESPACE)
        subject = {"kind": "ServiceAccount", "name": "host", "namespace": NAMESPACE}
        role = {"apiGroup": ROLES.group, "kind": "Role", "name": "reader"}
        binding = {"metadata": {"name": "reader"}, "roleRef": role, "subjects": [subject]}
        await admin.create(BINDINGS, binding, NAMESPACE)
        issued = await subresources.request_token(admin, "host", NAMESPACE, seconds=600)
    anonymous = ClientConfig(config.server, ca=config.ca)
    async with connected(anonymous) as nobody:
        with pytest.raises(errors.Forbidden, match='User "system:anonymous" cannot list'):
            await nobody.list(CONFIG_SETS, Selection(NAMESPACE))
    async with connected(ClientConfig(config.server, ca=config.ca, credentials=Tokens("nonsense"))) as liar:
        with pytest.raises(errors.Unauthorized):
            await liar.list(CONFIG_SETS, Selection(NAMESPACE))
    async with connected(ClientConfig(config.server, ca=config.ca, credentials=Tokens(issued.token))) as host:
        assert (await host.list(CONFIG_SETS, Selection(NAMESPACE))).items == []
        with pytest.raises(errors.Forbidden, match='cannot create resource "configsets"'):
            await host.create(CONFIG_SETS, SET, NAMESPACE)
        with pytest.raises(errors.Forbidden):
            await host.create(ROLES, {"metadata": {"name": "more"}, "rules": rules}, NAMESPACE)


async def test_an_apply_that_creates_needs_the_right_to_create(server: Server) -> None:
    config = server.config()
    async with connected(config) as admin:
        await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": "host"}}, NAMESPACE)
        rules = [{"apiGroups": [LEASES.group], "resources": ["leases"], "verbs": ["get", "patch"]}]
        await admin.create(ROLES, {"metadata": {"name": "patcher"}, "rules": rules}, NAMESPACE)
        subject = {"kind": "ServiceAccount", "name": "host", "namespace": NAMESPACE}
        role = {"apiGroup": ROLES.group, "kind": "Role", "name": "patcher"}
        binding = {"metadata": {"name": "patcher"}, "roleRef": role, "subjects": [subject]}
        await admin.create(BINDINGS, binding, NAMESPACE)
        await admin.create(LEASES, Lease(metadata=ObjectMeta(name="there")), NAMESPACE)
        issued = await subresources.request_token(admin, "host", NAMESPACE, seconds=600)
    async with connected(ClientConfig(config.server, ca=config.ca, credentials=Tokens(issued.token))) as host:
        mine = ApplyPatch({"spec": {"holderIdentity": "me"}})
        assert (await host.patch(LEASES, "there", NAMESPACE, mine)).spec.holder_identity == "me"
        with pytest.raises(errors.Forbidden, match='cannot create resource "leases"'):
            await host.patch(LEASES, "new", NAMESPACE, mine)


async def test_bodies_that_would_hold_the_server_up_are_refused(server: Server) -> None:
    async with connected(server.config()) as client:
        path = LEASES.path(NAMESPACE)

        async def post(body: bytes, content_type: str = "application/json") -> None:
            async with asyncio.timeout(90):
                await client.send(Call("POST", path, "try", {}, body, content_type))

        deep = b'{"metadata":{"name":"x"},"spec":' + b'{"a":' * 600 + b"1" + b"}" * 601
        with pytest.raises(errors.BadRequest, match="nested deeper"):
            await post(deep)
        many = b",".join(b'"k%d":1' % number for number in range(200_000))
        with contextlib.suppress(errors.StatusError):  # whether with a warning or not: soon
            await post(b'{"metadata":{"name":"d"},"spec":{"a":1,"a":1},"x":{' + many + b"}}")
        with pytest.raises(errors.BadRequest, match="send JSON"):
            await post(b"a:\n" + b"- [1, 2]\n" * 60_000, "application/yaml")
        text = {"type": "string", "pattern": "((a?){50}){50}a{50}"}
        crd = {
            "metadata": {"name": "bombs.test.example"},
            "spec": {
                "group": "test.example", "scope": "Namespaced",
                "names": {"plural": "bombs", "singular": "bomb", "kind": "Bomb", "listKind": "BombList"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"s": text},
                }}}],
            },
        }  # fmt: skip
        with contextlib.suppress(errors.Invalid):  # refused, or harmless
            await client.create(CRDS, crd)
            bombs: Resource[Untyped] = Resource("test.example", "v1", "Bomb", "bombs", dict)
            async with asyncio.timeout(90):
                with contextlib.suppress(errors.Invalid):
                    await client.create(bombs, {"metadata": {"name": "x"}, "s": "a" * 50}, NAMESPACE)
        await client.list(LEASES, Selection(NAMESPACE))  # it still answers


def test_the_commands_work_without_a_cluster(server: Server) -> None:
    installed = server.cli("crds", "--install").stdout.splitlines()
    assert len(installed) > len(kinds.KINDS)
    assert all(line.endswith(" unchanged") for line in installed)
    assert "No resources found" in server.cli("get", "mn").stderr
    listed = server.cli("get", "mn,cs", "-A")
    assert listed.returncode == 0, listed.stderr


async def test_what_is_not_served_is_refused_by_name(server: Server) -> None:
    async with connected(server.config()) as client:
        deployments: Resource[Untyped] = Resource("apps", "v1", "Deployment", "deployments", dict)
        group = "admissionregistration.k8s.io"
        admission: list[Resource[Untyped]] = [
            Resource(group, "v1", kind, plural, dict, namespaced=False)
            for kind, plural in (
                ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
                ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
            )
        ]
        for resource in (deployments, *admission):
            with pytest.raises(errors.NotFound):
                await client.list(resource, Selection(NAMESPACE if resource.namespaced else ""))


@pytest.mark.execs
def test_up_serves_and_operates_without_a_cluster_and_stops_clean(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    data, root = tmp_path / "data", tmp_path / "root"
    root.mkdir()
    argv = [*cli.ARGV, "up", "--root", str(root), "--data-dir", str(data)]
    log = tmp_path / "up.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*argv, "--bind-address", "127.0.0.1:0"], stdout=file, stderr=file, env=environ
        )
    try:
        deadline = time.monotonic() + 50
        while "leads now" not in log.read_text() and time.monotonic() < deadline:
            assert process.poll() is None, log.read_text()
            time.sleep(0.02)
        text = log.read_text()
        assert "leads now" in text, text
        assert f"export KUBECONFIG={data / 'admin.kubeconfig'}" in text
        process.send_signal(signal.SIGINT)
        assert process.wait(50) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait(50)


def test_files_are_private_and_a_second_server_is_refused(server: Server) -> None:
    assert server.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert server.folder.stat().st_mode & 0o077 == 0
    argv = [sys.executable, "-m", "nodemanager", "server", "--data-dir", str(server.folder)]
    second = subprocess.run(
        [*argv, "--bind-address", "127.0.0.1:0"], capture_output=True, text=True, timeout=50, check=False
    )
    assert second.returncode == 1
    assert "state.db" in second.stderr
    assert "Traceback" not in second.stderr


def test_backup_while_running_and_restore_after(server: Server, tmp_path: Path) -> None:
    def run(verb: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "nodemanager", "server", verb, "--data-dir", str(server.folder)]
        return subprocess.run(
            [*argv, str(tmp_path / "copy.db")], capture_output=True, text=True, timeout=50, check=False
        )

    done = run("backup")
    assert done.returncode == 0, done.stderr
    refused = run("restore")
    assert refused.returncode == 1
    assert "stop" in refused.stderr
    assert server.stop() == 0
    done = run("restore")
    assert done.returncode == 0, done.stderr
    server.start()


@pytest.mark.parametrize("verdict", ["accepted", "refused"])
async def test_manifests_are_judged_as_by_kube_apiserver(server: Server, verdict: str) -> None:
    """The cases that tests/contract/test_crds.py puts to the real one, with the same expectations."""
    judged = 0
    async with server_process.admin_session(server) as http:
        for parameter in cases.manifests(verdict):
            path = parameter.values[0]
            assert isinstance(path, Path)
            for obj in manifests.load_all(path.read_text(encoding="utf-8"), path.name):
                plural = next(e.resource.plural for e in kinds.KINDS if e.resource.kind == obj["kind"])
                url = f"/apis/{obj['apiVersion']}/namespaces/{NAMESPACE}/{plural}"
                query = {"dryRun": "All", "fieldValidation": "Strict"}
                async with http.post(url, json=obj, params=query) as response:
                    answer = await response.json()
                assert (response.status == 201) == (verdict == "accepted"), f"{path.name}: {answer}"
                for fragment in cases.expected_fragments(path) if verdict == "refused" else ():
                    assert fragment in answer["message"], f"{path.name}: {answer}"
                judged += 1
    assert judged >= 7


async def test_a_namespace_that_somebody_made_before_is_used(tmp_path: Path) -> None:
    """`kubectl create namespace nodemanager` comes first in many a guide."""
    with server_process.running(tmp_path / "data", first=True) as server:
        async with server_process.admin_session(server) as http:
            body = {"metadata": {"name": NAMESPACE, "labels": {"by": "hand"}}}
            async with http.post("/api/v1/namespaces", json=body) as response:
                assert (await response.json())["reason"] == "AlreadyExists"
            async with http.delete(f"/api/v1/namespaces/{NAMESPACE}") as response:
                assert response.status == 200
            status = 409
            while status == 409:  # until the old one is gone
                async with http.post("/api/v1/namespaces", json=body) as response:
                    status = response.status
            assert status == 201
        server.stop()
        server.start()
        path = f"/api/v1/namespaces/{NAMESPACE}"
        async with server_process.admin_session(server) as http, http.get(path) as response:
            assert (await response.json())["metadata"]["labels"]["by"] == "hand"
