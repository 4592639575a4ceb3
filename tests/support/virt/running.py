"""Runs the controllers: step by step, or by watches as they do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from nodemanager.client.calls import Selection
from nodemanager.kube.objects import Resource
from nodemanager.runtime import tasks
from nodemanager.runtime.cache import Cache
from support.virt import draining, instances, machines, migrations, volumes
from support.virt.cluster import VirtCluster
from support.virt.kinds import DEFINED, Watched

CONTROLLERS = (volumes, machines, instances, migrations, draining)


async def step(cluster: VirtCluster) -> list[str]:
    """Have all controllers look once; every object moves by one phase at most. Returns what moved."""
    if cluster.faults.down:
        return []
    seen, moved = await cluster.look(), list[str]()
    for one in CONTROLLERS:
        moved += await one.step(cluster, seen)
    return moved


async def settle(cluster: VirtCluster, most: int = 40) -> None:
    """Have them work until nothing moves."""
    moved: list[str] = []
    for _ in range(most):
        if not (moved := await step(cluster)):
            return
    raise AssertionError(f"these still move after {most} steps: {moved}")


@contextlib.asynccontextmanager
async def watching(cluster: VirtCluster) -> AsyncIterator[None]:
    """Have the controllers work by themselves: they watch all kinds, and act on every change."""
    changed, where = asyncio.Event(), Selection(cluster.namespace)
    caches = [
        Cache(cluster.client, Resource(one.group, one.version, one.kind, one.plural, Watched), where)
        for one in DEFINED
    ]
    for one in caches:
        one.subscribe(lambda _change: changed.set())

    async def work() -> None:
        while True:
            await changed.wait()
            changed.clear()
            await settle(cluster)

    running = [asyncio.create_task(one.run()) for one in caches]
    running.append(asyncio.create_task(work()))
    try:
        yield
    finally:
        await tasks.end(running)
