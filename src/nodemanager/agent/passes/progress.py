"""Tells a long pass from a hanging one.

What may take long is done by programs: a package transaction, an execution, a validation. Each has a time of
its own after which it is ended, so a program within its time does not count as hanging. Everything else
that a pass does is a matter of seconds, and of minutes on a slow disk; if nothing at all happens for longer
than that (a thread that waits for a dead NFS server), the pass hangs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Unpack

from nodemanager.host.base import How, Runner
from nodemanager.host.process.runner import Completed

QUIET_SECONDS: Final = 900.0
"""How long no step may begin or end in a pass; a job of systemd may take five minutes."""
GRACE: Final = 60.0
"""Seconds after its time that a program may take to be ended."""


@dataclass(eq=False, slots=True)
class PassProgress:
    """Knows when something last happened in the passes over this host."""

    limit: float = QUIET_SECONDS
    clock: Callable[[], float] = time.monotonic
    _last: float = 0.0
    _passes: int = 0
    _allowed: dict[object, float] = field(default_factory=dict)
    """Until when the programs that run now may take."""
    _programs: dict[object, str] = field(default_factory=dict)
    """The programs that run now, the one that began first in front."""

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Watch over a pass."""
        self._mark()
        self._passes += 1
        try:
            yield
        finally:
            self._passes -= 1
            self._mark()

    @contextlib.contextmanager
    def allowing(self, seconds: float) -> Iterator[None]:
        """Let something within a pass take so long: it is bounded by somebody else."""
        token = object()
        self._allowed[token] = self.clock() + seconds + GRACE
        try:
            yield
        finally:
            del self._allowed[token]
            self._mark()

    def timed(self, run: Runner) -> Runner:
        """Return what runs programs, each of which may take as long as its caller says."""

        async def timed(argv: Sequence[str], **how: Unpack[How]) -> Completed:
            with self.allowing(how["timeout"]), self._named(argv):
                return await run(argv, **how)

        return timed

    def program(self) -> str:
        """Return the name of the program that has been running for longest; empty = none is."""
        return next(iter(self._programs.values()), "")

    @contextlib.contextmanager
    def _named(self, argv: Sequence[str]) -> Iterator[None]:
        token = object()
        supervised = (
            argv[1:2] == ["-c"] and len(argv) > 4
        )  # sh -c TEXT NOTE PROGRAM: see host/process/runs.py
        self._programs[token] = argv[4 if supervised else 0].rpartition("/")[2]
        try:
            yield
        finally:
            del self._programs[token]

    def tick(self) -> float:
        """Return the time, and count the call as progress: it is made when a step begins or ends."""
        self._mark()
        return self._last

    def stuck(self) -> str | None:
        """Return why a pass counts as stuck, or None."""
        now = self.clock()
        if not self._passes or any(now < until for until in self._allowed.values()):
            return None
        quiet = now - self._last
        if quiet <= self.limit:
            return None
        return f"a pass over this host hangs: nothing has happened in it for {quiet:.0f} s"

    def _mark(self) -> None:
        self._last = self.clock()
