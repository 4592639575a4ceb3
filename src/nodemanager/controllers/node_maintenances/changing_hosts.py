"""Which hosts are on their way to a change of a ConfigSet; calculated once for each report of a host.

It looks only at sets with a change under way, and only at hosts that reported since the last look, unless
more hosts have their turn by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.fleet.rollout import on_the_way
from nodemanager.fleet.rollout.on_the_way import UnderWay
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change

UNDER_WAY: Final = "under way"
"""Index: sets whose change is under way, by namespace."""


def under_way(config_set: ConfigSet) -> Iterable[str]:
    """Return the index values of a set."""
    return [config_set.metadata.namespace] if on_the_way.of_set(config_set) is not None else []


@dataclass(slots=True)
class ChangingHosts:
    """Remembers results until the host or a change makes progress."""

    config_sets: Cache[ConfigSet]
    """With the index `UNDER_WAY`."""
    _changes: dict[str, list[UnderWay]] = field(default_factory=dict)
    """The changes of each namespace at the last look."""
    _found: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    """By namespace and host: the version of the host, and the set whose change it takes."""

    def of(self, namespace: str, hosts: Sequence[ManagedNode]) -> Mapping[str, str]:
        """Return the hosts that are on their way, each with the name of the set."""
        found = [on_the_way.of_set(one) for one in self.config_sets.find(UNDER_WAY, namespace)]
        changes = sorted((one for one in found if one is not None), key=lambda one: one.name)
        if changes != self._changes.get(namespace, []):
            self._changes[namespace], self._found[namespace] = changes, {}
        if not changes:
            return {}
        known = self._found.setdefault(namespace, {})
        fresh = [one for one in hosts if known.get(one.metadata.name, ("",))[0] != _version(one)]
        if fresh:
            new = on_the_way.hosts(changes, fresh)
            known.update(
                (one.metadata.name, (_version(one), new.get(one.metadata.name, ""))) for one in fresh
            )
        names = (one.metadata.name for one in hosts)
        return {name: change for name in names if (change := known[name][1])}

    def forget(self, change: Change[ManagedNode]) -> None:
        """Forget a host that is gone."""
        if change.new is None:
            self._found.get(change.key.namespace, {}).pop(change.key.name, None)


def names(config_sets: Cache[ConfigSet], namespace: str) -> list[ObjectKey]:
    """Return the sets with a change under way."""
    return [key_of(one) for one in config_sets.find(UNDER_WAY, namespace)]


def _version(host: ManagedNode) -> str:
    return f"{host.metadata.uid}/{host.metadata.resource_version}"
