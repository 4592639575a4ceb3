"""Runs the parts of a process of pretended agents until nobody wants them any more."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


async def run(*parts: Coroutine[Any, Any, None]) -> None:
    """Run parts until the input ends; a part that ends by itself has failed."""
    tasks = [asyncio.create_task(part) for part in parts]
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    ended, _ = await asyncio.wait({over, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    for part in ended - {over}:
        part.result()  # say why
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
