"""An event loop whose clock jumps to the next timer instead of waiting for it.

    def test_backoff() -> None:
        async def scenario() -> None:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(300)
            assert loop.time() == 300.0
        virtual_time.run(scenario())        # takes no time at all

    @virtual_time.test                      # the same for a whole test function, fixtures included
    async def test_other() -> None: ...

Only `loop.time()` is virtual. Sockets work; since the clock jumps as soon as no socket is
readable, a test that talks to another *process* passes `io_grace`, the real seconds to wait
for sockets before each jump. While an executor thread works, the clock stands still.
A loop in which nothing can happen any more (no timer, no socket, no thread) raises `StalledError`
instead of hanging.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack

STALL_AFTER = 20.0
"""Real seconds to wait for a socket or a thread when no timer is set; below the test timeout."""

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


class StalledError(AssertionError):
    """The test waits for something that cannot happen."""


class _Selector(selectors.BaseSelector):
    """The default selector, except that waiting for a timer moves the clock instead."""

    def __init__(self, io_grace: float) -> None:
        self._real = selectors.DefaultSelector()
        self._io_grace = io_grace
        self.loop: VirtualTimeLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._real.select(0)
        if events or timeout == 0 or self.loop is None:
            return events
        has_sockets = len(self._real.get_map()) > 1  # the first one is the loop's own wake-up pipe
        if self.loop.threads or (timeout is None and has_sockets):
            return self._wait_for_real()
        if timeout is None:
            raise StalledError("cannot go on: every task waits, and no timer, socket or thread can wake one")
        if has_sockets and self._io_grace:
            events = self._real.select(self._io_grace)
        if not events:
            self.loop.jump()
        return events

    def _wait_for_real(self) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._real.select(STALL_AFTER)
        if not events:
            raise StalledError(
                f"cannot go on: no socket or thread did anything for {STALL_AFTER:g} real seconds"
            )
        return events

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector loop with `time()` in its own hands."""

    def __init__(self, start: float = 0.0, io_grace: float = 0.0) -> None:
        self._now = start
        self.threads = 0
        selector = _Selector(io_grace)
        super().__init__(selector)
        selector.loop = self
        self._set_resolution()

    def time(self) -> float:
        """Return the virtual seconds."""
        return self._now

    def jump(self) -> None:
        """Move to the next timer, exactly; asyncio fires what is due within the clock's resolution."""
        self._now = max(self._now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        self._set_resolution()

    def advance(self, seconds: float) -> None:
        """Jump the clock as a suspended machine does: timers that fell due fire late, all at once."""
        self._now += seconds
        self._set_resolution()

    def run_in_executor(
        self, executor: concurrent.futures.Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run in a real thread; the clock stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for threads that still run, in real time."""
        self.threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self.threads -= 1

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1

    def _set_resolution(self) -> None:
        # Must stay above the spacing of floats around `now`, or a due timer would never be due.
        self._clock_resolution = max(1e-9, 2 * math.ulp(self._now))


def run(
    main: Coroutine[Any, Any, T], *, start: float = 0.0, io_grace: float = 0.0, allow_leaks: bool = False
) -> T:
    """Run a coroutine on a fresh virtual loop; a task that it leaves behind fails the test."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(start, io_grace)) as runner:
        result = runner.run(main)
        leaked = asyncio.all_tasks(runner.get_loop())
        if leaked and not allow_leaks:
            raise AssertionError(f"tasks left behind: {sorted(task.get_name() for task in leaked)}")
        return result


def test(function: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make an `async def test_...` run on a virtual loop; fixtures and parameters still work."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        run(function(*args, **kwargs))

    return wrapper


test.__test__ = False  # type: ignore[attr-defined]  # pytest: a decorator, even where it is imported by name


async def settle() -> None:
    """Let every task run until all of them wait for a timer, a socket or each other."""
    loop = asyncio.get_running_loop()
    ready: Any = loop._ready  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready:  # noqa: ASYNC110  # no event to wait for: we wait for everybody else to wait
        await asyncio.sleep(0)
