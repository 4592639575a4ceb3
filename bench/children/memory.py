"""Measures what one cached node costs in resident memory, in one of several forms.

    python -m bench.children.memory KUBECONFIG FORM COUNT

FORM is `streamed` or `paged` (our cache, by either way of listing), `dicts` or `bytes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
from collections.abc import AsyncIterator

from bench import nodes, resident, script
from bench.children import alive
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http import tls
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.runtime.cache import Cache

WARM_UP = 50
TIMEOUT = 60.0


@contextlib.asynccontextmanager
async def cached(client: Client, wanted: script.Script) -> AsyncIterator[Cache[ManagedNode]]:
    """A cache that is complete."""
    cache = Cache(client, MANAGED_NODES, Selection(labels=wanted.selector()))
    cache.add_index("zone", lambda node: (node.metadata.labels["topology.kubernetes.io/zone"],))
    following = asyncio.create_task(cache.run())
    try:
        async with alive.while_running(following), asyncio.timeout(TIMEOUT):
            await cache.synced()
        yield cache
    finally:
        following.cancel()
        await asyncio.wait({following})


async def cache_growth(kubeconfig: str, count: int, *, paged: bool) -> int:
    """Return by how many KiB the process grows with a cache of so many nodes, its watch open."""
    tls.set_buffer_size()  # as the programs do
    client = Client(HttpTransport(load.discover(path=kubeconfig, environ={}, run=runner.run)))
    try:
        async with cached(client, script.Script(nodes=WARM_UP, paged=paged)):
            pass  # what the first list costs, whatever its length, is not the cost of a node
        before = _settled()
        async with cached(client, script.Script(nodes=count, paged=paged)) as cache:
            after = _settled()
            assert len(cache.values()) == count  # a measurement of something else is none
        return after - before
    finally:
        await client.close()


def plain_growth(count: int, *, parse: bool) -> int:
    """Return by how many KiB the process grows with a dict of nodes, parsed or as they came."""
    kept: dict[tuple[str, str], object] = {}
    before = 0
    for number, line in enumerate(nodes.listed(WARM_UP + count)):
        if number == WARM_UP:
            before = _settled()
        kept["nodemanager", nodes.name(number)] = json.loads(line) if parse else line
    return _settled() - before


def _settled() -> int:
    gc.collect()
    return resident.kilobytes()


def growth(kubeconfig: str, form: str, count: int) -> int:
    """Return by how many KiB the process grows with so many nodes in that form."""
    if form in ("streamed", "paged"):
        return asyncio.run(cache_growth(kubeconfig, count, paged=form == "paged"))
    return plain_growth(count, parse=form == "dicts")


if __name__ == "__main__":
    wanted = int(sys.argv[3])
    print(json.dumps({"kilobytes": growth(sys.argv[1], sys.argv[2], wanted) / wanted}))
