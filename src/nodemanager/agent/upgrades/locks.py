"""Locks that hosts share, as Leases: groups of services that restart, and of hosts that upgrade.

One name space serves both, as in the Go project. Within this host a lock may be held several
times at once (a service restarts under `web` while the host upgrades under `web`); the Lease is given
back when the last of them is done. It is renewed in the background all the while.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from nodemanager.client.verbs import Client
from nodemanager.host.base import Busy, HostError
from nodemanager.kube import errors
from nodemanager.runtime import tasks
from nodemanager.runtime.lease import Clocks
from nodemanager.runtime.shared_lease import LeaseLost, SharedLease

log = logging.getLogger(__name__)
WAIT_SECONDS: Final = 30.0
HOLD_SECONDS: Final = 60.0
"""How long a lock outlives an agent that died with it and does not come back."""
POLL_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 2.0
"""How long the API has to say who holds a lock, if no work waits for the lock itself."""
MAX_RETRY: Final = 15.0
_RENEWALS: Final = 4
"""Renewals per duration: three may fail in a row."""


class LockLost(HostError):
    """Another host took a lock while it was needed."""


@dataclass(frozen=True, slots=True)
class LockTimings:
    """Seconds."""

    wait: float = WAIT_SECONDS
    """How long to wait for a turn, before the work is left to the next pass."""
    duration: float = HOLD_SECONDS
    answer: float | None = None
    """How long to wait for the API's answer; None = as long as the client does."""


@dataclass(slots=True)
class _Held:
    """A lock in use on this host."""

    lease: SharedLease
    holds: int = 0
    """How many users are inside `hold`."""
    claimed: float = 0.0
    """For how long the lock was claimed; 0 = it was not."""
    hold_seconds: float = HOLD_SECONDS
    renewing: asyncio.Task[None] | None = None
    lost: str = ""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a user of this host takes the Lease or gives it back: a user that is interrupted must not
    give back what another has just taken."""

    @property
    def used(self) -> bool:
        return bool(self.holds or self.claimed)

    @property
    def duration(self) -> float:
        return max(self.claimed, self.hold_seconds)


class SharedLocks:
    """The locks of one host."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        hostname: str,
        *,
        timings: LockTimings | None = None,
        clocks: Clocks | None = None,
        lent: Callable[[], str] = lambda: "",
    ) -> None:
        """`lent` returns the lock that the operator holds for this host, while it is upgraded."""
        self._lent = lent
        self._client = client
        self._namespace = namespace
        self._hostname = hostname
        self._timings = timings or LockTimings()
        self._clocks = clocks or Clocks()
        self._locks: dict[str, _Held] = {}

    def at_once(self) -> SharedLocks:
        """Return the same locks for those who do not wait: while it is not their turn, they are `Busy`."""
        found = copy.copy(self)
        found._timings = replace(self._timings, wait=0.0, answer=ANSWER_SECONDS)  # noqa: SLF001 - our own copy
        return found

    @contextlib.asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold a lock while inside; raise `Busy` if it is not our turn in time.

        What runs inside is never interrupted. If the lock was lost meanwhile, `LockLost` says so at
        the end: the work is done, but perhaps not alone.
        """
        if name == self._lent():
            yield
            return
        await self._wait_for(name)
        try:
            yield
            lost = self._locks[name].lost
        finally:
            await self._leave(name)
        if lost:
            raise LockLost(
                f"lock {name} was lost before the work under it was done, so that another host may have done"
                f" the same at the same time: {lost}"
            )

    async def claim(self, name: str, duration: float) -> bool:
        """Take a lock that is kept until `release`, also by the next process; False if it is not our turn."""
        held = self._held(name)
        async with held.turn:
            if not await self._take(held, max(duration, held.duration)):
                return False
            held.claimed = duration
            return True

    async def _take(self, held: _Held, duration: float) -> bool:
        if not await held.lease.claim(duration):
            return False
        held.lost = ""
        if held.renewing is None or held.renewing.done():
            held.renewing = asyncio.create_task(_renew(held), name=f"renew lock {held.lease.name}")
        return True

    async def prolong(self, name: str) -> None:
        """Renew a lock right now; raise LockLost or KubeError if that fails."""
        held = self._locks.get(name)
        if held is None or not held.used:
            raise LockLost(f"lock {name} is not held")
        self.check(name)
        try:
            await held.lease.renew(held.duration)
        except LeaseLost as error:
            held.lost = str(error)
            raise LockLost(f"lock {name} was lost: {error}") from error

    def check(self, name: str) -> None:
        """Raise LockLost unless a lock is ours at this moment."""
        held = self._locks.get(name)
        if held is None or held.lost or not held.lease.held:
            why = held.lost if held is not None and held.lost else "it could not be renewed in time"
            raise LockLost(f"lock {name} was lost: {why}")

    async def release(self, name: str) -> None:
        """Give back a lock that was claimed, by us or by a process before us; raises KubeError."""
        held = self._held(name)
        held.claimed = 0.0
        async with held.turn:
            await self._give_back(held)

    async def _give_back(self, held: _Held) -> None:
        if not held.used:
            await self._stop_renewing(held)
            await held.lease.release()

    async def close(self) -> None:
        """Stop renewing, and give nothing back: what is held belongs to the next process of this host."""
        for held in self._locks.values():
            if not held.holds:
                await self._stop_renewing(held)

    def _held(self, name: str) -> _Held:
        held = self._locks.get(name)
        if held is None:
            lease = SharedLease(self._client, (name, self._namespace), self._hostname, self._clocks)
            held = self._locks[name] = _Held(lease, hold_seconds=self._timings.duration)
        return held

    async def _wait_for(self, name: str) -> None:
        """Wait for our turn; who waits is told why it did not come."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timings.wait
        held = self._held(name)
        while True:
            try:
                async with asyncio.timeout(self._timings.answer):
                    taken = await self._take_or_undo(held)
                if taken:
                    return
                why = f"{self.holder(name)} holds it"
            except (errors.Forbidden, errors.Invalid, errors.NotFound, errors.BadRequest) as error:
                raise HostError(f"cannot take lock {name}: {error}") from error
            except (errors.TransportError, TimeoutError) as error:
                raise Busy(
                    f"cannot take lock {name}: {str(error) or 'the API does not answer'}; only it can tell"
                    " whose turn it is, the next pass tries again"
                ) from error
            except errors.KubeError as error:
                why = str(error)
            if loop.time() + POLL_SECONDS > deadline:
                raise Busy(
                    f"cannot take lock {name}: {why}; waited {self._timings.wait:g} s,"
                    " the next pass tries again"
                )
            await asyncio.sleep(POLL_SECONDS)

    async def _take_or_undo(self, held: _Held) -> bool:
        """Take it; if we are cancelled meanwhile, give back what we may have got without knowing."""
        async with held.turn:
            try:
                taken = await self._take(held, held.duration)
            except asyncio.CancelledError:
                with contextlib.suppress(errors.KubeError, TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._give_back(held)
                raise
            held.holds += taken
            return taken

    def holder(self, name: str) -> str:
        """Return who held a lock when we last asked for it, for people to read."""
        held = self._locks.get(name)
        return (held.lease.holder if held else "") or "somebody else"

    async def _leave(self, name: str) -> None:
        held = self._locks[name]
        held.holds -= 1
        try:
            async with held.turn:
                await self._give_back(held)
        except errors.KubeError as error:
            log.warning("lock %s: cannot give it back, it will run out by itself: %s", name, error)

    async def _stop_renewing(self, held: _Held) -> None:
        if held.renewing is not None:
            await tasks.end([held.renewing])
            held.renewing = None


async def _renew(held: _Held) -> None:
    """Renew until cancelled or lost; a duration that another user asked for counts from its next renewal."""
    while True:
        pause = held.duration / _RENEWALS
        await asyncio.sleep(pause)
        while not await _renewed(held):
            if held.lost:
                return
            await asyncio.sleep(min(pause / 2, MAX_RETRY))


async def _renewed(held: _Held) -> bool:
    try:
        await held.lease.renew(held.duration)
    except LeaseLost as error:
        held.lost = str(error)
        log.warning("lock %s is lost: %s", held.lease.name, error)
        return False
    except errors.KubeError as error:
        log.warning("lock %s: cannot renew: %s", held.lease.name, error)
        if not held.lease.held and not held.lost:
            held.lost = f"it could not be renewed: {error}"
        return False
    return True
