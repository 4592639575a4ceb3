"""The agent watches itself: it reports its state to the service manager, and is restarted when it hangs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from nodemanager.agent.parts import Agent
from nodemanager.agent.report.local_status import Board
from nodemanager.agent.report.status_socket import StatusSocket
from nodemanager.host.process import allocator
from nodemanager.runtime import watchdog
from nodemanager.runtime.sd_notify import Notifications

READY_SECONDS: Final = 10.0
"""How long the first pass may delay READY: an agent without its API is up all the same."""
SETTLE_SECONDS: Final = 10.0
SETTLE_AGAIN: Final = 3600.0
"""When memory is released: after the first pass on nearly every host, and then every hour."""
PAUSE: Final = 1.0
"""Seconds between a change and a new line about it, so that a storm of drifts is not slowed down."""


@dataclass(eq=False)
class ServiceReporter:
    """A part that reports to the service manager that we are up, and our state in one line."""

    notifications: Notifications
    board: Board
    begun: Callable[[], bool]
    """Whether the first pass is over."""
    patience: float = READY_SECONDS
    pause: float = PAUSE
    name: str = "service manager"
    _ready: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Tell until cancelled; without a service manager there is nothing to do."""
        if not self.notifications.address:
            await asyncio.get_running_loop().create_future()
        self._tell()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                await self._first_pass()
        self._ready = True
        self.notifications.ready()
        said = self._tell()
        while True:
            await self.board.news(self.board.version)
            await asyncio.sleep(self.pause)
            said = self._tell(said)

    def reload(self) -> None:
        """Tell that we were asked to look again; that is done as soon as it is asked for."""
        if self._ready:
            self.notifications.reloading()
            self.notifications.ready()

    async def _first_pass(self) -> None:
        while not self.begun():
            await self.board.news(self.board.version)

    def _tell(self, said: str = "") -> str:
        line = self.board.snapshot().line()
        if line != said:
            self.notifications.status(line)
        return line


@dataclass(eq=False)
class Settler:
    """A part that releases memory after the first pass and from time to time."""

    settle: Callable[[], None]
    delays: tuple[float, float] = (SETTLE_SECONDS, SETTLE_AGAIN)
    name: str = "settler"

    async def run(self) -> None:
        """Do it until cancelled."""
        delay, again = self.delays
        while True:
            await asyncio.sleep(delay)
            self.settle()
            delay = again


def look_after(agent: Agent, notifications: Notifications, *, owns_process: bool) -> ServiceReporter:
    """Add the parts of self-care to an agent; `owns_process`: nobody else's program runs in this process.

    Only such a process may be ended for the agent's sake.
    """
    manager = agent.manager
    reporter = ServiceReporter(notifications, agent.board, lambda: agent.last_pass.over)
    socket = StatusSocket(agent.board, agent.managed_host.tree.root, holds_changed=agent.holds.reload)
    manager.add_server(reporter, socket)
    if owns_process:
        manager.add_server(Settler(allocator.settle))
        stuck = agent.managed_host.progress.stuck
        watching = watchdog.of_service_manager(notifications, stuck)
        if watching is None and not _in_terminal():
            watching = watchdog.of_interpreter(stuck)
        if watching is not None:
            watchdog.dump_stacks_when_aborted()
            manager.add_server(watching)
    return reporter


def _in_terminal() -> bool:
    """Tell whether somebody runs us by hand: nobody would start us again, and Ctrl-Z is no hang."""
    return sys.stdin is not None and sys.stdin.isatty()
