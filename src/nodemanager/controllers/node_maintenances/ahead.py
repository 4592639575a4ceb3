"""What we wrote and have not been told of yet.

A decision that does not see the last one would spend a budget twice. So what a write returned counts until
the cache has it, or something newer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nodemanager.api.common.managednode import ManagedNode
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
