"""kubectl against the embedded server, over plain HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from nodemanager.api import manifests
from nodemanager.api.crds import all_crds
from support.embedded import serving

Kubectl = Callable[..., Awaitable[str]]
NODE = """\
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: h1, namespace: default, labels: {a: b}}
spec: {}
"""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on PATH")
    async with serving() as server:

        async def run(*args: str, stdin: str = "") -> str:
            argv = ["kubectl", "--server", server.server, "--cache-dir", str(tmp_path), *args]
            done = await asyncio.to_thread(
                subprocess.run, argv, input=stdin, capture_output=True, text=True, timeout=50
            )
            return str(done.stdout + done.stderr)

        definitions = manifests.dump(all_crds())
        assert "created" in await run("create", "--validate=false", "-f", "-", stdin=definitions)
        yield run


async def test_an_object_from_apply_to_delete(kubectl: Kubectl) -> None:
    apply = ("apply", "--validate=false", "-f", "-")
    assert "managednode.common.nodemanager/h1 created" in await kubectl(*apply, stdin=NODE)
    assert "managednode.common.nodemanager/h1 unchanged" in await kubectl(*apply, stdin=NODE)
    assert "serverside-applied" in await kubectl(*apply, "--server-side", "--force-conflicts", stdin=NODE)
    assert "labeled" in await kubectl("label", "mn", "h1", "x=y")
    assert "annotated" in await kubectl("annotate", "mn", "h1", "q=z")
    patched = await kubectl("patch", "mn", "h1", "--type=merge", "-p", '{"spec":{"nope":1}}')
    assert 'Warning: unknown field "spec.nope"' in patched
    shown = json.loads(await kubectl("get", "mn", "h1", "-o", "json"))
    assert shown["metadata"]["labels"] == {"a": "b", "x": "y"}
    wide = await kubectl("get", "managednodes", "-l", "x=y", "-o", "wide")
    assert [line.split()[0] for line in wide.splitlines()] == ["NAME", "h1"]
    assert 'managednode.common.nodemanager "h1" deleted' in await kubectl("delete", "mn", "h1")
    assert 'managednodes.common.nodemanager "h1" not found' in await kubectl("get", "mn", "h1")


async def test_create_commands_that_send_protobuf(kubectl: Kubectl) -> None:
    assert "namespace/foo created" in await kubectl("create", "namespace", "foo")
    for command in (
        ("configmap", "c", "--from-literal=a=b"), ("secret", "generic", "s", "--from-literal=a=b"),
        ("serviceaccount", "a"), ("role", "r", "--verb=get", "--resource=pods"),
        ("rolebinding", "b", "--role=r", "--user=u"), ("pdb", "p", "--selector=a=b", "--min-available=50%"),
    ):  # fmt: skip
        assert "created" in await kubectl("create", *command, "-n", "foo")
    jsonpath = "jsonpath={.data.a}"
    assert await kubectl("get", "secret", "s", "-n", "foo", "-o", jsonpath) == "Yg=="
    assert 'namespace "foo" deleted' in await kubectl("delete", "namespace", "foo", "--timeout=20s")
    assert "NotFound" in await kubectl("get", "namespace", "foo")


async def test_waiting_and_discovery(kubectl: Kubectl) -> None:
    waited = await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=10s")
    assert waited.count("condition met") == 2
    listed = await kubectl("api-resources", "--api-group=common.nodemanager", "-o", "name")
    assert listed.split() == ["configsets.common.nodemanager", "managednodes.common.nodemanager"]
    assert "doesn't have a resource type" in await kubectl("get", "deployments")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
async def test_deletions_that_cascade(kubectl: Kubectl, cascade: str) -> None:
    await kubectl("create", "configmap", "owner")
    uid = await kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    await kubectl("create", "configmap", "owned")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
    assert "patched" in await kubectl("patch", "configmap", "owned", "-p", patch)
    deleted = await kubectl("delete", "configmap", "owner", f"--cascade={cascade}", "--timeout=20s")
    assert deleted.startswith('configmap "owner" deleted')
    if cascade == "orphan":
        owners = "jsonpath={.metadata.ownerReferences}"
        assert await kubectl("get", "configmap", "owned", "-o", owners) == ""
    else:
        await kubectl("wait", "--for=delete", "configmap/owned", "--timeout=20s")
        assert 'configmaps "owned" not found' in await kubectl("get", "configmap", "owned")
    assert 'configmaps "owner" not found' in await kubectl("get", "configmap", "owner")
