"""Work that is never left behind half-done, also not by a cancelled caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread and return its result.

    When the caller is cancelled, the work is still waited for: it holds files open and has
    half-done things to finish, and nobody may clean up under its hands.
    """
    return await to_the_end(asyncio.to_thread(work))


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work that must not be broken off in the middle; a cancelled caller is cancelled after it.

    A service that was stopped for its restart has to be started again, whatever we are told meanwhile.
    """
    worker = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not worker.done():
        try:
            await asyncio.shield(worker)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:  # noqa: BLE001 - it is raised below, with its own traceback
            break
    if cancelled is not None:
        if not worker.cancelled():
            worker.exception()  # nobody is left to be told
        raise cancelled
    return worker.result()
