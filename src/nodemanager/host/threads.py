"""Blocking work beside the event loop; never left behind, also not by a cancelled caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread and return its result.

    When the caller is cancelled, the work is still waited for: it holds files open and has
    half-done things to finish, and nobody may clean up under its hands.
    """
    worker = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled: asyncio.CancelledError | None = None
    while not worker.done():
        try:
            await asyncio.shield(worker)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:  # noqa: BLE001 - it is raised below, with its own traceback
            break
    if cancelled is not None:
        raise cancelled
    return worker.result()
