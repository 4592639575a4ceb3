"""The store of an embedded server that has been started once, for those that are started to be used.

A first start writes our kinds, roles, policies and templates, which takes half a second. Tests whose subject
that is begin with an empty folder (`first`); in all others the server finds them there, as at every start but
the first. Its authority and its keys are its own.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from nodemanager.cli.embedded import embedded_api
from nodemanager.server.embedded import DATABASE, EmbeddedServer
from nodemanager.server.http.endpoint import Endpoint
from support import file_limit

_made = threading.Lock()


def plant(data: Path) -> None:
    """Put such a store into the data folder of a server, unless it has one."""
    if (data / DATABASE).exists():
        return
    with _made:
        seed = _seed()
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / DATABASE).touch(mode=0o600)
    (data / DATABASE).write_bytes(seed)


@cache
def _seed() -> bytes:
    """Return the store of a server that has listened, and has ended; made once in a process."""
    made_in = tempfile.TemporaryDirectory(prefix="nm-")
    with file_limit.kept(), made_in as folder, ThreadPoolExecutor(1) as thread:
        data = Path(folder) / "data"
        # In a thread, as whoever asks may have an event loop of its own.
        thread.submit(asyncio.run, _start_and_end(data)).result()
        return (data / DATABASE).read_bytes()


async def _start_and_end(data: Path) -> None:
    server = EmbeddedServer(embedded_api.options(data, Endpoint(port=0)))
    running = asyncio.create_task(server.run())
    ready = asyncio.create_task(server.ready())
    await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
    assert ready.done(), running.exception()
    running.cancel()
    await asyncio.wait({running})
