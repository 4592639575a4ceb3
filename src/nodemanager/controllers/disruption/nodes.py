"""Kubernetes Nodes, with what we look at and no more: a cluster may have thousands, and each is large."""

from __future__ import annotations

from typing import Final

import msgspec

from nodemanager.kube.objects import ObjectMeta, Resource, Struct

CORDONED: Final = "maintenance.nodemanager/cordoned-by"
"""Annotation of a Node: for whose work on the host of the same name it is cordoned."""
READY: Final = "Ready"
DRAIN_IN_PROGRESS: Final = "DrainInProgress"
DRAINED: Final = "Drained"
MAINTENANCE_IN_PROGRESS: Final = "MaintenanceInProgress"
LIFECYCLE: Final = (DRAIN_IN_PROGRESS, DRAINED, MAINTENANCE_IN_PROGRESS)
"""Conditions of a Node by which Kubernetes itself speaks of maintenance (KEP-5683), while we hold it."""
MAINTENANCE_PLANNED: Final = "MaintenancePlanned"
"""And the one by which it does before that."""
REASON: Final = "NodeMaintenance"
"""Reason of conditions that are ours."""
_KEPT: Final = (READY, *LIFECYCLE, MAINTENANCE_PLANNED)


class NodeCondition(Struct):
    """Of a condition, whether it holds; of one that says that maintenance is planned, also who says so."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        """Let go of what kubelets explain of every Node."""
        if self.type != MAINTENANCE_PLANNED:
            msgspec.structs.force_setattr(self, "reason", "")
            msgspec.structs.force_setattr(self, "message", "")


class NodeInfo(Struct):
    """Of what the kubelet says, in which boot it says so."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeSpec(Struct):
    """Whether new pods are kept away."""

    unschedulable: bool = False


class NodeStatus(Struct):
    """What the kubelet and others say."""

    conditions: list[NodeCondition] = []
    node_info: NodeInfo = NodeInfo()


class Node(Struct):
    """`v1` Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def __post_init__(self) -> None:
        """Let go of what others noted on it."""
        noted = {key: value for key, value in self.metadata.annotations.items() if key == CORDONED}
        self._set("metadata", msgspec.structs.replace(self.metadata, annotations=noted))
        said = [one for one in self.status.conditions if one.type in _KEPT]
        self._set("status", msgspec.structs.replace(self.status, conditions=said))

    def _set(self, name: str, value: Struct) -> None:
        msgspec.structs.force_setattr(self, name, value)

    def says(self, condition: str) -> bool:
        """Tell whether a condition holds."""
        return any(one.type == condition and one.status == "True" for one in self.status.conditions)

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet says that it is; True where there is none to say so."""
        return all(one.status == "True" for one in self.status.conditions if one.type == READY)

    @property
    def planned(self) -> str:
        """What the operator wrote about planned maintenance; empty = nothing, or somebody else wrote it."""
        said = (one for one in self.status.conditions if one.type == MAINTENANCE_PLANNED)
        return next((one.message for one in said if one.status == "True" and one.reason == REASON), "")

    @property
    def mark(self) -> str | None:
        """Who of us cordoned it."""
        return self.metadata.annotations.get(CORDONED)


NODES: Final = Resource("", "v1", "Node", "nodes", Node, namespaced=False)
