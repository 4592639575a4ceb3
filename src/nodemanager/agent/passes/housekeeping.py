"""Removes backups of files that are older than they have to be: at the start, and then every hour.

Within a pass, never beside one: a backup that is being made must not meet the removal of its content.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.report.status import Collection
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.process.threads import in_thread
from nodemanager.kube.wording import plural

log = logging.getLogger(__name__)
INTERVAL: Final = 3600.0


@dataclass(slots=True)
class Housekeeper:
    """Knows when it was last done."""

    bucket: Bucket
    clock: Callable[[], float]
    """Seconds that only ever grow."""
    may_act: Callable[[], bool] = lambda: True
    """Whether something on the host may be changed."""
    _next: float | None = None

    def due_in(self) -> float | None:
        """Return the seconds until it is to be done again; None where backups are kept for ever."""
        if not self.bucket.forgets:
            return None
        return 0.0 if self._next is None else max(self._next - self.clock(), 0.0)

    async def collect_if_due(self) -> Collection | None:
        """Do it if it is time; what goes wrong costs a warning, and is tried again in an hour."""
        if self.due_in() != 0.0:
            return None
        self._next = self.clock() + INTERVAL
        if not self.may_act():
            return None
        try:
            return await in_thread(self._collect)
        except OSError as error:
            log.warning("cannot remove old backups: %s", error)
            return None

    def _collect(self) -> Collection:
        removed = self.bucket.collect()
        if removed:
            log.info("removed %s older than they have to be", plural(removed, "backup"))
        return Collection(removed, {one.digest for one in self.bucket.backups()})
