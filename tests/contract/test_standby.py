"""Two agents of one host: one works, the other stands by until the first one ends, however it does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.kube import conditions
from support import server_process
from support.agent_process import PATIENCE, Agent, api_of, owned
from support.server_process import NAMESPACE, Server

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    with server_process.running(tmp_path / "data") as server:
        yield server


class Pair:
    """Two agents of one host; the first of them may know nothing of elections."""

    def __init__(self, folder: Path, server: Server, *first: str) -> None:
        (folder / "host" / "etc").mkdir(parents=True)
        self.first, self.second = (
            Agent(folder / "host", NAMESPACE, server.kubeconfig, flags=flags)
            for flags in (first, ("--leader-elect",))
        )

    def end(self) -> None:
        self.first.end()
        self.second.end()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["gives up", "dies"])
@pytest.mark.parametrize("flags", [("--leader-elect=true",), ()], ids=["elected", "not elected"])
async def test_the_second_takes_over_when_the_first(
    tmp_path: Path, server: Server, how: signal.Signals, flags: tuple[str, ...]
) -> None:
    pair = Pair(tmp_path, server, *flags)
    try:
        async with api_of(server.kubeconfig, NAMESPACE) as api:
            await api.config_set("motd", files=[owned("/etc/motd", content="one\n")])
            pair.first.start()
            await api.ready("motd")
            pair.second.start()
            await pair.second.logs("standing by: cannot change this host: another nodemanager (process")
            assert pair.first.process is not None
            pair.first.signal(how)
            await asyncio.to_thread(pair.first.process.wait, PATIENCE)
            await api.respec("motd", files=[owned("/etc/motd", content="two\n")])
            await pair.second.reads("/etc/motd", "two\n")
            assert await asyncio.to_thread(pair.second.stop) == 0
    finally:
        pair.end()


async def test_one_that_does_not_stand_by_says_nothing_about_the_host(tmp_path: Path, server: Server) -> None:
    pair = Pair(tmp_path, server)
    pair.second.flags = ()
    try:
        async with api_of(server.kubeconfig, NAMESPACE) as api:
            await api.config_set("motd", files=[owned("/etc/motd", content="one\n")])
            pair.first.start()
            await api.ready("motd")
            pair.second.start()
            await pair.second.logs("is at work on it; stop it first, or let it do the work; again in", 2)
            assert conditions.is_true((await api.node()).status.conditions, conditions.READY)
    finally:
        pair.end()


async def test_one_that_stands_by_ends_when_told(tmp_path: Path, server: Server) -> None:
    pair = Pair(tmp_path, server, "--leader-elect")
    try:
        pair.first.start()
        await pair.first.logs("started")
        pair.second.start()
        await pair.second.logs("standing by")
        pair.second.signal(signal.SIGHUP)  # there is nothing to look at
        assert await asyncio.to_thread(pair.second.stop) == 0
        assert pair.first.process is not None
        assert pair.first.process.poll() is None
    finally:
        pair.end()
