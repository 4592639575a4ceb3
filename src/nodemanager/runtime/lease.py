"""Leader election by a Lease, so that a deposed leader stops before its successor may start.

    leader:    valid until <the moment before it sent its last successful renewal> + renew_deadline
    candidate: may take over <the moment it saw that renewal> + lease_duration

A renewal is seen after it was sent, and `renew_deadline` is smaller than `lease_duration`,
so there is always a gap of at least the difference in which nobody leads. Each side measures
with its own monotonic clock; wall clocks appear in the Lease for people to read, and are
never compared. `check` is the fence: hand it to `Client.guarded`, and a process that was
stopped for an hour sends nothing when it wakes up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nodemanager.api import core, errors
from nodemanager.client.http import Client
from nodemanager.client.patches import MergePatch
from nodemanager.runtime.parts import LeadershipLost

log = logging.getLogger(__name__)
RELEASED_SECONDS = 1
"""Duration that a lease has when its holder gave it back, and that nobody's lease has otherwise."""
_RELEASED = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS}
COMPLAIN_SECONDS = 60.0
"""The same complaint is written once in this time."""


def boot_clock() -> float:
    """Return seconds that also pass while the machine sleeps, where the system can tell."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def wall_clock() -> datetime:
    """Return the time for people to read."""
    return datetime.now(UTC)


def abandon_process() -> None:
    """End the process at once: something went on acting after leadership was lost."""
    os._exit(70)


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds; the defaults are those of other Kubernetes controllers."""

    lease_duration: int = 15
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.lease_duration > RELEASED_SECONDS:
            raise ValueError(
                f"cannot use lease timings {self}: need 0 < retry_period < renew_deadline < lease_duration,"
                f" which must be above {RELEASED_SECONDS}"
            )

    @property
    def stop_grace(self) -> float:
        """How long the work may take to stop once leadership is lost; half of the gap is kept in hand."""
        return (self.lease_duration - self.renew_deadline) / 2


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where time comes from; tests bring their own."""

    steady: Callable[[], float] = boot_clock
    wall: Callable[[], datetime] = wall_clock


@dataclass(slots=True)
class _Observed:
    """The lease as we last saw it change, and when that was on our clock."""

    version: str
    since: float


class LeaderElector:
    """Waits for the lease, holds it while the work runs, gives it back afterwards."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        timings: Timings | None = None,
        clocks: Clocks | None = None,
        on_overrun: Callable[[], None] = abandon_process,
    ) -> None:
        self.name = f"lease {namespace}/{name}"
        self.identity = identity
        self.token = 0
        """Fencing token: grows with every change of leader, as long as the lease is not deleted."""
        self._client = client
        self._key = (name, namespace)
        self._timings = timings or Timings()
        self._clocks = clocks or Clocks()
        self._on_overrun = on_overrun
        self._valid_until = float("-inf")
        self._version = ""
        self._observed = _Observed("", 0.0)
        self._complaint = ("", float("-inf"))

    # What others see

    def remaining(self) -> float:
        """Return for how many seconds we still lead without another renewal; 0 when we do not."""
        return max(0.0, self._valid_until - self._clocks.steady())

    @property
    def is_leader(self) -> bool:
        """Whether we lead at this moment."""
        return self.remaining() > 0

    def check(self) -> None:
        """Raise unless we lead at this moment: the guard before every write."""
        if not self.is_leader:
            raise LeadershipLost(f"cannot write: {self.identity} does not hold {self.name}")

    # The life of a leader

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, run `lead`, and release the lease after it has ended.

        Raises LeadershipLost when the lease is lost, after `lead` was cancelled and has ended.
        """
        try:
            await self._acquire()
        except asyncio.CancelledError:
            await self._disown()
            raise
        log.info("%s: %s leads now (token %d)", self.name, self.identity, self.token)
        working = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew(), name=f"renew {self.name}")
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
        stopping = asyncio.create_task(self._stop(working, renewing), name=f"stop {self.name}")
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
            grace = self._timings.stop_grace if renewing.done() else None
            waiting = {working} if renewing.done() else {working, renewing}
            done, _ = await asyncio.wait(waiting, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                log.critical("%s: the work went on after leadership was lost", self.name)
                self._on_overrun()
                break
        if working.done() and not working.cancelled() and working.exception() is not None:
            log.info("%s: the work ended with: %s", self.name, working.exception())
        renewing.cancel()
        await asyncio.wait({renewing})
        await self._release()

    async def _acquire(self) -> None:
        while not await self._try_acquire():
            # Half a period: what we do not see, we cannot count down from.
            pause = self._timings.retry_period / 2
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311 - jitter

    async def _try_acquire(self) -> bool:
        try:
            lease = await self._read()
            if lease is None:
                return await self._create() if self._may_create() else False
            return await self._take(lease) if self._expired(lease) else False
        except errors.Conflict:
            return False  # somebody was faster
        except errors.KubeError as error:
            self._complain(error)
            return False

    def _complain(self, error: errors.KubeError) -> None:
        """Write down why we cannot be elected, but not every second."""
        now = self._clocks.steady()
        if str(error) != self._complaint[0] or now >= self._complaint[1] + COMPLAIN_SECONDS:
            hint = ""
            if isinstance(error, errors.NotFound):
                hint = f"; create it with: kubectl create namespace {self._key[1]}"
            log.warning("%s: cannot stand for election: %s%s", self.name, error, hint)
            self._complaint = (str(error), now)

    def _may_create(self) -> bool:
        """Tell whether a missing lease may be created: whoever held it a moment ago may not know yet."""
        return (
            not self._observed.version
            or self._clocks.steady() >= self._observed.since + self._timings.lease_duration
        )

    def _expired(self, lease: core.Lease) -> bool:
        """Tell whether the lease has not changed for its whole duration, on our own clock."""
        now = self._clocks.steady()
        if not lease.spec.holder_identity and lease.spec.lease_duration_seconds == RELEASED_SECONDS:
            return True  # given back; cleared by a person, its holder would not know yet
        if lease.metadata.resource_version != self._observed.version:
            self._observed = _Observed(lease.metadata.resource_version, now)
        duration = max(lease.spec.lease_duration_seconds or 0, self._timings.lease_duration)
        return now >= self._observed.since + duration

    async def _read(self) -> core.Lease | None:
        try:
            async with asyncio.timeout(self._timings.renew_deadline):
                return await self._client.get(core.LEASES, *self._key)
        except errors.NotFound:
            return None
        except TimeoutError as error:
            raise errors.TimedOut(f"cannot read {self.name}: no answer in time") from error

    async def _create(self) -> bool:
        name, namespace = self._key
        sent = self._clocks.steady()
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": self._claim(self.token + 1)}
        try:
            lease = await self._client.create(core.LEASES, body, namespace)
        except errors.AlreadyExists:
            return False
        return self._won(lease, sent)

    async def _take(self, lease: core.Lease) -> bool:
        sent = self._clocks.steady()
        claim = self._claim((lease.spec.lease_transitions or 0) + 1)
        return self._won(await self._patch(claim, lease.metadata.resource_version), sent)

    def _won(self, lease: core.Lease, sent: float) -> bool:
        self._version = lease.metadata.resource_version
        self.token = lease.spec.lease_transitions or 0
        self._valid_until = sent + self._timings.renew_deadline
        return self.is_leader

    def _claim(self, transitions: int) -> dict[str, Any]:
        now = _micro_time(self._clocks.wall())
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timings.lease_duration,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _patch(self, spec: Mapping[str, Any], version: str) -> core.Lease:
        body = {"metadata": {"resourceVersion": version}, "spec": spec}
        return await self._client.patch(core.LEASES, *self._key, MergePatch(body))

    async def _renew(self) -> None:
        """Renew until leadership is lost, and then raise."""
        while True:
            # A little past the end rather than a little before it, where there is no time to do anything.
            await asyncio.sleep(min(self._timings.retry_period, self.remaining() + 0.01))
            self.check()
            try:
                await self._renew_once()
            except errors.KubeError as error:
                left = self.remaining()
                log.warning("%s: cannot renew, %.1f s left: %s", self.name, left, error)

    async def _renew_once(self) -> None:
        """Renew within half a deadline, whatever it takes, so that a failure leaves room for a second try."""
        try:
            async with asyncio.timeout(min(self.remaining(), self._timings.renew_deadline / 2)):
                try:
                    await self._send_renewal()
                except (errors.Conflict, errors.NotFound):
                    own = await self._read_own()
                    if own is None:
                        self._valid_until = float("-inf")
                        raise LeadershipLost(f"{self.name} was taken from {self.identity}") from None
                    # A person touched it, or our last renewal took effect and its answer got lost.
                    self._version = own.metadata.resource_version
                    await self._send_renewal()
        except TimeoutError as error:
            raise errors.TimedOut("no answer in time") from error

    async def _send_renewal(self) -> None:
        sent = self._clocks.steady()
        lease = await self._patch({"renewTime": _micro_time(self._clocks.wall())}, self._version)
        self._version = lease.metadata.resource_version
        self._valid_until = sent + self._timings.renew_deadline

    async def _read_own(self) -> core.Lease | None:
        lease = await self._read()
        if lease is None or lease.spec.holder_identity != self.identity:
            return None
        return lease if lease.spec.lease_transitions == self.token else None

    async def _disown(self) -> None:
        """Give back a lease that the request under way may have won without our knowing."""
        try:
            async with asyncio.timeout(self._timings.retry_period):
                lease = await self._client.get(core.LEASES, *self._key)
                if lease.spec.holder_identity == self.identity:
                    await self._patch(_RELEASED, lease.metadata.resource_version)
        except (errors.KubeError, TimeoutError) as error:
            log.debug("%s: cannot look whether it is ours: %s", self.name, error)

    async def _release(self) -> None:
        """Give the lease back, so that a successor need not wait for it to run out."""
        if not self.is_leader:
            return
        self._valid_until = float("-inf")
        try:
            async with asyncio.timeout(self._timings.retry_period):
                await self._patch(_RELEASED, self._version)
        except (errors.KubeError, TimeoutError) as error:
            log.warning("%s: cannot release, it will run out by itself: %s", self.name, error)


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
