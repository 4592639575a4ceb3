"""Which hosts a person has to look at."""

from __future__ import annotations

from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.operations import Operation
from nodemanager.fleet.repairs import escalation
from nodemanager.kube.objects import ObjectMeta


def maintenance(*types: str) -> NodeMaintenance:
    operations = [Operation(name=f"o{number}", type=one) for number, one in enumerate(types)]
    return NodeMaintenance(
        metadata=ObjectMeta(name="monday"), spec=NodeMaintenanceSpec(operations=operations)
    )


def node(name: str, *sets: str, asks: tuple[str, ...] = ()) -> ManagedNode:
    left = LeftDrifts(
        asks=[LeftDrift(configset=one) for one in asks], escalated=[LeftDrift(configset=one) for one in sets]
    )
    return ManagedNode(metadata=ObjectMeta(name=name), status=ManagedNodeStatus(left_drifts=left))


def test_hosts_with_a_drift_of_the_maintenance_that_waits_for_a_person_are_named() -> None:
    nodes = [
        node("c", "motd", "monday-o1"),
        node("a", "monday-o1"),
        node("other", "monday-o2", "motd"),
        node("asks", asks=("monday-o1",)),
        ManagedNode(metadata=ObjectMeta(name="quiet")),
    ]
    assert escalation.hosts(nodes, maintenance("once", "realtime")) == ["a", "c"]


def test_a_maintenance_that_keeps_nothing_as_it_is_waits_for_nobody() -> None:
    assert escalation.hosts([node("a", "monday-o0")], maintenance("once")) == []
