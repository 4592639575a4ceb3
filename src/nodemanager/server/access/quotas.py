"""Keeps every host to its quota: how many objects there may be in its name, and how many bytes.

What there is, is counted from the store at the start and followed from there, so that a restart changes
nothing. A write that waits for the disk is not counted yet: a host may be over by as many as it has requests
under way, which is bounded elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nodemanager.api.rights import host_quota
from nodemanager.api.rights.host_quota import Owner
from nodemanager.kube import errors
from nodemanager.server.hub import Call
from nodemanager.store.base import Event, Kind, Record, Store

RETRY_SECONDS: Final = 60
"""When to come back: Events go with time."""


@dataclass(slots=True)
class Used:
    """What there is of one host."""

    objects: int = 0
    size: int = 0


class Quotas:
    """The quotas of all hosts."""

    def __init__(self, store: Store, limits: Mapping[str, host_quota.Limits] = host_quota.LIMITS) -> None:
        self._limits = limits
        self._used: dict[Owner, Used] = {}
        self.refused: Counter[Owner] = Counter()
        """How often each host was turned away."""
        for record in store.list("/").records:
            self._count(record, 1)
        store.listen(self._changed)

    def used(self, owner: Owner) -> Used:
        """Return what there is of a host."""
        return self._used.get(owner, Used())

    def fullest(self, quota: str) -> float:
        """Return how full the fullest quota of a kind is: 1 = nothing more is taken."""
        limits = self._limits[quota]
        shares = (
            max(used.objects / limits.objects, used.size / limits.size)
            for owner, used in self._used.items()
            if owner.quota == quota
        )
        return max(shares, default=0.0)

    def check(self, call: Call, key: str, size: int, before: int | None) -> None:
        """Refuse what would be too much of the host that asks; others have no quota."""
        if host_quota.host_of(call.user) is None:
            return
        owner = _owner(key)
        limits = self._limits[owner.quota if owner else host_quota.OBJECTS]
        if size > limits.one:
            raise errors.Forbidden(
                f"cannot keep {call.kind.qualified_name} of {size} bytes: {limits.one} are the most that a"
                " host may write into one; write less into it"
            )
        if owner is None:
            return  # what is nobody's in particular has a name that RBAC gave, and so there are few
        used = self.used(owner)
        grown = size - (before or 0)
        if (before is None and used.objects >= limits.objects) or (
            grown > 0 and used.size + grown > limits.size
        ):
            self.refused[owner] += 1
            raise _exceeded(owner, used, limits)

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.previous is not None:
                self._count(event.previous, -1)
            if event.kind is not Kind.DELETED:
                self._count(event.record, 1)

    def _count(self, record: Record, sign: int) -> None:
        owner = _owner(record.key)
        if owner is None:
            return
        used = self._used.setdefault(owner, Used())
        used.objects += sign
        used.size += sign * len(record.value)
        if not used.objects:
            del self._used[owner]


def _owner(key: str) -> Owner | None:
    """Return whose the object of a store's key is: `/GROUP/PLURAL/NAMESPACE/NAME`."""
    parts = key.split("/")
    if len(parts) != 5:
        return None
    _, group, plural, namespace, name = parts
    return host_quota.owner("" if group == "core" else group, plural, namespace, name)


def _exceeded(owner: Owner, used: Used, limits: host_quota.Limits) -> errors.TooManyRequests:
    what = "Events" if owner.quota == host_quota.EVENTS else "objects"
    then = "they go an hour after they were written" if owner.quota == host_quota.EVENTS else "delete some"
    details = errors.StatusDetails(retry_after_seconds=RETRY_SECONDS)
    return errors.TooManyRequests(
        f"exceeded the quota of host {owner.namespace}/{owner.host}: there are {used.objects} of at most"
        f" {limits.objects} {what} with {used.size} of at most {limits.size} bytes; {then}",
        details=details,
    )
