"""A Lease that says that a process works, where nothing depends on who holds it.

One that is elected is there as long as its Lease is renewed. One that works without an election has none, and
nobody could tell whether it still does: so it renews the same one, as long as nobody else does.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from nodemanager.kube import errors
from nodemanager.runtime.lease import LeaseLock, Timings
from nodemanager.runtime.parts import LeadershipLost

log = logging.getLogger(__name__)
TIMINGS: Final = Timings(lease_duration=30, renew_deadline=20.0, retry_period=8.0)
"""Whoever asks looks back for minutes, so it costs a quarter of the writes of an election.
One that was killed has its Lease again after half a minute."""


@dataclass(frozen=True, slots=True)
class UnelectedLease:
    """A part that takes a Lease if it is free, renews it, and gives it back; it never stops any work."""

    lock: LeaseLock

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"sign of life in {self.lock.name}"

    async def run(self) -> None:
        """Renew until cancelled."""
        try:
            while True:
                await self._renew()
                await asyncio.sleep(self.lock.timings.retry_period)
        finally:
            await self.lock.release()

    async def _renew(self) -> None:
        try:
            if self.lock.held:
                await self.lock.renew()
            else:
                await self.lock.try_acquire()
        except (errors.KubeError, LeadershipLost) as error:
            log.debug("%s: %s", self.name, error)  # an API that is away is told by whoever needs it
