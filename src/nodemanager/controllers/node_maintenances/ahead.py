"""Our own writes that the caches do not show yet.

A decision that does not see the last one would spend a budget twice. So the answer to a write counts until
the cache has it, or something newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodetask import UPGRADES, NodeTask
from nodemanager.controllers.node_maintenances import observing
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change

VISITORS: Final = "visitors"
"""Index of hosts: the uid of the maintenance that works there, or worked there last; or one of the words
below."""
UPGRADING: Final = "upgrading"
"""Instead of a uid: all hosts with upgrades that need attention, now or later."""
REPAIRING: Final = "repairing"
"""Instead of a uid: hosts that ask for a turn to repair drift, or have one."""
OWNERS: Final = "owners"
"""Index of tasks: the uid of the object that ordered it."""


def _visitors(host: ManagedNode) -> Iterator[str]:
    claim = observing.claim_of(host)
    if isinstance(claim, Claim):
        yield claim.uid
    upgraded = isinstance(claim, Claim) and claim.is_upgrade
    if upgraded or host.spec.upgrade is not None or UPGRADES in host.metadata.annotations:
        yield UPGRADING
    left = host.status.left_drifts
    if (isinstance(claim, Claim) and claim.repairs and claim.holds) or (left is not None and left.asks):
        yield REPAIRING


def _labelled(host: ManagedNode) -> tuple[object, ...]:
    return host.metadata.uid, host.metadata.labels


def _owners(task: NodeTask) -> Iterator[str]:
    if task.spec.reason is not None:
        yield task.spec.reason.uid


@dataclass(slots=True)
class _Written:
    host: ManagedNode
    older: set[str]
    """Older versions: a cache that shows one of them does not have ours yet."""


@dataclass(slots=True)
class HostsAhead:
    """The hosts of the cache, with what we have written meanwhile."""

    cache: Cache[ManagedNode]
    labelled: int = 0
    """Grows whenever a host comes, goes or gets other labels: while it stays, series select the same hosts.
    """
    _written: dict[ObjectKey, _Written] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cache.add_index(VISITORS, _visitors)
        self.cache.subscribe(self._hear)

    def _hear(self, change: Change[ManagedNode]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or _labelled(old) != _labelled(new):
            self.labelled += 1

    def get(self, key: ObjectKey) -> ManagedNode | None:
        """Return a host."""
        return self._newest(key, self.cache.get(key))

    def everyone(self, namespace: str) -> list[ManagedNode]:
        """Return all hosts of a namespace as the cache has them; our writes never change who they are."""
        return [host for host in self.cache.values() if host.metadata.namespace == namespace]

    def everyone_newest(self, namespace: str) -> list[ManagedNode]:
        """Return all hosts of a namespace, with our own writes."""
        found = self.everyone(namespace)
        return [self.get(key_of(one)) or one for one in found] if self._written else found

    def chosen(self, namespace: str, names: Iterable[str]) -> list[ManagedNode]:
        """Return hosts by their names."""
        found = (self.get(ObjectKey(namespace, name)) for name in names)
        return [host for host in found if host is not None]

    def visited_by(self, uid: str) -> list[ManagedNode]:
        """Return the hosts on which a maintenance works, or worked last; by name."""
        found = self.cache.find(VISITORS, uid)
        if self._written:
            ahead = {key: self.get(key) for key in list(self._written)}
            known = (host for host in ahead.values() if host is not None)
            found = [host for host in found if key_of(host) not in ahead]
            found += [host for host in known if uid in _visitors(host)]
        return sorted(found, key=lambda host: (host.metadata.namespace, host.metadata.name))

    def wrote(self, before: ManagedNode, after: ManagedNode) -> None:
        """Remember the answer to a write."""
        key = key_of(after)
        known = self._written.get(key)
        older = known.older if known is not None else set()
        self._written[key] = _Written(after, {*older, before.metadata.resource_version})

    def _newest(self, key: ObjectKey, cached: ManagedNode | None) -> ManagedNode | None:
        written = self._written.get(key)
        if written is None:
            return cached
        if cached is not None and cached.metadata.resource_version in written.older:
            return written.host
        del self._written[key]
        return cached


@dataclass(slots=True)
class TasksAhead:
    """The tasks of the cache, and those that we made and it does not show yet."""

    cache: Cache[NodeTask]
    _made: dict[ObjectKey, NodeTask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cache.add_index(OWNERS, _owners)

    def of(self, uid: str) -> list[NodeTask]:
        """Return all tasks that an object ordered."""
        for key in [key for key in self._made if self.cache.get(key) is not None]:
            del self._made[key]
        return [*self.cache.find(OWNERS, uid), *(one for one in self._made.values() if uid in _owners(one))]

    def made(self, task: NodeTask) -> None:
        """Remember a task that was made."""
        self._made[key_of(task)] = task

    def gone(self, key: ObjectKey) -> None:
        """Forget a task that does not exist any more."""
        self._made.pop(key, None)
