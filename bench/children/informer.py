"""Measures, in one process and taking turns: decoding alone, reading alone, and the whole informer.

    python -m bench.children.informer KUBECONFIG NODES EVENTS PACE WORKERS ROUNDS

The informer is Client, Cache with an index, and a subscriber; with WORKERS, the subscriber adds to a
WorkQueue that workers empty. Only modifications are measured, not connecting and listing.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench import nodes, script
from bench.children import alive, socket_floor
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.auth import load
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Call, Selection
from nodemanager.client.http import tls
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.client.watch import event_decoder
from nodemanager.host.process import runner
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import QueueClosed, WorkQueue

ZONE = "topology.kubernetes.io/zone"
TIMEOUT = 60.0


def decode_alone(lines: Sequence[bytes]) -> float:
    """Return the CPU seconds that decoding takes."""
    decode: Callable[[bytes], Any] = event_decoder(MANAGED_NODES).decode
    gc.collect()
    started = time.process_time()
    for line in lines:
        decode(line)
    return time.process_time() - started


def decode_and_keep(lines: Sequence[bytes]) -> float:
    """Return the CPU seconds of decoding into a dict with the newest object of each name."""
    decode: Callable[[bytes], Any] = event_decoder(MANAGED_NODES).decode
    kept: dict[str, ManagedNode] = {}
    gc.collect()
    started = time.process_time()
    for line in lines:
        node = decode(line).object
        kept[node.metadata.name] = node
    return time.process_time() - started


class Informer:
    """One cache from its start to the last event it is sent."""

    def __init__(self, client: Client, wanted: script.Script, workers: int) -> None:
        self._client = client
        self._wanted = wanted
        self._workers = workers
        self._seen = 0
        self._complete = asyncio.Event()
        self._queue = _new_queue()
        self._cache = Cache(client, MANAGED_NODES, Selection(labels=wanted.selector()))
        self._cache.add_index("zone", lambda node: (node.metadata.labels[ZONE],))

    async def cost(self) -> tuple[float, int]:
        """Return the CPU seconds of all modifications, and how often the process had to wait for one."""
        following = asyncio.create_task(self._cache.run())
        tasks = {following}
        try:
            async with alive.while_running(following), asyncio.timeout(TIMEOUT):
                await self._cache.synced()
                self._cache.subscribe(self._hear)
                self._queue, self._seen = _new_queue(), 0  # what subscribing repeated does not count
                self._complete.clear()
                tasks |= {asyncio.create_task(self._work(self._queue)) for _ in range(self._workers)}
                gc.collect()
                waits, started = _waits(), time.process_time()
                await self._client.send(Call("GET", "/go", "start the stream", {}))
                await self._complete.wait()
                return time.process_time() - started, _waits() - waits
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _hear(self, change: Change[ManagedNode]) -> None:
        if self._workers:
            self._queue.add(change.key)
        self._seen += 1
        if self._seen == self._wanted.events:
            self._complete.set()

    async def _work(self, queue: WorkQueue[ObjectKey]) -> None:
        with contextlib.suppress(QueueClosed):
            while True:
                queue.done(await queue.get())


def _new_queue() -> WorkQueue[ObjectKey]:
    return WorkQueue("bench", metrics=Registry())


def _waits() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


async def one_round(
    config: ClientConfig, wanted: script.Script, workers: int, lines: list[bytes]
) -> list[float]:
    """Return the CPU seconds of decoding, keeping, reading, and the informer, and how often it waited."""
    client = Client(HttpTransport(config))
    try:
        before = decode_alone(lines)
        cost, waits = await Informer(client, wanted, workers).cost()
        decoding = (before + decode_alone(lines)) / 2  # before and after: noise hits both alike
    finally:
        await client.close()
    reading = await socket_floor.read_alone(config, wanted, sum(map(len, lines)))
    return [decoding, decode_and_keep(lines), reading, cost, float(waits)]


async def measure(kubeconfig: str, wanted: script.Script, workers: int, rounds: int) -> dict[str, Any]:
    """Return the cost per event in microseconds, round by round."""
    lines = list(nodes.changes(wanted.nodes, wanted.events))
    tls.set_buffer_size()  # as the programs do
    config = load.discover(path=kubeconfig, environ={}, run=runner.run)
    measured = [await one_round(config, wanted, workers, lines) for _ in range(rounds)]
    decoding, keeping, reading, informing, waits = zip(*measured, strict=True)
    scale = 1e6 / wanted.events
    return {
        "decode": [seconds * scale for seconds in decoding],
        "keep": [seconds * scale for seconds in keeping],
        "read": [seconds * scale for seconds in reading],
        "informer": [seconds * scale for seconds in informing],
        "events_per_wait": wanted.events * rounds / max(sum(waits), 1),
        "bytes": sum(map(len, lines)) / len(lines),
    }


if __name__ == "__main__":
    count, events, pace, workers, rounds = map(int, sys.argv[2:7])
    wanted = script.Script(nodes=count, events=events, pace=pace, gated=True)
    print(json.dumps(asyncio.run(measure(sys.argv[1], wanted, workers, rounds))))
