"""The agent gives priority to the work of the host, but the programs that it starts keep normal priority.

Programs inherit the priority of their parent for their whole life. A daemon that an init script
of ours starts would be slow for ever, and a package manager hold its locks longer. So the priority is put
back for the moment in which a program is started. It is that of the thread, which is the event loop's.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

log = logging.getLogger(__name__)


class _Thread:
    """The priority of the thread that starts programs."""

    usual: int | None = None
    """The priority before we lowered it; None = we have not."""
    lowered = 0


def step_back(by: int) -> None:
    """Lower our priority by so much, but only if the process may raise it again."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    if by <= 0 or os.geteuid() != 0:
        return  # only root may start its children at the usual priority again
    try:
        os.setpriority(os.PRIO_PROCESS, 0, usual + by)
        os.setpriority(os.PRIO_PROCESS, 0, usual)  # a container may keep even root from that
        os.setpriority(os.PRIO_PROCESS, 0, usual + by)
    except OSError as error:
        log.info("cannot lower the priority of this process: %s", error)
        return
    _Thread.usual, _Thread.lowered = usual, usual + by


@contextlib.contextmanager
def usual() -> Iterator[None]:
    """Start a program in here, and it runs at the priority that we were started at."""
    if _Thread.usual is None:
        yield
        return
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _Thread.usual)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _Thread.lowered)
