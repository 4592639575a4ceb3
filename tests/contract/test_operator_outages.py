"""`nodemanager operator` while its API is away: at the start, and for longer than its lease lasts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from support import apiserver, server_process
from support.clients import connected
from support.scripted_server import until
from support.server_process import NAMESPACE, Server

LABELS = {"role": "web"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with server_process.running(tmp_path / "data") as started:
        yield started


class Operator:
    """A process, its log, and what its probes say."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self.log = log
        self.port = apiserver.free_port()
        argv = [
            sys.executable, "-m", "nodemanager", "operator", "--kubeconfig", str(kubeconfig),
            "--metrics-bind-address", "0", "--health-probe-bind-address", f":{self.port}",
        ]  # fmt: skip
        with log.open("wb") as file:
            self.process = subprocess.Popen(argv, stdout=file, stderr=file)

    def ask(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.read().decode())
        except OSError as error:
            return str(error)

    @property
    def is_ready(self) -> bool:
        return self.ask("/readyz") == "ok"

    def says(self, text: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return text in self.log.read_text()


async def matched(server: Server, name: str) -> int:
    """Make a ConfigSet, and return how many hosts an operator that works counts for it."""
    async with connected(server.config()) as client:
        body = {"metadata": {"name": name, "labels": LABELS}, "spec": {"packages": [{"name": "chrony"}]}}
        await client.create(CONFIG_SETS, body, NAMESPACE)
        while True:
            nodes = (await client.get(CONFIG_SETS, name, NAMESPACE)).status.nodes
            if nodes is not None and nodes.matched:
                return nodes.matched
            await asyncio.sleep(0.02)


@pytest.mark.long
async def test_it_waits_for_its_api_and_leads_again_after_an_outage(server: Server, tmp_path: Path) -> None:
    port, kubeconfig = server.port, tmp_path / "copy"  # the server makes its own anew when it starts
    kubeconfig.write_bytes(server.kubeconfig.read_bytes())
    kubeconfig.chmod(0o600)
    async with connected(server.config()) as client:
        await client.create(MANAGED_NODES, {"metadata": {"name": "one", "labels": LABELS}}, NAMESPACE)
    server.stop()
    operator = Operator(kubeconfig, tmp_path / "operator.log")
    try:
        await until(lambda: operator.says("waiting for the API"))
        await until(lambda: "waiting for cache of" in operator.ask("/readyz/manager"))
        assert operator.ask("/healthz") == "ok"  # nobody shall restart it for that
        server.start(port)
        await until(lambda: operator.is_ready)
        assert await matched(server, "first") == 1
        server.stop()
        await until(lambda: "no answer from 127.0.0.1" in operator.ask("/readyz/api"))
        await until(lambda: operator.says("standing for election again"))
        await until(lambda: "waiting for cache of" in operator.ask("/readyz/manager"))
        server.start(port)
        await until(lambda: operator.is_ready)
        assert await matched(server, "second") == 1
        operator.process.terminate()
        assert operator.process.wait(50) == 0
    finally:
        operator.process.kill()
        operator.process.wait(50)
