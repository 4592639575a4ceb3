"""Runs the pods of the DaemonSet as a kubelet would: the script, with the token of its account.

The DaemonSet itself, and what its account may do, are the business of whoever deploys it: the administrator.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nodemanager.api.edge.bridge_parts import Bridge, HealthSource
from nodemanager.client.auth import kubeconfig
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers.edge_clusters.reading import DAEMON_SETS
from nodemanager.host.process import runner
from nodemanager.kube import manifests
from support import cli
from support.either import Place

SCRIPT = Path(__file__).with_name("vx-rail-node-init.sh")
ACCOUNT = "vx-rail-node-init"
CONTAINER = {"name": "init", "image": "registry.example/vx-rail-node-init:1"}


def speaks() -> str:
    """Return what a pod asks the API with, or skip the test: both are programs of somebody else."""
    for one in ("curl", "kubectl"):
        if shutil.which(one):
            return one
    pytest.skip("neither curl nor kubectl on PATH: the DaemonSet in sh asks the API with one of them")


def environment(bridge: Bridge) -> dict[str, str]:
    """Return the names of a profile as the script reads them."""
    state, beats = bridge.state, bridge.heartbeats
    return {
        "COMPONENT": bridge.component,
        "STATE_MAP": state.config_map, "STATE_KEY": state.key, "STATE_FIELD": state.field,
        "DIRECTION_FIELD": state.direction_field, "LOCK_FIELD": state.lock_field,
        "ROLLBACK_WORD": next(iter(state.rollback), ""),
        "BEAT_MAP": beats.config_map, "BEAT_PREFIX": beats.key_prefix, "BEAT_FIELD": beats.field,
        "BEAT_FORMAT": beats.format,
        "HEALTH": " ".join(
            f"{one.key}={one.healthy[0]}"
            for one in (bridge.storage, bridge.network, bridge.virtualisation)
            if isinstance(one, HealthSource)
        ),
    }  # fmt: skip


def rights(bridge: Bridge) -> list[dict[str, Any]]:
    """Return the account of the pods, and what it may do."""
    where = {"namespace": bridge.namespace, "name": ACCOUNT}
    group = "rbac.authorization.k8s.io"
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}
    told = {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}
    account = {"kind": "ServiceAccount", **where}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": where, "rules": [maps, told]},
        {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": where, "subjects": [account],
         "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT}},
    ]  # fmt: skip


@dataclass
class Pod:
    """One pod: a process that does what it is told, and answers when the API has it."""

    node: str
    environ: dict[str, str]
    now: Callable[[], datetime]
    process: subprocess.Popen[str] | None = None

    def start(self, **more: str) -> None:
        """Start it, and again after it was killed; `more` is for its environment."""
        self.end()
        environ = cli.environment(**self.environ, NODE=self.node, **more)
        # A group of its own: who kills a pod kills all that it has started.
        self.process = subprocess.Popen(
            ["/bin/sh", str(SCRIPT)], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    async def tell(self, *words: str) -> str:
        """Have it do something; returns its answer, which is empty if it has died over it."""
        return await asyncio.to_thread(self._ask, f"{self.now().timestamp():.0f} {' '.join(words)}\n")

    async def does(self, *words: str) -> str:
        """Have it do something, which must succeed; returns the state that it is in then."""
        answer = await self.tell(*words)
        assert answer.split(" ")[0] == "ok", f"{self.node} {words}: {answer!r}"
        return answer.removeprefix("ok ")

    def kill(self) -> None:
        """End it the hard way."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.wait(60) == -signal.SIGKILL

    def end(self) -> None:
        """Make sure that it is gone."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.kill()
        for one in (self.process.stdin, self.process.stdout):
            assert one is not None
            one.close()
        self.process = None

    def _ask(self, line: str) -> str:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")


@dataclass
class DaemonSet:
    """The DaemonSet of a site: the object, and its pods by their nodes."""

    place: Place
    client: Client
    bridge: Bridge
    now: Callable[[], datetime]
    """The clock of its nodes."""
    speaks: str = ""
    """What pods ask the API with; empty: what there is."""
    pods: dict[str, Pod] = field(default_factory=dict)
    _environ: dict[str, str] = field(default_factory=dict)

    async def deploy(self, name: str = "") -> None:
        """Create the object, with all its pods ready; the embedded API serves no DaemonSets."""
        if self.bridge.daemon_set is None:
            return
        labels, called = self.bridge.daemon_set.labels, name or self.bridge.daemon_set.name
        template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        obj = {"metadata": {"name": called, "labels": labels}, "spec": spec}
        await self.client.create(DAEMON_SETS.untyped(), obj, self.bridge.namespace)
        ready = {"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0}
        body = MergePatch({"status": {**ready, "numberReady": 2}})
        await self.client.patch(
            DAEMON_SETS.untyped(), called, self.bridge.namespace, body, subresource="status"
        )

    async def pod(self, node: str = "a", **environ: str) -> Pod:
        """Return the pod of a node; one that is not there is started."""
        if node not in self.pods:
            environment_of_all = self._environ or await self._prepare()
            self.pods[node] = Pod(node, environment_of_all, self.now)
            self.pods[node].start(**environ)
        return self.pods[node]

    async def live(self, *nodes: str) -> None:
        """Have these nodes give a new sign of life each, and no others any."""
        found = [await self.pod(one) for one in nodes]
        await asyncio.gather(*(one.does("beat") for one in found))

    async def begin(self, *nodes: str) -> None:
        """Have the first node write the first state, and all of them signs of life."""
        await (await self.pod(nodes[0] if nodes else "a")).does("begin")
        await self.live(*nodes)

    async def skip_to(self, state: str, node: str = "a") -> None:
        """Have the pod of a node be in a later state at once: walking there is a test of its own."""
        assert state in self.bridge.states
        assert await (await self.pod(node)).does("skip", state) == state

    async def warn(self, reason: str, message: str, node: str = "a") -> None:
        """Have a pod report an Event."""
        await (await self.pod(node)).does("warn", reason, message)

    def end(self) -> None:
        """End all pods."""
        for one in self.pods.values():
            one.end()

    async def _prepare(self) -> dict[str, str]:
        """Give the account its rights, and its token to the pods, as a kubelet mounts it."""
        self.speaks = self.speaks or speaks()
        self.place.kubectl("apply", "-f", "-", stdin=manifests.dump(rights(self.bridge)))
        issued = await request_token(self.client, ACCOUNT, self.bridge.namespace, seconds=6 * 3600)
        config = kubeconfig.load(path=str(self.place.kubeconfig), environ={}, run=runner.run)
        folder = self.place.kubeconfig.parent / "pods"
        folder.mkdir()
        for name, content in (
            ("token", issued.token.encode()), ("ca.crt", config.ca or b""),
            ("namespace", self.bridge.namespace.encode()),
        ):  # fmt: skip
            (folder / name).write_bytes(content)
        server = urlsplit(config.server)
        self._environ = {
            **environment(self.bridge), "SECRETS": str(folder), "CLIENT": self.speaks, "TMPDIR": str(folder),
            "KUBERNETES_SERVICE_HOST": server.hostname or "", "KUBERNETES_SERVICE_PORT": str(server.port),
        }  # fmt: skip
        return self._environ
