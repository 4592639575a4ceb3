"""Everything that the agent has of the API: requests, watches, Events, locks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from nodemanager.agent.link.api_reachability import ApiReachability
from nodemanager.agent.report import heartbeat
from nodemanager.agent.upgrades.locks import SharedLocks
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube.core import LEASES
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.events import EventRecorder


@dataclass(frozen=True, slots=True)
class ApiLink:
    """The API as one host uses it."""

    key: ObjectKey
    """The key of our ManagedNode."""
    reachability: ApiReachability
    client: Client
    """Its requests tell `reachability` whether the API answers and accepts us."""
    config_sets: Cache[ConfigSet]
    nodes: Cache[ManagedNode]
    events: EventRecorder
    locks: SharedLocks
    """The locks, one object for restarts and upgrades: a host holds a lock once, for all its users."""

    def warn(self, reason: str, message: str) -> None:
        """Record a warning about this host, once it is known to the API."""
        if (own := self.nodes.get(self.key)) is not None:
            self.events.warning(MANAGED_NODES, own, reason, message)

    def hurry_when_back(self, *more: Callable[[], None]) -> None:
        """Let everything that waits after a failure try again at once when the API is back."""
        for one in (self.config_sets.hurry, self.nodes.hurry, *more):
            self.reachability.subscribe(one)


def link(client: Client, reachability: ApiReachability, key: ObjectKey) -> ApiLink:
    """Return the API as a host of this name uses it."""
    # Not the writes to its ManagedNode: an admission policy may forbid one of them to a host that may stay.
    own = (
        ("GET", MANAGED_NODES.path(key.namespace, key.name)),
        ("PATCH", LEASES.path(key.namespace, heartbeat.lease_name(key.name))),
    )
    client = client.through(lambda transport: reachability.watching(transport, own))
    here = Selection(key.namespace)
    nodes = Cache(client, MANAGED_NODES, here)

    def lent() -> str:
        own = nodes.get(key)
        return upgrade_tasks.lent(own, datetime.now(UTC)) if own is not None else ""

    return ApiLink(
        key,
        reachability,
        client,
        Cache(client, CONFIG_SETS, here),
        nodes,
        EventRecorder(client, "nodemanager", key.name),
        SharedLocks(client, key.namespace, key.name, lent=lent),
    )
