"""Cache, queue and controller together: what the last reconcile of each name saw is the server's state.

No reconcile is lost, whatever breaks on the way, and none is made up: there are at most as many as
there were changes and failures.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random

import hypothesis
from hypothesis import strategies as st

from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime import metrics
from nodemanager.runtime.cache import Cache, CacheOptions, Change
from nodemanager.runtime.controller import Controller, ReconcileResult, Retry
from nodemanager.runtime.queue import WorkQueue
from support import examples, virtual_time
from support.model_api import NAMESPACE, ModelApi, value_of
from support.model_steps import STEPS, act


class Mirror:
    """Copies what it sees of the cache, slowly, and not always at the first attempt."""

    def __init__(self, cache: Cache[Lease], chance: random.Random) -> None:
        self.state: dict[ObjectKey, str] = {}
        self.calls = 0
        self.failures = 0
        self.changes = 0
        self._cache = cache
        self._chance = chance
        self._busy: set[ObjectKey] = set()

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        assert key not in self._busy, "two at once for one name"
        self.calls += 1
        self._busy.add(key)
        try:
            lease = self._cache.get(key)
            await asyncio.sleep(self._chance.choice([0.0, 0.1, 3.0]))
            self._maybe_fail()
            if lease is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value_of(lease)
        finally:
            self._busy.discard(key)
        return None

    def _maybe_fail(self) -> None:
        match self._chance.randrange(6):
            case 0:
                self.failures += 1
                raise errors.Conflict("somebody was faster")
            case 1:
                self.failures += 1
                raise Retry(self._chance.uniform(0, 5))


async def scenario(steps: list[tuple[str, ...]], streams: bool, seed: int) -> None:
    api = ModelApi(streams=streams)
    cache = Cache(Client(api), LEASES, Selection(NAMESPACE), options=CacheOptions(initial_timeout=5))
    registry = metrics.Registry()
    queue: WorkQueue[ObjectKey] = WorkQueue("mirror", metrics=registry)
    mirror = Mirror(cache, random.Random(seed))
    log = logging.getLogger("mirror")
    controller = Controller(
        "mirror", mirror.reconcile, queue=queue, metrics=registry, log=log, concurrency=3, grace=0
    )

    def enqueue(change: Change[Lease]) -> None:
        mirror.changes += 1
        queue.add(change.key)

    cache.subscribe(enqueue)
    tasks = [asyncio.create_task(cache.run()), asyncio.create_task(controller.run())]
    for step in steps:
        await act(api, step)
    api.faults.clear()
    await asyncio.sleep(3000)  # longer than the longest backoff several times over
    assert mirror.state == api.expected()
    assert mirror.calls <= mirror.changes + mirror.failures
    assert len(queue) == 0
    for task in tasks:
        assert not task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@hypothesis.settings(max_examples=examples.some(250), deadline=None)
@hypothesis.given(STEPS, st.booleans(), st.integers(0, 2**32))
def test_every_name_ends_reconciled_with_the_state_of_the_server(
    steps: list[tuple[str, ...]], streams: bool, seed: int
) -> None:
    virtual_time.run(scenario(steps, streams, seed))
