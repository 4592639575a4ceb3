"""Work queue: what deduplication, fairness and metrics cost beside a bare asyncio.Queue."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from bench.report import Row, Section
from bench.settings import Settings
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue

NAME = "queue"
_Round = Callable[[list[ObjectKey]], Awaitable[None]]


async def bare(keys: list[ObjectKey]) -> None:
    """Put all keys into an asyncio.Queue and take them out."""
    queue: asyncio.Queue[ObjectKey] = asyncio.Queue()
    for key in keys:
        queue.put_nowait(key)
    for _ in keys:
        await queue.get()
        queue.task_done()


async def distinct(keys: list[ObjectKey]) -> None:
    """Add all keys, take each and say done."""
    queue: WorkQueue[ObjectKey] = WorkQueue("bench", metrics=Registry())
    for key in keys:
        queue.add(key)
    for _ in keys:
        queue.done(await queue.get())


async def duplicates(keys: list[ObjectKey]) -> None:
    """Add one key over and over, as a storm of events does."""
    queue: WorkQueue[ObjectKey] = WorkQueue("bench", metrics=Registry())
    for _ in keys:
        queue.add(keys[0])
    queue.done(await queue.get())


def run(settings: Settings) -> Section:
    """Measure all, taking turns."""
    keys = [ObjectKey("nodemanager", f"edge-{number:05d}") for number in range(settings.pick(20_000, 2000))]
    programs: dict[str, _Round] = {
        "asyncio.Queue, put, get, task_done": bare,
        "add, get, done": distinct,
        "add of a key that already waits": duplicates,
    }
    measured: dict[str, list[float]] = {what: [] for what in programs}
    for _ in range(settings.pick(7, 2)):
        for what, program in programs.items():
            measured[what].append(asyncio.run(_timed(program, keys)))
    base = next(iter(measured.values()))
    rows = []
    for what, costs in measured.items():
        ratio = statistics.median(cost / one for cost, one in zip(costs, base, strict=True))
        rows.append(Row(what, statistics.median(costs), "us", ratio))
    return Section(NAME, "CPU time per key, relative to a bare asyncio.Queue", rows)


async def _timed(program: _Round, keys: list[ObjectKey]) -> float:
    started = time.process_time()
    await program(keys)
    return (time.process_time() - started) / len(keys) * 1e6
