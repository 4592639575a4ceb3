"""The watchdog: says so while all is well, keeps silent otherwise, and ends a process that hangs."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from nodemanager.runtime.sd_notify import Notifications
from nodemanager.runtime.tasks import end
from nodemanager.runtime.watchdog import Watchdog, of_service_manager

OWN = textwrap.dedent(
    """
    import asyncio, threading, time
    from nodemanager.runtime import watchdog

    began = time.monotonic()

    def check():
        return "a pass hangs" if {stuck} and time.monotonic() > began + 0.3 else None

    async def main():
        part = watchdog.of_interpreter(check, limit={limit})
        running = asyncio.create_task(part.run())
        await asyncio.sleep(0.2)
        if {blocks}:
            threading.Event().wait(90)
        await asyncio.sleep({seconds})
        running.cancel()
        await asyncio.wait([running])
        print("ended in order", flush=True)

    asyncio.run(main())
    """
)


def own(
    limit: float, *, stuck: bool = False, blocks: bool = False, seconds: float = 90.0
) -> tuple[int, str, str]:
    """Run a process that has only its own watchdog, of so many seconds, and return how it ended.

    A busy machine may keep it from turning for half that time.
    """
    script = OWN.format(limit=limit, stuck=stuck, blocks=blocks, seconds=seconds)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_process_whose_event_loop_stands_still_ends_and_says_where() -> None:
    code, out, err = own(5.0, blocks=True)
    assert (code, out) == (1, "")
    assert "Timeout (0:00:05)!" in err
    assert "in main" in err


def test_a_process_in_which_something_is_stuck_ends_and_says_what() -> None:
    code, out, err = own(5.0, stuck=True)
    assert (code, out) == (1, "")
    assert "a pass hangs; the watchdog ends this process unless that passes" in err


def test_a_process_that_is_well_outlives_the_limit() -> None:
    assert own(5.0, seconds=6.0) == (0, "ended in order\n", "")


class Turns:
    """Lets a watchdog look as often as a test wants."""

    def __init__(self, *reasons: str | None) -> None:
        self.said: list[str] = []
        self._reasons = list(reasons)
        self.over = asyncio.Event()

    def check(self) -> str | None:
        reason = self._reasons.pop(0)
        self.said.append("stuck" if reason else "looked")
        if not self._reasons:
            self.over.set()
            self._reasons = [reason]
        return reason

    def alive(self) -> None:
        self.said.append("alive")


async def test_silence_begins_with_a_stuck_pass_and_ends_with_it(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    turns = Turns(None, "it hangs", "it hangs", None)
    running = asyncio.create_task(Watchdog(turns.alive, 0.0, turns.check).run())
    async with asyncio.timeout(50):
        await turns.over.wait()
    await end([running])
    assert turns.said[:6] == ["looked", "alive", "stuck", "stuck", "looked", "alive"]
    assert [one.levelno for one in caplog.records] == [logging.CRITICAL]  # once, and not with every look


def test_a_unit_without_a_watchdog_needs_none() -> None:
    check: Callable[[], str | None] = lambda: None  # noqa: E731
    assert of_service_manager(Notifications("/run/x"), check) is None
    part = of_service_manager(Notifications("/run/x", 2.0), check)
    assert part is not None
    assert part.interval == 1.0
