"""A time limit that does not count time in which the host was held."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


@contextlib.asynccontextmanager
async def timeout(seconds: float, may_act: Callable[[], bool], poll: float) -> AsyncIterator[None]:
    """Raise TimeoutError after so many seconds; they start again while the host may not be changed."""
    async with asyncio.timeout(seconds) as limit:
        watching = asyncio.create_task(_begin_anew(limit, seconds, may_act, poll))
        try:
            yield
        finally:
            watching.cancel()


async def _begin_anew(
    limit: asyncio.Timeout, seconds: float, may_act: Callable[[], bool], poll: float
) -> None:
    while not limit.expired():
        if not may_act():
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
        await asyncio.sleep(poll)
