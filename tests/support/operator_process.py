"""`nodemanager operator` as a real process, with the rights of its own ServiceAccount and no others."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nodemanager.client.auth import host_kubeconfig, kubeconfig
from nodemanager.client.subresources import request_token
from nodemanager.controllers import assembly
from nodemanager.host.process import runner
from nodemanager.kube import manifests
from support import cli
from support.agent_process import Api
from support.either import Place


def start(kubeconfig: Path, namespace: str, log: Path, *flags: str) -> subprocess.Popen[bytes]:
    """Start the operator of a namespace."""
    argv = [
        *cli.ARGV, "operator", "--kubeconfig", str(kubeconfig), "-n", namespace, "--no-leader-elect",
        "--metrics-bind-address", "0", "--health-probe-bind-address", "0", *flags,
    ]  # fmt: skip
    with log.open("ab") as file:
        return subprocess.Popen(argv, stdout=file, stderr=file, env=cli.environment())


@asynccontextmanager
async def operator(place: Place, api: Api, folder: Path, *, edge: bool = False) -> AsyncIterator[Path]:
    """Run the operator of a namespace; yields its log, in which nothing may be refused or go wrong."""
    rights = assembly.manifests(place.namespace)
    rights += assembly.edge_manifests(place.namespace) if edge else []
    place.kubectl("apply", "-f", "-", stdin=manifests.dump(rights))
    issued = await request_token(api.client, "nodemanager-operator", place.namespace, seconds=600)
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    own, log = folder / "operator.kubeconfig", folder / "operator.log"
    own.write_bytes(host_kubeconfig.kubeconfig(config, "operator", place.namespace, issued.token))
    process = start(own, place.namespace, log, *(["--edge"] if edge else []))
    try:
        yield log
        process.terminate()
        assert process.wait(50) == 0
    finally:
        process.kill()
        process.wait(50)
    text = log.read_text()
    assert "orbidden" not in text, text
    assert "ERROR" not in text, text
