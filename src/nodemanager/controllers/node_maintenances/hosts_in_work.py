"""The hosts of one maintenance, several at a time: those in work take the next step, others begin.

Which hosts begin was decided before. Here each host is separate: an error with one is no
reason to leave the others.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.controllers.node_maintenances.ahead import HostsAhead
from nodemanager.controllers.node_maintenances.observing import HostObservation
from nodemanager.controllers.node_maintenances.protecting import ProtectedHosts
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.controllers.node_maintenances.visiting import Undertaking, VisitDriver, Visited
from nodemanager.fleet.maintenance import beginning
from nodemanager.fleet.maintenance.beginning import VisitOwner
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.decide import HostStart
from nodemanager.fleet.maintenance.facts import HostFacts, MaintenanceFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import Move
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime import tasks

log = logging.getLogger("nodemanager.operator")
LOOK_SECONDS: Final = 30.0
"""The longest time between two looks at a maintenance: a window may have opened."""
AT_ONCE: Final = 0.0
CONFLICT: Final = 0.2
"""Another program wrote on the host, such as its agent; after this time the watch has shown it to us."""
HOSTS_AT_ONCE: Final = 16
"""How many hosts one look works on at a time."""


@dataclass(frozen=True, slots=True)
class HostsInWork:
    """Carries out what was decided about hosts; each call returns how soon there is more to do."""

    hosts: HostsAhead
    driver: VisitDriver
    protected: ProtectedHosts
    observation: HostObservation

    async def go_on(
        self, seen: MaintenanceSnapshot, about: Undertaking, facts: Mapping[str, HostFacts]
    ) -> float:
        """Let every host in work take one step."""
        visits = self._visits(seen, facts)
        soon = await tasks.each(functools.partial(self._go_on, about), visits, HOSTS_AT_ONCE)
        return min(soon, default=LOOK_SECONDS)

    def _visits(self, seen: MaintenanceSnapshot, facts: Mapping[str, HostFacts]) -> list[Visited]:
        of_host: dict[str, list[NodeTask]] = {}
        for task in seen.tasks:
            of_host.setdefault(task.spec.node_name, []).append(task)
        uid = seen.maintenance.metadata.uid
        found: list[Visited] = []
        for host in self.hosts.visited_by(uid):
            known = facts.get(host.metadata.name)
            claim = known.claim if known is not None else None
            if known is None or not isinstance(claim, Claim) or claim.uid != uid:
                continue
            if claim.holds or (claim.state is State.HALTED and claim.reason is Reason.HOST_LOST):
                heard = self.observation.heard(host, known)
                found.append(Visited(host, heard, claim, of_host.get(host.metadata.name, ())))
        return found

    async def _go_on(self, about: Undertaking, visited: Visited) -> float:
        try:
            found = await self.driver.drive(about, visited)
        except (errors.Conflict, errors.NotFound):  # another writer was faster: look again
            return CONFLICT
        except (errors.KubeError, ValueError) as error:  # an error of this host: the others go on
            log.warning("cannot go on with host %s: %s", visited.host.metadata.name, error)
            return LOOK_SECONDS
        return AT_ONCE if isinstance(found, Move) else LOOK_SECONDS

    async def begin(
        self,
        seen: MaintenanceSnapshot,
        about: Undertaking,
        known: MaintenanceFacts,
        starts: Sequence[HostStart],
    ) -> float:
        """Write a claim on every host that begins now."""
        begin = functools.partial(self._begin, seen, about, known)
        return max(await tasks.each(begin, starts, HOSTS_AT_ONCE), default=LOOK_SECONDS)

    async def _begin(
        self, seen: MaintenanceSnapshot, about: Undertaking, known: MaintenanceFacts, start: HostStart
    ) -> float:
        meta, facts = seen.maintenance.metadata, known.hosts[start.host]
        host = self.hosts.get(ObjectKey(meta.namespace, start.host))
        if host is None or host.metadata.uid != facts.uid:
            return AT_ONCE
        if await self.protected.keep(about, facts):  # its turn goes to the next host, at the next look
            return AT_ONCE
        owner = VisitOwner(meta.name, meta.uid, meta.generation, known.run.id)
        claim = beginning.claim(owner, facts, start.attempt, seen.maintenance.spec, about.rules, seen.now)
        try:
            await self.driver.write(about, host, claim)
        except (errors.Conflict, errors.NotFound):
            return CONFLICT
        return AT_ONCE
