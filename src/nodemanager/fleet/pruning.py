"""How long the deletion of a ConfigSet waits for hosts to take back what they have because of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from nodemanager.api.common.configset import PRUNE_TIMEOUT, ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube import times
from nodemanager.kube.go import durations
from nodemanager.kube.objects import HasMetadata

DEFAULT_SECONDS: Final = durations.parse(PRUNE_TIMEOUT)


class Deletion(NamedTuple):
    """How far the deletion of a set is."""

    waiting: tuple[str, ...] = ()
    """Hosts that have not taken everything back yet, or have not reported it."""
    seconds: float = 0.0
    """How much longer the deletion waits for them; 0 = not any more."""

    @property
    def over(self) -> bool:
        """Whether the set may be removed now."""
        return not self.waiting or self.seconds <= 0


def waits(config_set: ConfigSet) -> bool:
    """Tell whether the deletion of a set is to wait for its hosts."""
    return config_set.spec.prune and _timeout(config_set.spec.prune_timeout) > 0


def deletion(config_set: ConfigSet, nodes: Iterable[ManagedNode], now: datetime) -> Deletion:
    """Return how far the deletion is.

    It waits for hosts even if the set prunes no more: a host that has not heard of that takes back all.
    """
    name = config_set.metadata.name
    waiting = tuple(sorted(node.metadata.name for node in nodes if _has(node, name)))
    return Deletion(waiting, seconds_left(config_set, _timeout(config_set.spec.prune_timeout), now))


def seconds_left(config_set: HasMetadata, timeout: float, now: datetime) -> float:
    """Return how much longer a deletion that has begun waits; 0 = not any more."""
    since = times.parse(config_set.metadata.deletion_timestamp) or now
    return max(timeout - (now - since).total_seconds(), 0.0)


def _has(node: ManagedNode, name: str) -> bool:
    """Tell whether a host reports that it has part of a set: it does not report what it took back."""
    status = node.status
    pruning = status.orphans.pruning if status.orphans else []
    return any(one.name == name for one in status.configsets) or any(one.configset == name for one in pruning)


def _timeout(text: str) -> float:
    try:
        return durations.parse(text)
    except ValueError:  # an older server does not validate it
        return DEFAULT_SECONDS
