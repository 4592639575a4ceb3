"""What we wrote and have not been told of yet.

A decision that does not see the last one would spend a budget twice. So what a write returned counts until
the cache has it, or something newer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache


@dataclass(slots=True)
class _Written:
    host: ManagedNode
    older: set[str]
    """Versions that are older than it: a cache that shows one of them has not heard of it."""


@dataclass(slots=True)
class HostsAhead:
    """The hosts of the cache, with what we wrote meanwhile."""

    cache: Cache[ManagedNode]
    _written: dict[ObjectKey, _Written] = field(default_factory=dict)

    def get(self, key: ObjectKey) -> ManagedNode | None:
        """Return a host."""
        return self._newest(key, self.cache.get(key))

    def values(self, namespace: str) -> Iterator[ManagedNode]:
        """Return all hosts of a namespace."""
        for host in self.cache.values():
            if host.metadata.namespace == namespace:
                found = self._newest(key_of(host), host) if self._written else host
                if found is not None:
                    yield found

    def wrote(self, before: ManagedNode, after: ManagedNode) -> None:
        """Remember what a write returned."""
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
    """The tasks of the cache, and those that we made and it does not know yet."""

    cache: Cache[NodeTask]
    _made: dict[ObjectKey, NodeTask] = field(default_factory=dict)

    def of(self, uid: str) -> list[NodeTask]:
        """Return all tasks that an object wanted."""
        for key in [key for key in self._made if self.cache.get(key) is not None]:
            del self._made[key]
        known = (*self.cache.values(), *self._made.values())
        return [task for task in known if task.spec.reason is not None and task.spec.reason.uid == uid]

    def made(self, task: NodeTask) -> None:
        """Remember a task that was made."""
        self._made[key_of(task)] = task

    def gone(self, key: ObjectKey) -> None:
        """Forget a task that is not there any more."""
        self._made.pop(key, None)
