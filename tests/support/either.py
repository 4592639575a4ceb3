"""One of the two servers, as clients see it: a kubeconfig, and a namespace of our own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api import crds
from nodemanager.client.auth import kubeconfig
from nodemanager.client.calls import Call
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import errors
from nodemanager.kube.core import CRDS
from nodemanager.kube.objects import Resource, Untyped
from support import cli, kubeconfigs, server_process
from support.clients import connected

NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)

PRESERVED = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SIZE = {"type": "integer", "minimum": 1}
GADGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.clients.test"},
    "spec": {
        "group": "clients.test",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": SIZE}},
                            "status": PRESERVED,
                        },
                    }
                },
            }
        ],
    },
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A server with our kinds and the gadgets defined. `kubeconfig` names a namespace of our own."""

    kubeconfig: Path
    namespace: str
    cache: Path

    def kubectl(self, *args: str, stdin: str = "", **environ: str) -> str:
        """Run kubectl, which must succeed, and return what it printed."""
        done = self.run(*args, stdin=stdin, **environ)
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, *args: str, stdin: str = "", **environ: str) -> str:
        """Run kubectl, which must fail, and return its complaint."""
        done = self.run(*args, stdin=stdin, **environ)
        assert done.returncode == 1, f"kubectl {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stderr

    def run(self, *args: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl to its end."""
        need_kubectl()
        return subprocess.run(
            ["kubectl", *args], input=stdin, env=self.environ(**environ), capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    def environ(self, **more: str) -> dict[str, str]:
        """Return the environment of a client of this server."""
        home = str(self.cache)  # an old kubectl keeps its cache there
        return cli.environment(KUBECONFIG=str(self.kubeconfig), KUBECACHEDIR=home, HOME=home, **more)

    def shown(self, *args: str) -> Any:
        """Return what `kubectl get` shows, decoded."""
        return json.loads(self.kubectl("get", *args, "-o", "json"))


def need_kubectl() -> None:
    """Skip where there is no kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on PATH: on Debian install kubernetes-client")


@cache
def kubectl_minor() -> int:
    """Return which 1.x kubectl is, or a number above all where there is none: that is told elsewhere."""
    if shutil.which("kubectl") is None:
        return sys.maxsize
    argv = ["kubectl", "version", "--client", "-o", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    return int(json.loads(done.stdout)["clientVersion"]["minor"].rstrip("+"))


def kubectl_since(minor: int, why: str) -> pytest.MarkDecorator:
    """Skip a test where kubectl is older than what the test is about."""
    found = kubectl_minor()
    return pytest.mark.skipif(found < minor, reason=f"kubectl 1.{found} is older than 1.{minor}: {why}")


@contextlib.contextmanager
def own(folder: Path) -> Iterator[Path]:
    """Start `nodemanager server` and return its kubeconfig."""
    with server_process.running(folder / "data") as server:
        yield server.kubeconfig


def prepared(kubeconfig_path: Path, folder: Path, cache: Path) -> Place:
    """Return a server with the kinds we need and a new namespace, and a kubeconfig that points into it."""
    config = yaml.safe_load(kubeconfig_path.read_text())
    name = f"clients-{uuid.uuid4().hex[:8]}"
    for context in config["contexts"]:
        context["context"]["namespace"] = name
    asyncio.run(_prepare(kubeconfig_path, name))
    return Place(Path(kubeconfigs.write(folder / "kubeconfig", config)), name, cache)


_published: set[str] = set()
"""The uids of definitions that a test of this process has waited for: they stay what they are."""


@cache
def _definitions() -> tuple[Untyped, ...]:
    return (*crds.all_crds(), GADGETS)


async def _prepare(path: Path, namespace: str) -> None:
    config = kubeconfig.load(path=str(path), environ={}, run=runner.run)
    async with connected(config) as client, asyncio.timeout(90):
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        if await _uids(client) <= _published:
            return
        for definition in _definitions():
            while not await _is_published(client, definition):
                with contextlib.suppress(errors.AlreadyExists):  # other tests take our kinds away
                    await client.create(CRDS, definition)
        _published.update(await _uids(client))


async def _uids(client: Client) -> set[str]:
    """Return which definitions are there, with a word for each of ours that is not."""
    accepted = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    call = Call("GET", CRDS.path(), "list definitions", {}, accept=accepted)
    listed = json.loads(await client.send(call))
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in listed["items"] or ()}
    names = [one["metadata"]["name"] for one in _definitions()]
    return {uids.get(name, f"no {name}") for name in names}


async def _is_published(client: Client, definition: Untyped) -> bool:
    """Tell whether objects are served and described, which kube-apiserver does some time later."""
    spec = definition["spec"]
    group = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"
    plural = spec["names"]["plural"]
    place = f"{group}/namespaces/{{namespace}}" if spec["scope"] == "Namespaced" else group
    try:
        await client.send(Call("GET", f"{group}/{plural}", "list", {}))
        described = await client.send(Call("GET", f"/openapi/v3{group}", "describe", {}))
    except errors.NotFound:
        return False
    return f"{place}/{plural}".encode() in described
