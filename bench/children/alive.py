"""A cache that ends by itself is broken: say so at once instead of waiting for what it will never do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def while_running(following: asyncio.Task[None]) -> AsyncIterator[None]:
    """Run the block, but raise what `following` raises as soon as it ends."""
    block = asyncio.current_task()
    assert block is not None  # a coroutine runs in a task

    def interrupt(_: asyncio.Task[None]) -> None:
        block.cancel("the cache has ended")

    following.add_done_callback(interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if following.done() and not following.cancelled() and (error := following.exception()) is not None:
            block.uncancel()
            raise RuntimeError("cannot measure: the cache has ended") from error
        raise
    finally:
        following.remove_done_callback(interrupt)
