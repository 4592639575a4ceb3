"""`nodemanager agent` as a real process that manages a folder, and what it does to an API."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.auth import kubeconfig
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import conditions, errors
from nodemanager.kube.core import SECRETS
from support import cli
from support.clients import connected

PATIENCE = 90.0


@dataclass
class Api:
    """A namespace of an API, as the one who may do everything there."""

    client: Client
    namespace: str
    kubeconfig: Path

    async def config_set(self, name: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
        """Create a ConfigSet; without labels it is meant for every host."""
        meta = {"name": name, "namespace": self.namespace, "labels": labels or {}}
        body = {"metadata": meta, "spec": spec if labels else {"nodeSelector": {}, **spec}}
        await self.client.create(CONFIG_SETS, body, self.namespace)

    async def respec(self, name: str, **spec: Any) -> None:
        """Change the spec of a ConfigSet."""
        await self.client.patch(CONFIG_SETS, name, self.namespace, MergePatch({"spec": spec}))

    async def secret(self, name: str, **texts: str) -> None:
        """Create a Secret, or change it."""
        body = {"metadata": {"name": name, "namespace": self.namespace}, "stringData": texts}
        try:
            await self.client.create(SECRETS, body, self.namespace)
        except errors.AlreadyExists:
            await self.client.patch(SECRETS, name, self.namespace, MergePatch({"stringData": texts}))

    async def node(self, name: str = "web1") -> ManagedNode:
        """Return what a host reports."""
        return await self.client.get(MANAGED_NODES, name, self.namespace)

    async def patch_node(self, body: dict[str, Any], name: str = "web1") -> None:
        """Change a ManagedNode, as people do."""
        await self.client.patch(MANAGED_NODES, name, self.namespace, MergePatch(body))

    async def until(self, holds: Callable[[ManagedNode], object], name: str = "web1") -> ManagedNode:
        """Wait until a host reports something."""
        node = ManagedNode()
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        node = await self.node(name)
                        if holds(node):
                            return node
                    except errors.KubeError:
                        pass
                    await asyncio.sleep(0.06)
        except TimeoutError:
            raise AssertionError(f"never came true; the last status is {node.status}") from None

    async def ready(self, *sets: str) -> ManagedNode:
        """Wait until the host is as these sets, and no others, declare."""
        return await self.until(
            lambda node: (
                conditions.is_true(node.status.conditions, conditions.READY)
                and [one.name for one in node.status.configsets] == sorted(sets)
            )
        )


@asynccontextmanager
async def api_of(path: Path, namespace: str) -> AsyncIterator[Api]:
    """Be the administrator of an API."""
    config = kubeconfig.load(path=str(path), environ={}, run=runner.run)
    async with connected(config) as client:
        yield Api(client, namespace, path)


Starts = Callable[..., "Agent"]
"""Starts an agent of a hostname, with the options of `Agent`."""


def owned(path: str, **fields: Any) -> dict[str, Any]:
    """Return a declaration of a file that whoever runs the tests may own."""
    return {"path": path, "owner": str(os.getuid()), "group": str(os.getgid()), **fields}


@dataclass
class Agent:
    """An agent process and the folder that is its host."""

    root: Path
    namespace: str
    kubeconfig: Path
    hostname: str = "web1"
    flags: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    metrics: str = "0"
    probes: str = "0"
    environ: dict[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = cli.ARGV

    @property
    def log(self) -> Path:
        return self.root.parent / f"{self.hostname}.log"

    def start(self) -> None:
        """Start the process."""
        argv = [
            *self.argv, "agent", "--root", str(self.root), "--hostname", self.hostname, "-n", self.namespace,
            "--kubeconfig", str(self.kubeconfig), "--metrics-bind-address", self.metrics,
            "--health-probe-bind-address", self.probes, *self.flags,
        ]  # fmt: skip
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                argv, stdout=file, stderr=file, env=cli.environment(**self.environ)
            )

    def signal(self, number: int = signal.SIGHUP) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        assert self.process is not None
        self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """Make sure that it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    async def reads(self, path: str, content: str | bytes) -> None:
        """Wait until a file of the host contains exactly this."""
        data = content.encode() if isinstance(content, str) else content
        await self.sees(lambda: self.at(path).exists() and self.at(path).read_bytes() == data)

    async def logs(self, text: str, times: int = 1) -> None:
        """Wait until this has been logged so often."""
        await self.sees(lambda: self.log.read_text().count(text) >= times)

    async def sees(self, holds: Callable[[], object]) -> None:
        """Wait for something on this machine."""
        until = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < until, self.log.read_text()
            await asyncio.sleep(0.02)

    async def get(self, address: str, path: str) -> tuple[int, str]:
        """Ask one of its own servers."""

        def ask() -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        return await asyncio.to_thread(ask)
