"""If several agents run on one host, one works; the others wait, and the next one takes over when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.host.base import Busy, HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state.state_lock import StateLock
from nodemanager.runtime import signals, tasks

log = logging.getLogger(__name__)
NAME: Final = "leader"
"""The lock of agents that run in turns; it ends with its process, in any case."""
PAUSE: Final = 1.0
"""Seconds between two tries."""


@dataclass(frozen=True, slots=True)
class Elected:
    """Keeps others waiting while this process works."""

    tree: Tree
    lock: StateLock

    def close(self) -> None:
        """Let the next one work."""
        self.lock.release()
        self.tree.close()


async def elected(root: str, state: str, waiting: Callable[[str], None]) -> Elected | None:
    """Wait until no other agent works on the host below a root; None = a signal told us to stop before.

    `waiting` is told, once, that somebody else is at work.
    """
    tree, over = Tree(root), asyncio.Event()
    found = Elected(tree, StateLock(tree, state, NAME))
    trying = asyncio.create_task(_lead(found, state, waiting), name="election")
    stopping = asyncio.create_task(over.wait(), name="end of the election")
    try:
        with signals.handled(lambda _why: over.set(), on_hangup=lambda: None):
            await asyncio.wait({trying, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await tasks.end([trying, stopping])
        if trying.cancelled() or trying.exception() is not None:
            found.close()
    if trying.cancelled():
        return None
    trying.result()
    return found


async def _lead(found: Elected, state: str, waiting: Callable[[str], None]) -> None:
    await _free(found.lock, waiting)
    # Also one that was started without election: it has this lock, and does not know the other.
    work = StateLock(found.tree, state)
    await _free(work, waiting)
    work.release()


async def _free(lock: StateLock, waiting: Callable[[str], None]) -> None:
    told = False
    while True:
        try:
            if lock.take(make=True):
                return
            raise HostError("cannot be elected: the folder of the state cannot be written; run as root")
        except Busy as error:
            if not told:
                log.info("standing by: %s", error)
                waiting("standing by: another agent is at work on this host")
                told = True
        await asyncio.sleep(PAUSE)
