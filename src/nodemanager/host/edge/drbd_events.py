"""Hears from DRBD that something changed; the new state is then read separately.

So lines that are lost or in the wrong order do no harm. They do not contain progress.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.host.base import Follower
from nodemanager.host.edge import drbd
from nodemanager.host.process.runner import RunError

log = logging.getLogger(__name__)
EVENTS: Final = ("drbdsetup", "events2", "all")
AGAIN: Final = 30.0
"""Seconds after which a stream that ended, or never began, is started again."""
_NEWS: Final = frozenset((b"create", b"change", b"destroy", b"rename"))
_VERBS: Final = ("exists", "create", "change", "destroy")


class DrbdEvent(NamedTuple):
    """A line about the state of something, or about an event."""

    verb: str
    kind: str
    """Resource, device, connection or peer-device; a dash marks the end of the first part."""
    fields: dict[str, str]

    def number(self, name: str) -> int:
        """Return a number, such as the ID of a node; -1 where there is none."""
        text = self.fields.get(name, "")
        return int(text) if text.isdecimal() else -1


def parse(line: bytes) -> DrbdEvent | None:
    """Return what a line says; None = nothing of how something is; pure."""
    words = line.decode("ascii", "replace").split()
    if words and words[0] not in _VERBS:  # a time may stand before it
        words = words[1:]
    if len(words) < 2 or words[0] not in _VERBS:
        return None
    return DrbdEvent(words[0], words[1], dict(one.partition(":")[::2] for one in words[2:]))


def is_news(line: bytes) -> bool:
    """Tell whether a line says that something changed, and not how it is or that a helper ran; pure."""
    words = line.split(None, 2)
    return any(word in _NEWS for word in words[:2])  # a time may stand before it


@dataclass(frozen=True, slots=True)
class DrbdEvents:
    """Follows DRBD while its module is loaded."""

    root: str | Path
    follow: Follower
    changed: Callable[[], None]
    again: float = AGAIN

    @property
    def name(self) -> str:
        """How it is called in logs."""
        return "drbd events"

    async def run(self) -> None:
        """Follow until cancelled."""
        told = ""
        while True:
            if drbd.is_loaded(self.root):
                why = await self._followed()
                if why != told:
                    log.warning("%s; DRBD is looked at now and then only", why)
                told = why
                self.changed()  # changes meanwhile were not heard
            await asyncio.sleep(self.again)

    async def _followed(self) -> str:
        """Follow a stream to its end; return why that is over."""
        try:
            return f"drbdsetup events2 ended with {await self.follow(EVENTS, self._heard)}"
        except RunError as error:
            return str(error)

    def _heard(self, line: bytes) -> None:
        if is_news(line):
            self.changed()
