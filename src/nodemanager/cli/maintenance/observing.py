"""What is known of hosts and tasks, in the words of the decision. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import ManagedNode, is_held
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.cli.maintenance.reading import Surroundings
from nodemanager.cli.views import output
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.facts import ENDS, HostFacts, HostHealth, NodeFacts, TaskFacts
from nodemanager.kube import conditions

EVER: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")
ATTEMPT: Final = "maintenance.nodemanager/attempt"

moment = output.parse_time


def hosts(around: Surroundings) -> Iterator[HostFacts]:
    """Yield what is known of every host."""
    for one in around.hosts:
        yield host(one, around.nodes.get(one.metadata.name))


def host(one: ManagedNode, node: Node | None) -> HostFacts:
    """Return what is known of a host."""
    meta = one.metadata
    return HostFacts(
        name=meta.name,
        uid=meta.uid,
        created=moment(meta.creation_timestamp) or EVER,
        labels=meta.labels,
        health=HostHealth(
            alive=_alive(one), held=is_held(one), upgrading=one.status.kubernetes_node_cordoned is not None
        ),
        node=None if node is None else NodeFacts(
            ready=node.is_ready, cordoned=node.spec.unschedulable, ours=node.mark is not None
        ),
        claim=claims.decode(meta.annotations.get(ANNOTATION_VISIT)),
    )  # fmt: skip


def _alive(one: ManagedNode) -> bool | None:
    """Tell whether a host is heard of; None = it never was."""
    found = conditions.get(one.status.conditions, node_conditions.ALIVE)
    if found is None or (found.status == conditions.UNKNOWN and one.status.heartbeat is None):
        return None
    return found.status == conditions.TRUE


def task(one: NodeTask) -> TaskFacts:
    """Return what is known of a task."""
    reboots = {step.name for step in one.spec.steps if step.reboot is not None}
    attempt = one.metadata.labels.get(ATTEMPT, "0")
    return TaskFacts(
        name=one.metadata.name,
        phase=one.status.phase,
        attempt=int(attempt) if attempt.isdecimal() else 0,
        taken=one.status.claim is not None,
        rebooting=any(step.name in reboots and step.phase == "Running" for step in one.status.steps),
        ended=moment(one.status.finished_at) if one.status.phase in ENDS else None,
    )


def durations(tasks: Iterable[NodeTask]) -> Iterator[tuple[str, timedelta]]:
    """Yield how long tasks took that went well."""
    for one in tasks:
        begun = moment(one.status.claim.time) if one.status.claim is not None else None
        ended = moment(one.status.finished_at)
        if one.status.phase == "Succeeded" and begun is not None and ended is not None:
            yield one.spec.node_name, ended - begun
