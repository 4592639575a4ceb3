"""Restarts the process when it hangs: a supervisor gets a sign of life in time while all is well.

Without that sign the supervisor ends the process: systemd, if the unit has `WatchdogSec=`, or else a timer
of the interpreter that needs neither the event loop nor the interpreter's lock. Both leave the stacks of all
threads in the log, and the service manager starts the process again.

    the event loop turns  +  `check` finds nothing stuck  ->  `alive`
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from nodemanager.runtime.sd_notify import Notifications

log = logging.getLogger(__name__)
OWN_LIMIT: Final = 300.0
"""Seconds that the event loop may stand still where no service manager says otherwise."""


@dataclass(eq=False)
class Watchdog:
    """A part that says so while all is well, and otherwise keeps silent."""

    alive: Callable[[], None]
    """Called while all is well."""
    interval: float
    """Seconds between two looks: half of what it takes to be ended."""
    check: Callable[[], str | None]
    """Returns what is stuck, in words, or None."""
    stop: Callable[[], None] = lambda: None
    """Called at a normal end, which the watchdog must not treat as a hang."""
    name: str = "watchdog"

    async def run(self) -> None:
        """Look, and say so, until cancelled."""
        stuck = False
        try:
            while True:
                reason = self.check()
                if reason is None:
                    self.alive()
                elif not stuck:
                    log.critical("%s; the watchdog ends this process unless that passes", reason)
                    dump_stacks()
                stuck = reason is not None
                await asyncio.sleep(self.interval)
        finally:
            self.stop()


def of_service_manager(notifications: Notifications, check: Callable[[], str | None]) -> Watchdog | None:
    """Return a watchdog that relies on systemd; None where the unit has none."""
    if notifications.watchdog is None:
        return None
    return Watchdog(notifications.alive, notifications.watchdog / 2, check)


def of_interpreter(
    check: Callable[[], str | None], limit: float = OWN_LIMIT, out: TextIO | None = None
) -> Watchdog:
    """Return a watchdog of our own: `limit` seconds without a sign end the process, with status 1."""
    to = out or sys.stderr

    def wind_up() -> None:
        faulthandler.dump_traceback_later(limit, exit=True, file=to)

    return Watchdog(wind_up, limit / 2, check, faulthandler.cancel_dump_traceback_later)


def dump_stacks() -> None:
    """Write to stderr where every thread is, as far as there is a stderr."""
    try:
        faulthandler.dump_traceback(all_threads=True)
    except (OSError, ValueError, RuntimeError, AttributeError) as error:
        log.debug("cannot write the stacks: %s", error)


def dump_stacks_when_aborted() -> None:
    """Write the stacks also when another process ends us with SIGABRT, as systemd's watchdog does."""
    try:
        faulthandler.enable()
    except (OSError, ValueError, RuntimeError, AttributeError) as error:
        log.debug("cannot write stacks of a crash: %s", error)
