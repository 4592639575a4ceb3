"""Work in threads that is never left half-done, even by a cancelled caller."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
_THREADS: Final = ThreadPoolExecutor(4, "host")
"""Not the threads of the event loop, which look up host names: without a network, all of them wait for that.
"""


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread and return its result.

    When the caller is cancelled, the work is still waited for: it holds files open and has
    half-done things to finish, and no other code may clean up meanwhile.
    """
    loop = asyncio.get_running_loop()
    return await to_the_end(loop.run_in_executor(_THREADS, contextvars.copy_context().run, work))


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work that must not be broken off in the middle; a cancelled caller is cancelled after it.

    A service that was stopped for its restart must be started again, even if we have to stop meanwhile.
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
            worker.exception()  # no caller is left to get the result
        raise cancelled
    return worker.result()
