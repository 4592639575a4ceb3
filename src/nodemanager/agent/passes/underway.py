"""The progress of a pass for the status: only if it changes something and takes longer than a moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from nodemanager.host.results import Result
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Step

LONG_SECONDS: Final = 2.0


@dataclass(eq=False, slots=True)
class Underway:
    """Lets the status be written once in a long pass; a short pass is reported at its end."""

    tell: Callable[[], None] = lambda: None
    """Asks for the status to be written."""
    seconds: float = LONG_SECONDS
    _done: list[Sequence[Result]] = field(default_factory=list)
    """The results for the resources that the pass has finished, stage by stage."""
    _doing: str = ""
    _long: bool = False
    _told: bool = False

    @property
    def said(self) -> str:
        """What the pass is at, in words; empty = there is none, or it is not worth telling yet."""
        return (self._doing or "looks at what else is declared") if self._told else ""

    @property
    def results(self) -> dict[ResourceId, Result]:
        """What became of the resources that the pass is done with."""
        return {one.id: one for stage in self._done for one in stage}

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """Watch the time that a pass takes."""
        self._doing = ""
        timer = asyncio.get_running_loop().call_later(self.seconds, self._is_long)
        try:
            yield
        finally:
            timer.cancel()
            self._doing, self._long, self._told, self._done = "", False, False, []

    def doing(self, steps: Sequence[Step]) -> None:
        """Take note of the changes that begin now."""
        more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
        self._doing = f"{steps[0].WORDS.verb} {steps[0].id}{more}"
        self._tell()

    def done(self, results: Sequence[Result]) -> None:
        """Take note of what became of some resources."""
        self._done.append(results)
        self._doing = ""

    def _is_long(self) -> None:
        self._long = True
        self._tell()

    def _tell(self) -> None:
        if self._long and self._doing and not self._told:
            self._told = True
            self.tell()
