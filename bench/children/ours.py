"""A process as ours will be: kubeconfig, client, and a cache whose watch is open.

python -m bench.children.ours KUBECONFIG SELECTOR
"""

from __future__ import annotations

import asyncio
import sys
import time

from bench import resident
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http import tls
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.runtime.cache import Cache, Change

TIMEOUT = 60.0


async def main(kubeconfig: str, selector: str) -> None:
    """List, watch, and say what it took until the first event after the list."""
    tls.set_buffer_size()  # as the programs do
    client = Client(HttpTransport(load.discover(path=kubeconfig, environ={}, run=runner.run)))
    cache = Cache(client, MANAGED_NODES, Selection(labels=selector))
    heard = asyncio.Event()

    def on_change(change: Change[ManagedNode]) -> None:
        if change.old is not None:
            heard.set()

    cache.subscribe(on_change)
    following = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(TIMEOUT):
            await heard.wait()
        at, cpu = time.monotonic(), time.process_time()
        print(f'{{"kilobytes": {resident.kilobytes()}, "cpu": {cpu}, "at": {at}}}')
    finally:
        following.cancel()
        await asyncio.wait({following})
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
