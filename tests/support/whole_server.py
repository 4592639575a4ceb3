"""The embedded server, whole, in this process: identity, RBAC, TLS and all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from nodemanager.cli.embedded import embedded_api
from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth.config import ClientConfig
from nodemanager.host.process import runner
from nodemanager.server.embedded import EmbeddedServer
from nodemanager.server.http.endpoint import Endpoint
from support import file_limit, seeds


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[ClientConfig, Path]]:
    """Serve a data folder; yields how its administrator connects, and the kubeconfig that says so."""
    seeds.plant(folder / "data")
    server = EmbeddedServer(embedded_api.options(folder / "data", Endpoint(port=0)))
    with file_limit.kept():
        running = asyncio.create_task(server.run())
        try:
            ready = asyncio.create_task(server.ready())
            await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
            assert ready.done()
            yield load(server.kubeconfig), server.kubeconfig
        finally:
            running.cancel()
            await asyncio.wait({running})


def load(path: Path) -> ClientConfig:
    """Return how a kubeconfig says to connect."""
    return kubeconfig.load(path=str(path), environ={}, run=runner.run)
