"""What parts other than passes and repairs contribute to the status."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from nodemanager.agent.passes.host_state import HostState
from nodemanager.agent.report import left_drift_report, orphan_report, status
from nodemanager.agent.report.status_writer import Contribution
from nodemanager.agent.requests import Requests
from nodemanager.agent.upgrades.upgrade_part import UpgradePart
from nodemanager.api.common import node_conditions
from nodemanager.api.common.declarations import ESCALATE, IN_TURN
from nodemanager.api.common.managednode import ManagedNodeStatus
from nodemanager.host.state.ownership_ledger import OwnershipLedger, OwnershipLedgerError
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.probes import ProbeServer


@dataclass(slots=True)
class DuplicateHost:
    """Whether another machine reports under the name of this host, as a clone does."""

    requests: Requests
    warn: Callable[[str, str], None]
    """Records an Event about this host, with a reason and a message."""
    duplicated: bool = False

    def noticed(self, duplicated: bool) -> None:
        """Take note that another machine begins, or ceases, to report under our name."""
        self.duplicated = duplicated
        self.requests.pass_soon()
        if duplicated:
            name = self.requests.key.name
            self.warn("DuplicateHost", f"another machine reports as {name}, too: give it another name")

    def contribute(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        """Return the status with whether there is such a machine."""
        return status.of_duplication(found, self.duplicated, now, generation)


def of_servers(servers: Sequence[ProbeServer]) -> Contribution:
    """Return the contribution that says which servers cannot listen, because somebody has their address."""

    def contribute(found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        faults = "; ".join(one.fault for one in servers if one.fault)
        return status.of_servers(found, faults, now, generation)

    return contribute


def of_token(condition: Callable[[], Condition] | None) -> Contribution:
    """Return what says how the renewal of the host's own token goes; None = it uses another credential."""

    def contribute(found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        return status.of_token(found, condition() if condition else None, now, generation)

    return contribute


def of_labels(refusal: Callable[[], str]) -> Contribution:
    """Return what says why labels of the host are refused; nothing is said before one was."""

    def contribute(found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        known = conditions.get(found.conditions, node_conditions.LABELLED) is not None
        said = Condition(
            type=node_conditions.LABELLED, status=conditions.TRUE, reason=node_conditions.LABELS_SET
        )
        if why := refusal():
            said = Condition(
                type=node_conditions.LABELLED, status=conditions.FALSE, message=why,
                reason=node_conditions.LABELS_REFUSED,
            )  # fmt: skip
        return status.of_condition(found, said, now, generation) if known or why else found

    return contribute


def of_orphans(ledger: OwnershipLedger, registry: Registry, node: str) -> Contribution:
    """Return the contribution that lists resources which are still here but no longer declared."""
    gauge = registry.gauge(
        "nodemanager_orphans", "Resources that nobody declares any more and that are still there.", ("node",)
    )

    def contribute(found: ManagedNodeStatus, _now: datetime, _generation: int) -> ManagedNodeStatus:
        try:
            left = orphan_report.orphans(ledger.owned, ledger.sets)
        except OwnershipLedgerError:
            return found
        gauge.labels(node).set(left.count if left else 0)
        return msgspec.structs.replace(found, orphans=left)

    return contribute


def of_left_drifts(host_state: HostState, registry: Registry, node: str) -> Contribution:
    """Return the contribution about drifts that are not put back by themselves, and whom they wait for."""
    gauge = registry.gauge(
        "nodemanager_drift_left",
        "Resources that differ and wait, for the turn of this host (in-turn) or for a person (escalate).",
        ("node", "policy"),
    )

    def waiting(policy: str) -> float:
        return float(len(left_drift_report.left(list(host_state.results.values()), policy)))

    for policy in (IN_TURN, ESCALATE):
        gauge.labels(node, policy).set_function(functools.partial(waiting, policy))

    def contribute(found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        results = list(host_state.results.values())
        return left_drift_report.of_results(found, results, host_state.turn.used, now, generation)

    return contribute


def of_upgrades(part: UpgradePart) -> Contribution:
    """Return what says how upgrades go."""
    return lambda found, _now, _generation: status.of_upgrades(found, part.status)


class NoEdge:
    """Stands for the looks at edge parts in an agent without --edge."""

    spoke = False

    def contribute(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        """Remove `status.edge`, which an earlier agent with --edge wrote and no one updates any more."""
        del now, generation
        return found if found.edge is None else msgspec.structs.replace(found, edge=None)
