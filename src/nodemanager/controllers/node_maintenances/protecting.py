"""Finds hosts with pods that ask for time: right before a host would begin, and later from time to time.

A cluster has too many pods to keep all of them in memory. An operator that restarts looks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from nodemanager.client import node_draining
from nodemanager.client.verbs import Client
from nodemanager.controllers.node_maintenances.visiting import Undertaking
from nodemanager.fleet.maintenance import protected_pods
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.protected_pods import Protection
from nodemanager.kube import errors

AGAIN: Final = timedelta(seconds=30)
"""How often the pods of a host are looked at again, unless a pod named an earlier time."""
AT_ONCE: Final = 20
"""How many hosts one look asks about again, so that many protected hosts do not delay the others."""


@dataclass(frozen=True, slots=True)
class ProtectedHosts:
    """The results by maintenance and host; a maintenance that moves no pods does not ask."""

    client: Client
    _found: dict[tuple[str, str], tuple[Protection, datetime]] = field(default_factory=dict)

    def on(self, uid: str, host: HostFacts) -> HostFacts:
        """Return a host with what its pods asked for."""
        asked = self._found.get((uid, host.name)) if self._found else None
        if asked is None or host.node is None:
            return host
        return replace(host, node=replace(host.node, protected=asked[0]))

    async def refresh(self, about: Undertaking) -> None:
        """Ask again about hosts that were asked a while ago, before the next hosts are chosen."""
        uid = about.owner.metadata.uid
        known = [(until, host) for (owner, host), (_, until) in self._found.items() if owner == uid]
        for until, host in sorted(known)[:AT_ONCE]:
            if not _asks(about):  # there is no run, or it drains nothing
                del self._found[uid, host]
            elif until <= about.now:
                await self._ask(about, host)

    async def keep(self, about: Undertaking, host: HostFacts) -> bool:
        """Ask the pods of a host that is about to begin; tell whether one of them needs time."""
        return host.node is not None and _asks(about) and await self._ask(about, host.name)

    async def _ask(self, about: Undertaking, host: str) -> bool:
        key = about.owner.metadata.uid, host
        try:
            found = await node_draining.pods_of(self.client, host)
        except errors.Forbidden:  # the drain will report it
            found = []
        asked = protected_pods.longest(found, about.now)
        if asked is None:
            self._found.pop(key, None)
            return False
        soon = about.now + AGAIN
        self._found[key] = asked, soon if asked.until is None else min(soon, asked.until)
        return True

    def next(self, uid: str, now: datetime) -> float | None:
        """Return in how many seconds a host has to be asked again; None = no host has to be."""
        ends = [until for (owner, _), (_, until) in self._found.items() if owner == uid]
        return max(0.1, (min(ends) - now).total_seconds()) if ends else None


def _asks(about: Undertaking) -> bool:
    return about.rules.drains and about.drain.asked_at is not None
