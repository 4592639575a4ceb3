"""A Lease that is held for a host: across crashes and reboots, and beside agents of the Go project.

    held        holderIdentity is the holder's name; renewed long before leaseDurationSeconds are over
    released    no holderIdentity, renewTime in the past (the object stays)
    run out     not changed for its whole duration, measured by the process that wants it

The identity is the same in every process: the hostname, or what the operator is called when it holds one for
a host. So a process finds its own lease again after a crash or a reboot, and goes on.
A foreign lease counts as run out when it was *seen* unchanged for its whole duration on our
own clock. Only where its `renewTime` is older than that by more than `SKEW`, it is taken without
watching it: so far apart no two clocks are supposed to be, and a host that died last week need not
be waited for again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors, times
from nodemanager.runtime.lease import RELEASED_SECONDS, Clocks

SKEW: Final = timedelta(hours=1)
CALL_SECONDS: Final = 10.0
_KEPT: Final = 0.9
"""Share of the duration for which a holder counts on its lease; the rest is the gap to the next one."""
_PAST: Final = timedelta(hours=2)
_TRIES: Final = 4


class LeaseLost(errors.KubeError):
    """Another process holds what we held."""


@dataclass(slots=True)
class _Seen:
    version: str = ""
    since: float = 0.0


class SharedLease:
    """One Lease that a process wants to hold."""

    def __init__(self, client: Client, key: tuple[str, str], identity: str, clocks: Clocks) -> None:
        self.name, self._namespace = key
        self.identity = identity
        self.holder = ""
        """The holder at our last look."""
        self._client = client
        self._clocks = clocks
        self._seen = _Seen()
        self._valid_until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether no other process can hold it at this moment."""
        return self._clocks.steady() < self._valid_until

    async def claim(self, duration: float) -> bool:
        """Take it, or renew it if it is ours already; False while another one has its turn."""
        missing: errors.NotFound | None = None
        for _ in range(_TRIES):
            try:
                return await self._claim(duration)
            except (errors.Conflict, errors.AlreadyExists):
                missing = None  # another writer was faster; perhaps a person who only touched it
            except errors.NotFound as error:
                missing = error  # deleted between reading and writing, or the namespace is not there
        if missing is not None:
            raise missing
        return False

    async def _claim(self, duration: float) -> bool:
        lease = await self._read()
        sent = self._clocks.steady()
        if lease is None:
            self._seen = _Seen()
            body = {"metadata": {"name": self.name, "namespace": self._namespace}}
            spec = {**self._spec(duration), "leaseTransitions": 1, "acquireTime": self._stamp()}
            await self._create({**body, "spec": spec})
        else:
            spec = self._spec(duration)
            if lease.spec.holder_identity != self.identity:
                if not self._free(lease):
                    self._valid_until = float("-inf")
                    return False
                transitions = (lease.spec.lease_transitions or 0) + 1
                spec |= {"leaseTransitions": transitions, "acquireTime": self._stamp()}
            await self._patch(spec, lease.metadata.resource_version)
        self.holder = self.identity
        self._valid_until = sent + duration * _KEPT
        return True

    async def renew(self, duration: float) -> None:
        """Keep it for another duration; raise LeaseLost if it is not ours any more."""
        if not await self.claim(duration):
            raise LeaseLost(f"lease {self._namespace}/{self.name} was taken by {self.holder or 'somebody'}")

    async def release(self) -> None:
        """Give it back if it is ours; raise KubeError if that cannot be done now."""
        self._valid_until = float("-inf")
        for attempt in range(_TRIES):
            lease = await self._read()
            if lease is None or lease.spec.holder_identity != self.identity:
                return
            past = times.rfc3339_micro(self._clocks.wall() - _PAST)
            spec = {"holderIdentity": None, "renewTime": past, "leaseDurationSeconds": RELEASED_SECONDS}
            try:
                await self._patch(spec, lease.metadata.resource_version)
            except errors.Conflict:
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    def _free(self, lease: core.Lease) -> bool:
        """Tell whether a foreign lease may be taken."""
        self.holder = lease.spec.holder_identity or ""
        now = self._clocks.steady()
        if lease.metadata.resource_version != self._seen.version:
            self._seen = _Seen(lease.metadata.resource_version, now)
        duration = float(lease.spec.lease_duration_seconds or 0)
        age = self._clocks.wall() - _parse(lease.spec.renew_time)
        if not self.holder:  # given back, by us or by the Go project; else cleared by a person
            return age.total_seconds() >= duration or now >= self._seen.since + duration
        return now >= self._seen.since + duration or age >= SKEW + timedelta(seconds=duration)

    def _spec(self, duration: float) -> dict[str, Any]:
        seconds = max(int(duration), RELEASED_SECONDS + 1)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": seconds,
            "renewTime": self._stamp(),
        }

    def _stamp(self) -> str:
        return times.rfc3339_micro(self._clocks.wall())

    async def _read(self) -> core.Lease | None:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await self._client.get(core.LEASES, self.name, self._namespace)
        except errors.NotFound:
            return None
        except TimeoutError as error:
            raise errors.TimedOut(f"cannot read lease {self.name}: no answer in time") from error

    async def _create(self, body: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._client.create(core.LEASES, body, self._namespace)
        except TimeoutError as error:
            raise errors.TimedOut(f"cannot create lease {self.name}: no answer in time") from error

    async def _patch(self, spec: dict[str, Any], version: str) -> None:
        body = MergePatch({"metadata": {"resourceVersion": version}, "spec": spec})
        try:
            async with asyncio.timeout(CALL_SECONDS):
                lease = await self._client.patch(core.LEASES, self.name, self._namespace, body)
        except TimeoutError as error:
            raise errors.TimedOut(f"cannot write lease {self.name}: no answer in time") from error
        self._seen = _Seen(lease.metadata.resource_version, self._clocks.steady())


def _parse(text: str | None) -> datetime:
    """Read a renewTime; one that is missing or no time is as old as can be."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
