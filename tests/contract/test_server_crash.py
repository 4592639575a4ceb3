"""The whole server is killed while many write and watch: nothing that was acknowledged is lost.

`NODEMANAGER_CRASH_ROUNDS` says how often to kill it; a data folder goes through several crashes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import pytest

from nodemanager.store.sqlite import SqliteStore
from support.api_ledger import Ledger, Listing, Watcher, Writer, listing
from support.scripted_server import until
from support.server_process import Server, admin_session, running

ROUNDS = int(os.environ.get("NODEMANAGER_CRASH_ROUNDS", "4"))
CHUNK = 4
"""How many crashes one data folder goes through."""
WRITERS = 6
WATCHERS = 3


async def crash(server: Server, ledger: Ledger, watchers: list[Watcher], seed: int) -> None:
    """Write and watch until a random moment, and kill the server then."""
    already, wanted = sum(ledger.verbs.values()), random.Random(seed).randrange(1, 250)
    async with contextlib.AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(admin_session(server)) for _ in range(WRITERS + 1)]
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(Writer(number, ledger, seed).run(sessions[number]))
            for watcher in watchers:
                group.create_task(watcher.run(sessions[-1]))
            await until(lambda: sum(ledger.verbs.values()) >= already + wanted, 90)
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL


async def recover(server: Server, ledger: Ledger, watchers: list[Watcher]) -> None:
    """Compare what is there after a restart with the ledger, and let the watchers catch up."""
    assert "Traceback" not in server.log.read_text()
    async with admin_session(server) as http:
        listed: Listing = await listing(http)
        assert listed.revision >= max(ledger.revisions, default=0)
        assert listed.revision >= ledger.floor
        ledger.settle(listed.objects)
        ledger.floor = listed.revision
        values = {name: value for name, (value, _) in listed.objects.items()}
        following = [asyncio.create_task(watcher.run(http)) for watcher in watchers]
        try:
            await until(lambda: all(watcher.state == values for watcher in watchers))
        finally:
            for task in following:
                task.cancel()
            ended = await asyncio.gather(*following, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended
    for watcher in watchers:
        assert watcher.missed(ledger) == []


async def compact(server: Server) -> None:
    """Forget the past of a server that does not run, as an hour would."""
    store = await SqliteStore.open(server.folder / "state.db")
    await store.compact(store.revision)
    await store.close()


@pytest.mark.parametrize("chunk", range(-(-ROUNDS // CHUNK)))
async def test_a_killed_server_loses_nothing_that_was_acknowledged(chunk: int, tmp_path: Path) -> None:
    ledger, watchers = Ledger(), [Watcher() for _ in range(WATCHERS)]
    sleeper = Watcher()
    with running(tmp_path / "data") as server:
        port = server.port
        for number in range(CHUNK):
            await crash(server, ledger, watchers, chunk * CHUNK + number)
            server.start(port)  # at once, on the same port
            await recover(server, ledger, watchers)
            if number == 0:
                await recover(server, ledger, [sleeper])
        assert all(len(watcher.relists) == 1 for watcher in watchers), "nobody had to start over"
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        await compact(server)
        server.start(port)
        await recover(server, ledger, [*watchers, sleeper])
        assert len(sleeper.relists) == 2, "who was away for too long is told so, and lists again"
        assert server.stop() == 0
    assert sum(ledger.verbs.values()) > CHUNK
    assert all(watcher.seen for watcher in watchers)
