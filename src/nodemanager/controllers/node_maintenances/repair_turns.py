"""Gives hosts their turns to repair drift: within windows, and within the budgets of maintenances.

It is one entry in the queue of maintenances, as upgrades are: two parallel decisions could spend one budget.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodemanager.api.common import enforcement
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.controllers.node_maintenances.ahead import REPAIRING, HostsAhead
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.orders import Orders
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.fleet.maintenance import claims, realtime, reasons
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.repairs import looking, turns
from nodemanager.fleet.repairs.deciding import RepairDecision, RepairStart
from nodemanager.fleet.repairs.looking import Around, MaintenanceBudget
from nodemanager.kube import errors, times
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger("nodemanager.operator")
SOON: Final = 2.0
"""How often to look while hosts wait for others, because no event tells us when these end."""
SELDOM: Final = 30.0
AGAIN: Final = 0.2
"""Another program wrote on a host, such as its agent; after this time the watch has shown it to us."""
_FOR_OTHERS: Final = frozenset((
    Reason.BUDGET_SPENT, Reason.ZONE_BUDGET_SPENT, Reason.ZONES_BUSY, Reason.GROUP_BUDGET_SPENT,
    Reason.HOST_BUSY,
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class RepairInputs:
    """Other facts besides the hosts."""

    sets: Cache[ConfigSet]
    maintenances: Cache[NodeMaintenance]
    look_around: Callable[[NodeMaintenance], Awaitable[MaintenanceSnapshot]]
    facts: Callable[[Sequence[ManagedNode]], Mapping[str, HostFacts]]
    unrecorded: Callable[[str], Problem | None]
    """Returns why no new work may begin in a namespace."""


class RepairTurns:
    """Manages all turns of a namespace."""

    def __init__(
        self,
        orders: Orders,
        hosts: HostsAhead,
        inputs: RepairInputs,
        events: EventRecorder,
        metrics: Registry,
    ) -> None:
        self._orders = orders
        self._hosts = hosts
        self._inputs = inputs
        self._events = events
        self._outrun = False
        """Whether another writer was faster on a host, in this look."""
        self._told: dict[str, dict[tuple[str, str], Reason]] = {}
        """Why hosts were reported to wait, by namespace, then by host and ConfigSet."""
        self._ended = metrics.counter(
            "nodemanager_repair_turns_total", "Turns to put back what drifted that have ended.", ("outcome",)
        )
        self._waits = metrics.gauge(
            "nodemanager_repairs_waiting",
            "Hosts that wait for their turn, by reason code.",
            ("namespace", "reason"),
        )

    async def look(self, namespace: str, now: datetime) -> float | None:
        """End turns that are over and begin others; return in how many seconds to look again, or None."""
        self._outrun = False
        concerned = self._concerned(namespace)
        for host in concerned:
            if (claim := turns.claim_of(host)) is not None and claim.holds:
                await self._end(host, claim, now)
        decision = looking.decide(await self._around(namespace), now) if concerned else RepairDecision()
        for start in decision.starts:
            await self._begin(namespace, start, now)
        self._publish(namespace, decision)
        self._tell_all(namespace, decision)
        if self._outrun:
            return AGAIN
        return self._next(namespace, decision, now) if concerned else None

    def _concerned(self, namespace: str) -> list[ManagedNode]:
        return [one for one in self._hosts.visited_by(REPAIRING) if one.metadata.namespace == namespace]

    async def _around(self, namespace: str) -> Around:
        inputs = self._inputs
        nodes = self._hosts.everyone_newest(namespace)
        sets = {one.metadata.name: one for one in inputs.sets.values() if one.metadata.namespace == namespace}
        found = []
        for one in inputs.maintenances.values():
            run = one.status.run.id if one.status.run is not None else ""
            if one.metadata.namespace != namespace or not (run or realtime.operations(one)):
                continue
            groups = (await inputs.look_around(one)).inputs.groups
            meta = one.metadata
            found.append(MaintenanceBudget(meta.name, meta.uid, one.spec.budget, groups, run))
        problem = inputs.unrecorded(namespace)
        stopped = (problem.reason, problem.object) if problem is not None else None
        return Around(nodes, inputs.facts(nodes), sets, found, stopped)

    async def _end(self, host: ManagedNode, claim: Claim, now: datetime) -> None:
        if claim.host_uid != host.metadata.uid:  # its claim came from a backup: that host is gone
            await self._write(host, self._orders.forget(host))
            return
        over = turns.ended(claim, host.status.left_drifts, now)
        if over is None or not await self._write(host, self._orders.write_claim(host, over, now)):
            return
        self._ended.labels(str(over.reason)).inc()
        said = f"its turn for ConfigSet {over.repairs} is over: {over.reason}"
        log.info("host %s: %s", host.metadata.name, said)
        if over.state is State.DONE:
            self._events.normal(MANAGED_NODES, host, "RepairTurnOver", said)
        else:
            remedy = reasons.remedy(over.reason or Reason.NOT_REPAIRED, host=host.metadata.name)
            self._events.warning(MANAGED_NODES, host, "RepairTurnFailed", f"{said}. {remedy}")

    async def _begin(self, namespace: str, start: RepairStart, now: datetime) -> None:
        host = self._hosts.get(ObjectKey(namespace, start.host.name))
        if host is None or host.metadata.uid != start.host.uid:
            return
        claim = turns.begun(host, start.config_set, start.until, start.host.health.boot_id, now)
        if not await self._write(host, self._orders.write_claim(host, claim, now)):
            return
        until = times.rfc3339(start.until)
        said = f"may put back what drifted of ConfigSet {start.config_set}, until {until}"
        log.info("host %s %s", host.metadata.name, said)
        self._events.normal(MANAGED_NODES, host, "RepairTurn", said)

    async def _write(self, host: ManagedNode, written: Awaitable[ManagedNode]) -> bool:
        """Write on a host; after any error the next look tries again."""
        try:
            await written
        except (errors.Conflict, errors.NotFound):  # another writer was faster
            self._outrun = True
            return False
        except errors.KubeError as error:
            log.warning("cannot see to the drifts of host %s: %s", host.metadata.name, error)
            return False
        return True

    def _publish(self, namespace: str, decision: RepairDecision) -> None:
        found = Counter(wait.reason for _, wait in decision.waits)
        self._waits.remove_matching(namespace=namespace)
        for reason, count in found.items():
            self._waits.labels(namespace, reason.value).set(count)

    def _tell_all(self, namespace: str, decision: RepairDecision) -> None:
        """Report why hosts wait, if that has changed; a host that waited before is reported anew."""
        before = self._told.get(namespace, {})
        now = self._told[namespace] = {
            (wait.host, config_set): wait.reason for config_set, wait in decision.waits
        }
        for config_set, wait in decision.waits if now != before else ():
            if before.get((wait.host, config_set)) is not wait.reason:
                self._tell(namespace, config_set, wait)

    def _tell(self, namespace: str, config_set: str, wait: HostWait) -> None:
        host = self._hosts.get(ObjectKey(namespace, wait.host))
        if host is None:
            return
        remedy = reasons.remedy(wait.reason, host=wait.host)
        said = f"what drifted of ConfigSet {config_set} waits: {wait.reason}: {wait.object}. {remedy}"
        self._events.normal(MANAGED_NODES, host, "RepairWaiting", said)

    def _next(self, namespace: str, decision: RepairDecision, now: datetime) -> float:
        """Return when to look again: others may give back what a host waits for, or a time is reached."""
        if any(wait.reason in _FOR_OTHERS for _, wait in decision.waits):
            return SOON
        names = {config_set for config_set, _ in decision.waits}
        windows = (self._inputs.sets.get(ObjectKey(namespace, name)) for name in names)
        edge = enforcement.next_edge((one.spec.enforcement for one in windows if one is not None), now)
        checks = [wait.next_check for _, wait in decision.waits if wait.next_check is not None]
        ahead = [(one - now).total_seconds() for one in (edge, *checks) if one is not None]
        ahead += [(one.expires + claims.GRACE - now).total_seconds() for one in self._held(namespace)]
        return max(0.05, min([SELDOM, *ahead]))

    def _held(self, namespace: str) -> Iterable[Claim]:
        found = (turns.claim_of(host) for host in self._concerned(namespace))
        return [claim for claim in found if claim is not None and claim.holds]
