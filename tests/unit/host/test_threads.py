"""Work on the host has threads of its own."""

from __future__ import annotations

import asyncio
import threading

from nodemanager.host.process.threads import in_thread


async def test_names_that_nobody_resolves_do_not_keep_the_host_from_its_work() -> None:
    """The threads of the event loop look up host names, which takes half a minute without a network."""
    loop, over = asyncio.get_running_loop(), threading.Event()
    lookups = [loop.run_in_executor(None, over.wait) for _ in range(64)]
    working = asyncio.create_task(in_thread(threading.current_thread))
    done, _ = await asyncio.wait([working], timeout=50)
    over.set()
    await asyncio.gather(working, *lookups)
    assert done
