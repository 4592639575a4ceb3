"""Signals: the first one asks a process to stop, the second one ends it at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def handled(
    stop: Callable[[str], None],
    *,
    on_hangup: Callable[[], None] | None = None,
    exit_now: Callable[[int], object] = os._exit,
) -> Iterator[None]:
    """Call `stop` on the first SIGINT or SIGTERM and exit with 1 on the next; restore all afterwards.

    SIGHUP calls `on_hangup`; without one it keeps its meaning. Must run in the main thread.
    """
    loop = asyncio.get_running_loop()
    ours = [*STOP_SIGNALS, *([signal.SIGHUP] if on_hangup else [])]
    previous = {number: signal.getsignal(number) for number in ours}

    def first(number: signal.Signals) -> None:
        # From here on handlers run between any two bytecodes, not only when the loop gets to
        # them: the second signal is for the case that the loop is what hangs.
        for stop_signal in STOP_SIGNALS:
            loop.remove_signal_handler(stop_signal)
            signal.signal(stop_signal, second)
        stop(f"received {number.name}")

    def second(_number: int, _frame: FrameType | None) -> None:
        exit_now(1)

    try:
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, first, number)
        if on_hangup is not None:
            loop.add_signal_handler(signal.SIGHUP, on_hangup)
        yield
    finally:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            if handler is not None:  # None: installed by C code, and not ours to name
                signal.signal(number, handler)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Have SIGTERM, which cancelled jobs get, end a command as Ctrl-C does, so that it tidies up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
