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


async def test_each_is_done_in_order_and_so_many_at_a_time() -> None:
    going, most, began = 0, 0, list[int]()

    async def work(number: int) -> int:
        nonlocal going, most
        going, began[len(began) :] = going + 1, [number]
        most = max(most, going)
        await asyncio.sleep(0)
        going -= 1
        return number * number

    assert await tasks.each(work, range(7), 3) == [one * one for one in range(7)]
    assert (began, most, going) == (list(range(7)), 3, 0)
    assert await tasks.each(work, [], 3) == []


async def test_one_that_raises_leaves_none_of_the_others_behind() -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        if number == 1:
            raise ValueError("no")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await tasks.each(work, range(3), 3)
    assert sorted(ended) == [0, 2]
