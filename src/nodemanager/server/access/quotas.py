"""Keeps every host to its quota: how many objects there may be in its name, and how many bytes.

Objects are counted in the store at the start, and with every change from then on, so a restart does
not matter. A write that waits for the disk is not yet counted: a host may exceed its quota by as many objects
as it has requests under way, and the number of those is limited elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import User
from nodemanager.server.hub import ApiCall
from nodemanager.store.base import EventType, Store, StoreEvent, StoreRecord

RETRY_SECONDS: Final = 60
"""When to come back: Events go with time."""


class QuotaLimits(NamedTuple):
    """How much of one host may be there at a time."""

    objects: int
    size: int
    """Bytes of all together."""
    one: int
    """Bytes of each."""
    what: str = "objects"
    remedy: str = "delete some"


class QuotaOwner(NamedTuple):
    """A host, and which of its quotas."""

    namespace: str
    host: str
    quota: str


@dataclass(frozen=True, slots=True)
class QuotaRule:
    """The users that quotas limit, the owner of an object, and the limits."""

    limits: Mapping[str, QuotaLimits]
    """The limits by the name of the quota."""
    unowned: str
    """The quota whose limit of one object also holds for objects without an owner."""
    is_limited: Callable[[User], bool]
    owner: Callable[[str, str, str, str], QuotaOwner | None]
    """Returns the owner of an object, by its group, plural, namespace and name."""


@dataclass(slots=True)
class Used:
    """What there is of one host."""

    objects: int = 0
    size: int = 0


class Quotas:
    """The quotas of all hosts."""

    def __init__(self, store: Store, rule: QuotaRule) -> None:
        self._rule = rule
        self._used: dict[QuotaOwner, Used] = {}
        self.refused: Counter[QuotaOwner] = Counter()
        """How often each host was turned away."""
        for record in store.list("/").records:
            self._count(record, 1)
        store.listen(self._changed)

    def used(self, owner: QuotaOwner) -> Used:
        """Return how much there is of a host."""
        return self._used.get(owner, Used())

    def fullest(self, quota: str) -> float:
        """Return how full the fullest quota of a kind is: 1 = nothing more is taken."""
        limits = self._rule.limits[quota]
        shares = (
            max(used.objects / limits.objects, used.size / limits.size)
            for owner, used in self._used.items()
            if owner.quota == quota
        )
        return max(shares, default=0.0)

    def check(self, call: ApiCall, key: str, size: int, before: int | None) -> None:
        """Refuse what would be too much of the host that asks; others have no quota."""
        if not self._rule.is_limited(call.user):
            return
        owner = self._owner(key)
        limits = self._rule.limits[owner.quota if owner else self._rule.unowned]
        if size > limits.one:
            raise errors.Forbidden(
                f"cannot keep {call.kind.qualified_name} of {size} bytes: {limits.one} are the most that a"
                " host may write into one; write less into it"
            )
        if owner is None:
            return  # RBAC lets a host write only a few of these, by name
        used = self.used(owner)
        grown = size - (before or 0)
        if (before is None and used.objects >= limits.objects) or (
            grown > 0 and used.size + grown > limits.size
        ):
            self.refused[owner] += 1
            raise _exceeded(owner, used, limits)

    def _changed(self, events: Sequence[StoreEvent]) -> None:
        for event in events:
            if event.previous is not None:
                self._count(event.previous, -1)
            if event.kind is not EventType.DELETED:
                self._count(event.record, 1)

    def _count(self, record: StoreRecord, sign: int) -> None:
        owner = self._owner(record.key)
        if owner is None:
            return
        used = self._used.setdefault(owner, Used())
        used.objects += sign
        used.size += sign * len(record.value)
        if not used.objects:
            del self._used[owner]

    def _owner(self, key: str) -> QuotaOwner | None:
        """Return the owner of the object with a key of the store: `/GROUP/PLURAL/NAMESPACE/NAME`."""
        parts = key.split("/")
        if len(parts) != 5:
            return None
        _, group, plural, namespace, name = parts
        return self._rule.owner("" if group == "core" else group, plural, namespace, name)


def _exceeded(owner: QuotaOwner, used: Used, limits: QuotaLimits) -> errors.TooManyRequests:
    details = errors.StatusDetails(retry_after_seconds=RETRY_SECONDS)
    return errors.TooManyRequests(
        f"exceeded the quota of host {owner.namespace}/{owner.host}: there are {used.objects} of at most"
        f" {limits.objects} {limits.what} with {used.size} of at most {limits.size} bytes; {limits.remedy}",
        details=details,
    )
