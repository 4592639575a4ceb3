"""The LINSTOR controller of a lab: it is simulated, and the DRBD that it tells of is that of the guests.

    with controlling(pair) as linstor:
        linstor.verdict()                # how the storage is, as the operator would say

Who lists replicas gets what `drbdsetup status` says on both guests at that moment, as satellites tell it.
It listens on loopback, in a thread of its own, so that an operator can ask it, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from nodemanager.backends.storage.linstor import connecting
from nodemanager.backends.storage.linstor.backend import LinstorBackend
from nodemanager.backends.storage.linstor.rest import LinstorRest
from nodemanager.fleet.edge.storage import judging
from nodemanager.fleet.edge.storage.judging import StorageVerdict, Wanted
from support.lab.guest import RUN_SECONDS
from support.lab.replica import NAME, SIZE_KIB, STATUS, Pair, Side
from support.linstor import drbd_feed, server, sites
from support.linstor.world import LinstorWorld

T = TypeVar("T")


@dataclass
class LabLinstor:
    """A controller that listens."""

    url: str
    asked: list[str]
    """By method and path."""

    def ask(self, act: Callable[[LinstorBackend], Awaitable[T]]) -> T:
        """Do something through our backend."""

        async def connected() -> T:
            backend = LinstorBackend(LinstorRest(connecting.config(self.url), read_seconds=RUN_SECONDS))
            try:
                return await act(backend)
            finally:
                await backend.close()

        return asyncio.run(connected())

    def verdict(self) -> StorageVerdict:
        """Say how the storage is."""
        return judging.judge(self.ask(LinstorBackend.observe), Wanted(copies=2))


@contextlib.contextmanager
def controlling(pair: Pair) -> Iterator[LabLinstor]:
    """Have a controller for the resource of a pair."""
    up: Future[LabLinstor] = Future()
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with server.serve(_world(pair)) as controller:
            controller.satellites = functools.partial(_tell, pair)
            up.set_result(LabLinstor(controller.url, controller.asked))
            await over.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="linstor")
    thread.start()
    try:
        yield up.result(RUN_SECONDS)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(RUN_SECONDS)


def _world(pair: Pair) -> LinstorWorld:
    names = [side.guest.name for side in pair.sides]
    world = sites.cluster(*names)
    sites.volume(world, NAME, *names, size=SIZE_KIB)
    return world


async def _tell(pair: Pair, path: str, world: LinstorWorld) -> None:
    """Have both guests say how their DRBD is, before somebody is told of it."""
    if path != "/v1/view/resources":
        return
    printed = await asyncio.gather(*(asyncio.to_thread(_says, side) for side in pair.sides))
    for node, peer in ((0, 1), (1, 0)):
        names = [pair.sides[one].guest.name for one in (node, peer)]
        drbd_feed.feed(world, names[0], printed[node], peer=names[1])


def _says(side: Side) -> str:
    return side.guest.run(*STATUS).stdout
