"""Hosts as a cache has them, the same object until one says something else; and what is known of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.fleet.rollout.remembering import HostMemory


@dataclass
class CachedNodes:
    """What an operator has that runs for long; worlds compare its decisions with those of a new one."""

    known: dict[str, ManagedNode] = field(default_factory=dict)
    memories: dict[str, HostMemory] = field(default_factory=lambda: defaultdict(HostMemory))

    def nodes(self, now: Iterable[ManagedNode]) -> list[ManagedNode]:
        """Return hosts, as far as they say the same as before by the same objects."""
        before, found = self.known, {one.metadata.name: one for one in now}
        self.known = {name: before[name] if before.get(name) == one else one for name, one in found.items()}
        return list(self.known.values())

    def memory(self, config_set: str) -> HostMemory:
        """Return what is remembered of the hosts of a set, or of those that move with it."""
        return self.memories[config_set]
