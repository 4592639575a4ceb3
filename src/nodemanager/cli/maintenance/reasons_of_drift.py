"""Why drifts of a host are not put back: decided as the operator does it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nodemanager.api.common import node_conditions
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.left_drifts import LeftDrifts
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.cli.maintenance import judging
from nodemanager.cli.maintenance.reading import MaintenanceReading
from nodemanager.cli.views.maintenance import wait_view
from nodemanager.cli.views.maintenance.wait_view import BEGINS, Why
from nodemanager.cli.views.output import parse_time
from nodemanager.fleet.maintenance import realtime
from nodemanager.fleet.repairs import looking
from nodemanager.fleet.repairs.looking import Around, MaintenanceBudget

LOOK = (
    "Look at what differs: `nodemanager describe mn {}`. Then put it right, declare it as it is, or set its"
    " drift to repair."
)
ITS_TURN = "Nothing to do: its turn has come; the operator tells it at its next look."


def asks(host: ManagedNode) -> bool:
    """Tell whether a host waits for a turn."""
    return bool((host.status.left_drifts or LeftDrifts()).asks)


def of_host(
    host: ManagedNode, around: MaintenanceReading, about: Sequence[NodeMaintenance], sets: Iterable[ConfigSet]
) -> Iterator[Why]:
    """Yield why what drifted on a host waits; `sets` are all of its namespace."""
    name = host.metadata.name
    for one in (host.status.left_drifts or LeftDrifts()).escalated:
        yield Why(
            node_conditions.DRIFT_ESCALATED, object=f"configset/{one.configset}",
            since=parse_time(one.since), remedy=LOOK.format(name),
            message="its drift is left to people, and nobody has seen to it",
        )  # fmt: skip
    if not asks(host):
        return
    decision = looking.decide(_around(around, about, sets, host.metadata.namespace), around.now)
    for config_set, wait in decision.waits:
        if wait.host == name:
            yield wait_view.why(
                name, wait, "", "", f"what drifted of ConfigSet {config_set} is put back in turn"
            )
    for start in decision.starts:
        if start.host.name == name:
            yield Why(BEGINS, object=f"configset/{start.config_set}", remedy=ITS_TURN)


def _around(
    around: MaintenanceReading, about: Sequence[NodeMaintenance], sets: Iterable[ConfigSet], namespace: str
) -> Around:
    found = around.found
    budgets = [
        MaintenanceBudget(
            one.metadata.name, one.metadata.uid, one.spec.budget, around.inputs[one.metadata.name].groups,
            one.status.run.id if one.status.run is not None else "",
        )
        for one in about
        if one.status.run is not None or realtime.operations(one)
    ]  # fmt: skip
    named = {one.metadata.name: one for one in sets}
    problem = around.reader.unrecorded(namespace)
    stopped = (problem.reason, problem.object) if problem is not None else None
    return Around(found.hosts, judging.hosts(found), named, budgets, stopped)
