"""Parts of the product that run in the loop of a test, until the end of a block."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from nodemanager.agent import service
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.options import AgentOptions
from nodemanager.client.verbs import Client
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.metrics import Registry
from support.scripted_server import until


@contextlib.asynccontextmanager
async def operator(manager: Manager, was_killed: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
    """Run an operator; it is ready in the block, and has ended in order afterwards unless it was killed."""
    running = asyncio.create_task(manager.run())
    try:
        await until(lambda: running.done() or manager.not_ready() is None)
        yield
    finally:
        manager.stop("the test is over")
        await asyncio.wait({running})
        if not was_killed():
            running.result()


@contextlib.asynccontextmanager
async def agent(
    client: Client, namespace: str, root: Path, name: str, *, realtime: bool = False
) -> AsyncIterator[None]:
    """Run the agent of a folder."""
    options = AgentOptions(namespace, HostSetup(str(root), name), "0", "0", realtime=realtime)
    found = service.build(client, options, Registry())
    running = asyncio.create_task(found.manager.run())
    try:
        yield
    finally:
        found.manager.stop("the test is over")
        await asyncio.wait({running})
        found.close()
        running.result()
