"""What parts of the agent may ask of its loop; made first, and handed to everybody who has something to ask.

There are two names in the queue: the host's own, for which the answer is a pass over it; and that of its
status, which is written from what is known already. So a part that asks need not know which part answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.queue import WorkQueue

SETTLE_SECONDS: Final = 0.05
"""Changes at about the same time have one answer."""
STATUS_SECONDS: Final = 0.5
"""Repairs at about the same time share one report."""


@dataclass(eq=False, slots=True)
class Requests:
    """The queue of the agent's loop, as a set of requests."""

    queue: WorkQueue[ObjectKey]
    key: ObjectKey
    """The host's own name: the answer is a pass."""
    changed: Callable[[], None] = lambda: None
    """Called when there is news of the host."""
    _waiting: list[asyncio.Event] = field(default_factory=list)

    @property
    def status_key(self) -> ObjectKey:
        """The name of the host's status: the answer is that it is written."""
        return ObjectKey(self.key.namespace, f"{self.key.name}/status")

    def pass_now(self) -> None:
        """Ask for a pass now."""
        self.queue.add(self.key)

    def pass_soon(self, seconds: float = SETTLE_SECONDS) -> None:
        """Ask for a pass in a moment, together with whatever else happens until then."""
        self.queue.add_after(self.key, seconds)

    def status_soon(self) -> None:
        """Ask for the status to be written in a moment, together with whatever else happens until then."""
        self.queue.add_after(self.status_key, STATUS_SECONDS)
        self.changed()

    async def settled(self) -> None:
        """Return when a pass that begins from now on has found, or made, everything as declared."""
        event = asyncio.Event()
        self._waiting.append(event)
        try:
            self.pass_now()
            await event.wait()
        finally:
            self._waiting.remove(event)

    def waiting(self) -> list[asyncio.Event]:
        """Return who waits for a pass that begins now; it sets these if everything is as declared."""
        return list(self._waiting)
