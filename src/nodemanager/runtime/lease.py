"""A Lease as a lock, so that a deposed holder stops before its successor may start.

    holder:    valid until <the moment before it sent its last successful renewal> + renew_deadline
    candidate: may take over <the moment it saw that renewal> + lease_duration

A renewal is seen after it was sent, and `renew_deadline` is smaller than `lease_duration`,
so there is always a gap of at least the difference in which no process holds it. Each side measures
with its own monotonic clock; wall clocks appear in the Lease for people to read, and are
never compared. `check` is the fence: hand it to `Client.guarded`, and a process that was
stopped for an hour sends nothing when it wakes up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors, times
from nodemanager.runtime.parts import LeadershipLost

log = logging.getLogger(__name__)
RELEASED_SECONDS = 1
"""The duration of a lease that was given back; no held lease has this duration."""
_RELEASED = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS}


def boot_clock() -> float:
    """Return seconds that also pass while the machine sleeps, where the system can tell."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def wall_clock() -> datetime:
    """Return the time for people to read."""
    return datetime.now(UTC)


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


class LeaseLock:
    """One Lease that one identity wants to hold."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        timings: Timings | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        self.name = f"lease {namespace}/{name}"
        self.namespace = namespace
        self.identity = identity
        self.timings = timings or Timings()
        self.clocks = clocks or Clocks()
        self.token = 0
        """Fencing token: grows with every change of holder, as long as the lease is not deleted."""
        self._client = client
        self._key = (name, namespace)
        self._valid_until = float("-inf")
        self._version = ""
        self._observed = _Observed("", 0.0)

    def remaining(self) -> float:
        """Return for how many seconds it is still ours without another renewal; 0 if it is not."""
        return max(0.0, self._valid_until - self.clocks.steady())

    @property
    def held(self) -> bool:
        """Whether it is ours at this moment."""
        return self.remaining() > 0

    def check(self) -> None:
        """Raise unless it is ours at this moment: the guard before every write."""
        if not self.held:
            raise LeadershipLost(f"cannot write: {self.identity} does not hold {self.name}")

    async def try_acquire(self) -> bool:
        """Take the lease if no holder has it any more; raise KubeError if that cannot be found out."""
        try:
            lease = await self._read()
            if lease is None:
                return await self._create() if self._may_create() else False
            return await self._take(lease) if self._expired(lease) else False
        except errors.Conflict:
            return False  # another process was faster

    def _may_create(self) -> bool:
        """Tell whether a missing lease may be created: its last holder may not know yet that it is gone."""
        return (
            not self._observed.version
            or self.clocks.steady() >= self._observed.since + self.timings.lease_duration
        )

    def _expired(self, lease: core.Lease) -> bool:
        """Tell whether the lease has not changed for its whole duration, on our own clock."""
        now = self.clocks.steady()
        if not lease.spec.holder_identity and lease.spec.lease_duration_seconds == RELEASED_SECONDS:
            return True  # given back; cleared by a person, its holder would not know yet
        if lease.metadata.resource_version != self._observed.version:
            self._observed = _Observed(lease.metadata.resource_version, now)
        duration = max(lease.spec.lease_duration_seconds or 0, self.timings.lease_duration)
        return now >= self._observed.since + duration

    async def _read(self) -> core.Lease | None:
        try:
            async with asyncio.timeout(self.timings.renew_deadline):
                return await self._client.get(core.LEASES, *self._key)
        except errors.NotFound:
            return None
        except TimeoutError as error:
            raise errors.TimedOut(f"cannot read {self.name}: no answer in time") from error

    async def _create(self) -> bool:
        name, namespace = self._key
        sent = self.clocks.steady()
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": self._claim(self.token + 1)}
        try:
            lease = await self._client.create(core.LEASES, body, namespace)
        except errors.AlreadyExists:
            return False
        return self._won(lease, sent)

    async def _take(self, lease: core.Lease) -> bool:
        sent = self.clocks.steady()
        claim = self._claim((lease.spec.lease_transitions or 0) + 1)
        return self._won(await self._patch(claim, lease.metadata.resource_version), sent)

    def _won(self, lease: core.Lease, sent: float) -> bool:
        self._version = lease.metadata.resource_version
        self.token = lease.spec.lease_transitions or 0
        self._valid_until = sent + self.timings.renew_deadline
        return self.held

    def _claim(self, transitions: int) -> dict[str, Any]:
        now = times.rfc3339_micro(self.clocks.wall())
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.timings.lease_duration,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _patch(self, spec: Mapping[str, Any], version: str) -> core.Lease:
        body = {"metadata": {"resourceVersion": version}, "spec": spec}
        return await self._client.patch(core.LEASES, *self._key, MergePatch(body))

    async def renew(self) -> None:
        """Renew within half a deadline in any case, so that a failure leaves room for a second try."""
        try:
            async with asyncio.timeout(min(self.remaining(), self.timings.renew_deadline / 2)):
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
        sent = self.clocks.steady()
        lease = await self._patch({"renewTime": times.rfc3339_micro(self.clocks.wall())}, self._version)
        self._version = lease.metadata.resource_version
        self._valid_until = sent + self.timings.renew_deadline

    async def _read_own(self) -> core.Lease | None:
        lease = await self._read()
        if lease is None or lease.spec.holder_identity != self.identity:
            return None
        return lease if lease.spec.lease_transitions == self.token else None

    async def disown(self) -> None:
        """Give back a lease that the request under way may have won without our knowing."""
        try:
            async with asyncio.timeout(self.timings.retry_period):
                lease = await self._client.get(core.LEASES, *self._key)
                if lease.spec.holder_identity == self.identity:
                    await self._patch(_RELEASED, lease.metadata.resource_version)
        except (errors.KubeError, TimeoutError) as error:
            log.debug("%s: cannot look whether it is ours: %s", self.name, error)

    async def release(self) -> None:
        """Give the lease back, so that a successor need not wait for it to run out."""
        if not self.held:
            return
        self._valid_until = float("-inf")
        try:
            async with asyncio.timeout(self.timings.retry_period):
                await self._patch(_RELEASED, self._version)
        except (errors.KubeError, TimeoutError) as error:
            log.warning("%s: cannot release, it will run out by itself: %s", self.name, error)
