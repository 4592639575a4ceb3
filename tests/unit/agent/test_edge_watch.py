"""Hosts of edge sites: what is told of them and when; and that plain hosts pay nothing for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodemanager.agent.edge.edge_watch import PROGRESS, EdgeWatch
from nodemanager.agent.report import contributions
from nodemanager.api.common.edge_state import (
    BondState,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdState,
    EdgeState,
)
from nodemanager.api.common.managednode import ManagedNodeStatus
from support.scripted_server import until

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 17, 13, tzinfo=UTC)


def syncing(left: int, done: int, replication: str = "SyncTarget") -> EdgeState:
    there = DrbdPeerVolume(replication=replication, out_of_sync=left, done=done)
    resource = DrbdResource(name="r0", peers=[DrbdPeer(name="b", volumes=[there])])
    return EdgeState(drbd=DrbdState(version="8.4.11", resources=[resource]))


class World:
    """Two clocks, and how often the status was asked for."""

    def __init__(self) -> None:
        self.seconds, self.now, self.asked = 1000.0, NOW, 0
        self.watch = EdgeWatch(self._look, self._asked, clock=lambda: self.seconds, now=lambda: self.now)
        self.looks: list[EdgeState | OSError] = []

    def _asked(self) -> None:
        self.asked += 1

    async def _look(self) -> EdgeState:
        seen = self.looks.pop(0)
        if isinstance(seen, OSError):
            raise seen
        return seen


def test_a_change_is_told_at_once_and_the_same_again_is_not() -> None:
    world = World()
    up, down = EdgeState(bonds=[BondState(name="b", state="up")]), EdgeState()
    world.watch.take(up)
    world.watch.take(up)
    assert (world.asked, world.watch.told) == (1, replace(up, changed_at="2026-11-17T12:00:00Z"))
    world.now = LATER
    world.watch.take(down)
    assert (world.asked, world.watch.told) == (2, replace(down, changed_at="2026-11-17T13:00:00Z"))


def test_a_resync_that_goes_on_is_told_of_once_in_a_while_and_its_end_at_once() -> None:
    world = World()
    world.watch.take(syncing(1000, 10))
    for left in range(900, 500, -100):
        world.seconds += PROGRESS / 5
        world.watch.take(syncing(left, 50))
    assert world.asked == 1
    world.now, world.seconds = LATER, world.seconds + PROGRESS
    world.watch.take(syncing(400, 60))
    assert world.asked == 2
    told = world.watch.told
    assert told == replace(syncing(400, 60), changed_at="2026-11-17T12:00:00Z"), "it is the same resync"
    world.watch.take(syncing(0, 100, "Established"))
    assert world.asked == 3
    world.watch.take(syncing(4, 100, "Established"))
    assert world.asked == 4, "from nothing to something is news, however little it is"


async def test_a_look_that_fails_is_told_and_no_old_state_is_shown() -> None:
    world = World()
    world.looks = [EdgeState(bonds=[BondState(name="b")]), OSError("gone")]
    world.watch.period = 0
    with pytest.raises(IndexError):
        await world.watch.run()
    told = world.watch.told
    assert told is not None
    assert (told.bonds, told.error) == ([], "the host could not be looked at; see the log of its agent")


async def test_who_did_something_to_the_host_has_it_looked_at_soon() -> None:
    world = World()
    world.looks = [EdgeState(), EdgeState(bonds=[BondState(name="b")])]
    world.watch.period, world.watch.spacing = 3600, 0
    running = asyncio.ensure_future(world.watch.run())
    await until(lambda: world.asked == 1)
    world.watch.look_soon()
    await until(lambda: world.asked == 2)
    running.cancel()
    assert world.looks == []


def test_the_status_has_what_is_seen_and_nothing_from_before() -> None:
    world, old = World(), ManagedNodeStatus(edge=EdgeState(error="old"))
    assert world.watch.contribute(old, NOW, 1).edge is None, "nobody has looked yet"
    world.watch.take(EdgeState())
    assert world.watch.contribute(old, NOW, 1).edge == world.watch.told
    nobody = contributions.NoEdge()
    assert nobody.contribute(old, NOW, 1) == ManagedNodeStatus(), "the agent was told not to look"
    plain = ManagedNodeStatus(release="6.1")
    assert nobody.contribute(plain, NOW, 1) is plain


BUILD = """
import asyncio, sys
from pathlib import Path
from nodemanager.agent import service
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.options import AgentOptions
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.runtime.metrics import Registry

async def build(root, edge):
    client = Client(HttpTransport(ClientConfig("http://127.0.0.1:1")))
    host = HostSetup(root, "web1", state=sys.argv[1] + "/state" if root == "/" else "/var/lib/nodemanager")
    options = AgentOptions("nodemanager", host, "0", "0", realtime=False, edge=edge)
    agent = service.build(client, options, Registry())
    assert (type(agent.writer.early).__name__ == "EdgeWatch") is (edge and root == "/")
    print(*sorted(one for one in sys.modules if ".edge" in one and not ".api." in one))
    agent.close()
    await client.close()

asyncio.run(build(sys.argv[2], sys.argv[3] == "edge"))
"""


def imported(*arguments: str) -> Sequence[str]:
    command = [sys.executable, "-c", BUILD, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_a_plain_host_imports_nothing_of_edge_sites(tmp_path: Path) -> None:
    """Not imported, so not read and not run either: nothing else knows of DRBD, bonds or Kairos."""
    assert imported(str(tmp_path), "/", "plain") == []
    assert "nodemanager.host.edge.drbd" in imported(str(tmp_path), "/", "edge"), "else it proves nothing"


def test_an_image_that_does_not_run_is_not_looked_at(tmp_path: Path) -> None:
    assert imported(str(tmp_path), str(tmp_path), "edge") == []
