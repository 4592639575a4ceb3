"""Starts the parts of a process in order, watches over them, and stops them in reverse.

    servers -> caches -> others -> leader-only parts

Each group is of use before the next one starts: servers listen, caches have synced. Parts of
one group start, and stop, together. A part that ends or raises by itself stops everything, and
`run` raises PartFailed with that error as its cause: half a process is worse than none.

Leader-only parts run while an Elector says so and are stopped *before* it gives up the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from nodemanager.kube import errors
from nodemanager.runtime import parts, signals, tasks

LAST_CALL = 1.0
"""Seconds a part gets after its second cancellation, which says: at once."""

Task = asyncio.Task[None]


class ManagerError(Exception):
    """Root of what `Manager.run` raises by itself."""


class PartFailed(ManagerError):
    """A part ended by itself; the cause is what it raised, if it did."""


class StartTimedOut(ManagerError):
    """A part was not of use in time."""


class StopTimedOut(ManagerError):
    """A part did not end in time; its task is left behind, so the process should end now."""


@dataclass(eq=False)
class Manager:
    """The parts of one process; it runs once."""

    _: KW_ONLY
    log: logging.Logger
    elector: parts.Elector | None = None
    """Decides when the leader-only parts run; None = always."""
    start_timeout: float | None = 120.0
    """Seconds that each group gets to be of use; None = wait for ever (a host without its API)."""
    stop_timeout: float = 30.0
    """Seconds that all parts together get to end in good order."""
    exit_now: Callable[[int], object] = os._exit
    on_stop: Callable[[], None] = lambda: None
    """Called when stopping begins, for any reason."""
    _servers: list[parts.Part] = field(default_factory=list, init=False)
    _caches: list[parts.Part] = field(default_factory=list, init=False)
    _others: list[parts.Part] = field(default_factory=list, init=False)
    _leaders: list[parts.Part] = field(default_factory=list, init=False)
    _groups: list[list[Task]] = field(default_factory=list, init=False)
    _waiting_for: set[str] = field(default_factory=set, init=False)
    _over: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _failure: Exception | None = field(default=None, init=False)
    _dismissed: set[Task] = field(default_factory=set, init=False)
    _stuck: list[str] = field(default_factory=list, init=False)
    _phase: str = field(default="new", init=False)

    def add_server(self, *added: parts.Part) -> None:
        """Add parts that start first and end last: probes, metrics."""
        self._add(self._servers, added)

    def add_cache(self, *added: parts.Part) -> None:
        """Add caches, which start together and must sync before anything relies on them."""
        self._add(self._caches, added)

    def add(self, *added: parts.Part) -> None:
        """Add parts that run whether or not this process leads."""
        self._add(self._others, added)

    def add_leader_only(self, *added: parts.Part) -> None:
        """Add parts that at most one process may run at a time."""
        self._add(self._leaders, added)

    def stop(self, reason: str) -> None:
        """Ask for a graceful stop; returns at once."""
        if not self._over.is_set():
            self.log.info("stopping: %s", reason)
            self._over.set()

    def not_ready(self) -> str | None:
        """Return why this process is of no use yet or any more, or None: a check for /readyz."""
        if self._over.is_set():
            return "stopping"
        if self._waiting_for:
            return "waiting for " + ", ".join(sorted(self._waiting_for))
        return None if self._phase == "started" else "starting"

    async def run(
        self, *, install_signals: bool = False, on_hangup: Callable[[], None] | None = None
    ) -> None:
        """Run all parts until `stop`, a signal, a failure or cancellation; then stop all of them.

        Returns after a graceful stop; raises PartFailed, StartTimedOut or StopTimedOut otherwise.
        """
        if self._phase != "new":
            raise RuntimeError("cannot run a manager twice: make a new one")
        self._phase = "starting"
        with contextlib.ExitStack() as stack:
            if install_signals:
                stack.enter_context(signals.handled(self.stop, on_hangup=on_hangup, exit_now=self.exit_now))
            starting = self._spawn("start", self._start())
            starting.add_done_callback(self._on_started)
            try:
                await self._over.wait()
            finally:
                self._over.set()
                self.on_stop()
                await self._end_all(starting)
        if self._failure is not None:
            raise self._failure
        if self._stuck:
            raise StopTimedOut(self._stuck_message())

    def _add(self, group: list[parts.Part], added: Sequence[parts.Part]) -> None:
        if self._phase != "new":
            raise RuntimeError(f"cannot add {added[0].name}: the manager is running already")
        known = {part.name for part in (*self._servers, *self._caches, *self._others, *self._leaders)}
        for part in added:
            if part.name in known:
                raise ValueError(f"cannot add {part.name}: there is a part of that name; give it another")
            known.add(part.name)
            group.append(part)

    async def _start(self) -> None:
        for group in (self._servers, self._caches, self._others):
            await self._start_group(group, self._groups)
        if self.elector is None:
            await self._start_group(self._leaders, self._groups)
        elif self._leaders:
            self._groups.append([self._watched("leader election", self.elector.run(self._lead))])
        self._phase = "started"
        self.log.info("started")

    async def _start_group(self, group: list[parts.Part], running: list[list[Task]]) -> None:
        """Start the parts of a group and wait until each is of use."""
        running.append([self._watched(part.name, part.run()) for part in group])
        waits = {
            self._spawn(f"start of {part.name}", wait): part.name
            for part in group
            for wait in _conditions(part)
        }
        if not waits:
            return
        self._waiting_for.update(waits.values())
        try:
            for wait in waits:
                wait.add_done_callback(lambda done: self._waiting_for.discard(waits[done]))
            done, late = await asyncio.wait(waits, timeout=self.start_timeout)
            if late:
                names = ", ".join(sorted(waits[wait] for wait in late))
                raise StartTimedOut(
                    f"cannot start: not ready within {self.start_timeout:g} s: {names}; "
                    "see what they logged; a cache needs an API server that lets us list and watch"
                )
            for wait in done:
                wait.result()
        finally:
            await tasks.end(waits)
            self._waiting_for.difference_update(waits.values())

    async def _lead(self) -> None:
        """Run the leader-only parts until cancelled; return only when every one has ended."""
        self.log.info("leading: starting %s", ", ".join(part.name for part in self._leaders))
        running: list[list[Task]] = []
        try:
            await self._start_group(self._leaders, running)
            # When a part fails, the manager stops us through the elector, like for any other stop.
            await asyncio.get_running_loop().create_future()
        except StartTimedOut as exc:
            self._fail(exc)
        finally:
            # Leadership was lost unless we are stopping: then there is no time for good order.
            again_after = None if self._over.is_set() else LAST_CALL
            self._dismissed = {task for group in running for task in group}
            await tasks.end(self._dismissed, again_after=again_after)
            self.log.info("no longer leading")

    def _spawn(self, name: str, main: Coroutine[Any, Any, None]) -> Task:
        return asyncio.create_task(main, name=name)

    def _watched(self, name: str, main: Coroutine[Any, Any, None]) -> Task:
        task = self._spawn(name, main)
        task.add_done_callback(functools.partial(self._on_end, name))
        return task

    def _on_end(self, name: str, task: Task) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None and (self._over.is_set() or task in self._dismissed):
            return
        failure = PartFailed(f"{name} failed: {error}" if error else f"{name} ended, which it should not")
        failure.__cause__ = error
        self._fail(failure)

    def _on_started(self, task: Task) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Stop everything because of the first error; write down the others."""
        if self._over.is_set():
            bug = None if isinstance(error.__cause__, errors.KubeError) else error.__cause__
            self.log.error("while stopping: %s", error, exc_info=bug)
            return
        self._failure = error
        self.log.error("stopping: %s", error)
        self._over.set()

    async def _end_all(self, starting: Task) -> None:
        """End all groups in reverse; if we are cancelled meanwhile, end them at once."""
        ending = self._spawn("stop", self._end_groups(starting))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as exc:
                cancelled = exc
                for task in [task for group in self._groups for task in group]:
                    task.cancel()
        ending.result()
        if cancelled is not None:
            raise cancelled

    async def _end_groups(self, starting: Task) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.stop_timeout
        await tasks.end([starting])
        for group in reversed(self._groups):
            for task in reversed(group):
                task.cancel()
            late = await _wait(group, deadline - loop.time())
            for task in late:
                self.log.warning("%s did not end in good order, ending it at once", task.get_name())
                task.cancel()
            self._stuck += [task.get_name() for task in await _wait(late, LAST_CALL)]
        if self._stuck:
            self.log.error(self._stuck_message())

    def _stuck_message(self) -> str:
        return f"cannot stop within {self.stop_timeout:g} s: still running: {', '.join(self._stuck)}"


def _conditions(part: parts.Part) -> list[Coroutine[Any, Any, None]]:
    """Return what to wait for before a part is of use."""
    waits: list[Coroutine[Any, Any, None]] = []
    if isinstance(part, parts.Ready):
        waits.append(part.ready())
    if isinstance(part, parts.Synced):
        waits.append(part.synced())
    return waits


async def _wait(group: Sequence[Task], seconds: float) -> list[Task]:
    """Wait for tasks to end, and return those that did not, in order."""
    if group:
        await asyncio.wait(group, timeout=max(seconds, 0.0))
    return [task for task in group if not task.done()]
