"""Leader election: waits for a lease, holds it while the work runs, gives it back afterwards."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable

from nodemanager.kube import errors
from nodemanager.runtime.lease import LeaseLock
from nodemanager.runtime.parts import LeadershipLost

log = logging.getLogger(__name__)
COMPLAIN_SECONDS = 60.0
"""The same complaint is written once in this time."""


def abandon_process() -> None:
    """End the process at once: something went on acting after leadership was lost."""
    os._exit(70)


class LeaderElector:
    """Runs work while, and only while, a lease is held. `LeaseLock.check` is the fence for its writes."""

    def __init__(self, lock: LeaseLock, *, on_overrun: Callable[[], None] = abandon_process) -> None:
        self._lock = lock
        self._on_overrun = on_overrun
        self._complaint = ("", float("-inf"))

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, run `lead`, and release the lease after it has ended.

        Raises LeadershipLost when the lease is lost, after `lead` was cancelled and has ended.
        """
        try:
            await self._acquire()
        except asyncio.CancelledError:
            await self._lock.disown()
            raise
        log.info("%s: %s leads now (token %d)", self._lock.name, self._lock.identity, self._lock.token)
        working = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew(), name=f"renew {self._lock.name}")
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end(working, renewing)
        lost = None if renewing.cancelled() else renewing.exception()
        if lost is not None:
            raise LeadershipLost(str(lost)) from lost
        await working

    async def _end(self, working: asyncio.Future[None], renewing: asyncio.Task[None]) -> None:
        """Stop to the end, also when we are cancelled meanwhile; that tells the work to hurry."""
        working.cancel()
        stopping = asyncio.create_task(self._stop(working, renewing), name=f"stop {self._lock.name}")
        cancelled: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.wait({stopping})
            except asyncio.CancelledError as error:
                cancelled = error
                working.cancel()
        stopping.result()
        if cancelled is not None:
            raise cancelled

    async def _stop(self, working: asyncio.Future[None], renewing: asyncio.Task[None]) -> None:
        """Wait for the end of the work; the lease is renewed until then, and only then given up."""
        while not working.done():
            grace = self._lock.timings.stop_grace if renewing.done() else None
            waiting = {working} if renewing.done() else {working, renewing}
            done, _ = await asyncio.wait(waiting, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                log.critical("%s: the work went on after leadership was lost", self._lock.name)
                self._on_overrun()
                break
        if working.done() and not working.cancelled() and working.exception() is not None:
            log.info("%s: the work ended with: %s", self._lock.name, working.exception())
        renewing.cancel()
        await asyncio.wait({renewing})
        await self._lock.release()

    async def _acquire(self) -> None:
        while not await self._try():
            # Half a period: what we do not see, we cannot count down from.
            pause = self._lock.timings.retry_period / 2
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311 - jitter

    async def _try(self) -> bool:
        try:
            return await self._lock.try_acquire()
        except errors.KubeError as error:
            self._complain(error)
            return False

    def _complain(self, error: errors.KubeError) -> None:
        """Write down why we cannot be elected, but not every second."""
        now = self._lock.clocks.steady()
        if str(error) != self._complaint[0] or now >= self._complaint[1] + COMPLAIN_SECONDS:
            hint = ""
            if isinstance(error, errors.NotFound):
                hint = f"; create it with: kubectl create namespace {self._lock.namespace}"
            log.warning("%s: cannot stand for election: %s%s", self._lock.name, error, hint)
            self._complaint = (str(error), now)

    async def _renew(self) -> None:
        """Renew until leadership is lost, and then raise."""
        while True:
            # A little past the end rather than a little before it, where there is no time to do anything.
            await asyncio.sleep(min(self._lock.timings.retry_period, self._lock.remaining() + 0.01))
            self._lock.check()
            try:
                await self._lock.renew()
            except errors.KubeError as error:
                left = self._lock.remaining()
                log.warning("%s: cannot renew, %.1f s left: %s", self._lock.name, left, error)
