"""Large answers share one bound: some are refused, some wait, and who takes nothing gives way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from nodemanager.kube import errors
from nodemanager.server.http.response_memory_limit import PATIENCE, ResponseMemoryLimit
from support import virtual_time


@dataclass
class Line(asyncio.Transport):
    """A connection that only knows whether it was cut."""

    cut: bool = False

    def abort(self) -> None:
        self.cut = True


@virtual_time.test
async def test_what_does_not_fit_is_refused_until_there_is_room() -> None:
    memory = ResponseMemoryLimit(limit=100)
    with memory.holding(60, None):
        with pytest.raises(errors.TooManyRequests), memory.holding(50, None):
            pass
        with memory.holding(40, None):
            assert memory.size == 100
    with memory.holding(500, None):  # alone, anything fits
        pass
    assert memory.size == 0


@virtual_time.test
async def test_who_has_been_at_it_for_long_gives_way() -> None:
    memory, old, new = ResponseMemoryLimit(limit=100), Line(), Line()
    with memory.holding(60, old):
        await asyncio.sleep(PATIENCE)
        with memory.holding(40, new), memory.holding(50, None):
            assert (old.cut, new.cut) == (True, False)


@virtual_time.test
async def test_parts_of_watches_wait_in_line() -> None:
    memory, came, done = ResponseMemoryLimit(limit=100), [], asyncio.Event()

    async def watch(name: str, size: int) -> None:
        async with memory.waiting(size, None):
            came.append(name)
            await done.wait()

    tasks = [asyncio.create_task(watch(name, size)) for name, size in (("a", 60), ("b", 70), ("c", 10))]
    await asyncio.sleep(PATIENCE / 2)
    assert came == ["a"]  # c would fit, but b was there before
    done.set()
    await asyncio.gather(*tasks)
    assert came == ["a", "b", "c"]
    assert memory.size == 0


@virtual_time.test
async def test_a_watch_that_waits_gets_the_place_of_one_that_takes_nothing() -> None:
    memory, old = ResponseMemoryLimit(limit=100), Line()
    loop = asyncio.get_running_loop()
    with memory.holding(60, old):
        async with memory.waiting(60, None):
            assert old.cut
            assert PATIENCE <= loop.time() < 2 * PATIENCE
