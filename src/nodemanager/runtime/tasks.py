"""Several tasks side by side, and their end, so that none is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def each(work: Callable[[T], Awaitable[R]], items: Iterable[T], at_once: int) -> list[R]:
    """Do the work for each item, so many at a time, in their order; return what came of it.

    One that raises ends the others; what it raised is raised then, in a group.
    """
    room = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with room:
            return await work(item)

    async with asyncio.TaskGroup() as group:
        started = [group.create_task(one(item)) for item in items]
    return [task.result() for task in started]


async def end(tasks: Collection[asyncio.Task[Any]], *, again_after: float | None = None) -> None:
    """Cancel tasks and return when every one has ended, also when we are cancelled meanwhile.

    Being cancelled ourselves cancels the tasks once more, for those that take a second
    cancellation as "at once"; so does the passing of `again_after` seconds. Our cancellation is
    raised when they have ended. What the tasks raised is left in them.
    """
    cancelled: asyncio.CancelledError | None = None
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        try:
            _, pending = await asyncio.wait(pending, timeout=again_after)
        except asyncio.CancelledError as exc:
            cancelled = exc
            pending = {task for task in pending if not task.done()}
    if cancelled is not None:
        raise cancelled
