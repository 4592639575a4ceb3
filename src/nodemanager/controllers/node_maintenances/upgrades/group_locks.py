"""The Leases of groups that hosts upgrade in, held by the operator for the host whose turn it is.

They are the same that hosts take themselves without an operator, so that both kinds share a group. The holder
of one is named after the operator and the host, so that the next operator recognises it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.rights import host_rights, operator_rights
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.runtime.lease import Clocks
from nodemanager.runtime.shared_lease import SharedLease

FIRST_SECONDS: Final = 60.0
"""How long a Lease lasts if the visit for which it was taken is not written yet."""


class GroupLocks:
    """Takes, renews and gives back the Leases of groups."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._clocks = Clocks(wall=now)
        self._leases: dict[tuple[str, str, str], SharedLease] = {}
        """By namespace, group and host."""
        self._kept: set[tuple[str, str, str]] = set()

    async def take(self, host: ManagedNode, group: str) -> str:
        """Take a Lease for a moment; return its present holder, empty = we have it."""
        if group.startswith(host_rights.PREFIX):
            return f"nobody: {group} is the name of a Lease that is no lock; choose another group"
        lease = self._lease(host, group)
        return "" if await lease.claim(FIRST_SECONDS) else lease.holder or "somebody else"

    async def keep(self, host: ManagedNode, claim: Claim, now: datetime) -> bool:
        """Hold the Lease of a visit for as long as that may take; tell whether it is ours.

        It is written once, so a host that goes down while no operator runs does not lose its turn.
        """
        key, lease = _key(host, claim.group), self._lease(host, claim.group)
        if key in self._kept and lease.held:
            return True
        longest = max(claim.expires - now, timedelta()) + upgrade_tasks.LEASE_AFTERWARDS
        if not await lease.claim(longest.total_seconds()):
            return False
        self._kept.add(key)
        return True

    async def give_back(self, host: ManagedNode, group: str) -> None:
        """Give a Lease back, if it is ours."""
        await self._lease(host, group).release()
        key = _key(host, group)
        self._kept.discard(key)
        self._leases.pop(key, None)

    def _lease(self, host: ManagedNode, group: str) -> SharedLease:
        key = _key(host, group)
        if key not in self._leases:
            identity = f"{operator_rights.NAME}:{host.metadata.name}"
            place = group, host.metadata.namespace
            self._leases[key] = SharedLease(self._client, place, identity, self._clocks)
        return self._leases[key]


def _key(host: ManagedNode, group: str) -> tuple[str, str, str]:
    return host.metadata.namespace, group, host.metadata.name
