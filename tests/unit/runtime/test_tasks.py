"""Ending tasks leaves none behind."""

from __future__ import annotations

import asyncio

import pytest

from nodemanager.runtime import tasks
from support import virtual_time


async def stubborn(ignore: int, log: list[float]) -> None:
    """Ignore so many cancellations."""
    for _ in range(ignore):
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            log.append(asyncio.get_running_loop().time())
    await asyncio.sleep(1e6)


@virtual_time.test
async def test_nothing_to_end() -> None:
    await tasks.end([])


@virtual_time.test
async def test_what_tasks_raise_stays_in_them() -> None:
    async def fails() -> None:
        raise ValueError("mine")

    task = asyncio.create_task(fails())
    await virtual_time.settle()
    await tasks.end([task])
    assert isinstance(task.exception(), ValueError)


@virtual_time.test
async def test_a_task_that_needs_another_cancellation_gets_it_after_a_while() -> None:
    log: list[float] = []
    task = asyncio.create_task(stubborn(2, log))
    await virtual_time.settle()
    await tasks.end([task], again_after=1.0)
    assert task.cancelled()
    assert log == [0.0, 1.0]


@virtual_time.test
async def test_our_own_cancellation_is_passed_on_and_raised_when_all_have_ended() -> None:
    log: list[float] = []
    task = asyncio.create_task(stubborn(1, log))
    await virtual_time.settle()
    ending = asyncio.create_task(tasks.end([task]))
    await asyncio.sleep(5)
    assert not ending.done()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert task.cancelled()
    assert log == [0.0]
