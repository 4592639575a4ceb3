"""Time as a reason to work on a name."""

from __future__ import annotations

import asyncio

from nodemanager.runtime import tasks
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from nodemanager.runtime.ticker import Ticker
from support import virtual_time


@virtual_time.test
async def test_a_name_is_due_at_once_and_then_again_and_again_but_waits_only_once() -> None:
    queue: WorkQueue[str] = WorkQueue("q", metrics=Registry())
    ticking = asyncio.create_task(Ticker(queue, "all", 60.0).run())
    for _ in range(3):
        queue.done(await queue.get())
    assert asyncio.get_running_loop().time() == 120.0
    await asyncio.sleep(600.0)
    assert len(queue) == 1
    await tasks.end([ticking])
    queue.shut_down()
