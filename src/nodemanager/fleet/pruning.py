"""How long the deletion of a ConfigSet waits for hosts to take back what they have because of it; pure."""

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
    """Hosts that have yet to take back something, or to say that they have."""
    seconds: float = 0.0
    """How much longer they are waited for; 0 = not any more."""

    @property
    def over(self) -> bool:
        """Whether the set may go."""
        return not self.waiting or self.seconds <= 0


def waits(config_set: ConfigSet) -> bool:
    """Tell whether the deletion of a set is to wait for its hosts."""
    return config_set.spec.prune and _timeout(config_set.spec.prune_timeout) > 0


def deletion(config_set: ConfigSet, nodes: Iterable[ManagedNode], now: datetime) -> Deletion:
    """Return how far it is.

    Hosts are waited for also if it does not prune any more: one that does not hear of that takes back all.
    """
    name = config_set.metadata.name
    waiting = tuple(sorted(node.metadata.name for node in nodes if _has(node, name)))
    return Deletion(waiting, seconds_left(config_set, _timeout(config_set.spec.prune_timeout), now))


def seconds_left(config_set: HasMetadata, timeout: float, now: datetime) -> float:
    """Return how much longer the deletion of a set that has begun waits; 0 = not any more."""
    since = times.parse(config_set.metadata.deletion_timestamp) or now
    return max(timeout - (now - since).total_seconds(), 0.0)


def _has(node: ManagedNode, name: str) -> bool:
    """Tell whether a host reports to have something of a set: what it took back, it does not report."""
    status = node.status
    pruning = status.orphans.pruning if status.orphans else []
    return any(one.name == name for one in status.configsets) or any(one.configset == name for one in pruning)


def _timeout(text: str) -> float:
    try:
        return durations.parse(text)
    except ValueError:  # an older server does not check it
        return DEFAULT_SECONDS
