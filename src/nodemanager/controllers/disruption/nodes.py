"""Kubernetes Nodes, reduced to the fields that we use: a cluster may have thousands, and each is large."""

from __future__ import annotations

from typing import Final

import msgspec

from nodemanager.kube.objects import ObjectMeta, Resource, Struct

CORDONED: Final = "maintenance.nodemanager/cordoned-by"
"""Annotation of a Node: the work on its host for which the Node is cordoned."""
READY: Final = "Ready"
DRAIN_IN_PROGRESS: Final = "DrainInProgress"
DRAINED: Final = "Drained"
MAINTENANCE_IN_PROGRESS: Final = "MaintenanceInProgress"
LIFECYCLE: Final = (DRAIN_IN_PROGRESS, DRAINED, MAINTENANCE_IN_PROGRESS)
"""Conditions of a Node by which Kubernetes itself announces maintenance (KEP-5683), while we hold it."""
MAINTENANCE_PLANNED: Final = "MaintenancePlanned"
"""The condition that announces maintenance before that."""
REASON: Final = "NodeMaintenance"
"""The reason of our conditions."""
_KEPT: Final = (READY, *LIFECYCLE, MAINTENANCE_PLANNED)


class NodeCondition(Struct):
    """Whether a condition is True; for planned maintenance also who set it."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        """Drop the explanations of kubelets, which every Node has."""
        if self.type != MAINTENANCE_PLANNED:
            msgspec.structs.force_setattr(self, "reason", "")
            msgspec.structs.force_setattr(self, "message", "")


class NodeInfo(Struct):
    """The boot id that the kubelet reports."""

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
        """Drop the annotations and conditions of others."""
        noted = {key: value for key, value in self.metadata.annotations.items() if key == CORDONED}
        self._set("metadata", msgspec.structs.replace(self.metadata, annotations=noted))
        said = [one for one in self.status.conditions if one.type in _KEPT]
        self._set("status", msgspec.structs.replace(self.status, conditions=said))

    def _set(self, name: str, value: Struct) -> None:
        msgspec.structs.force_setattr(self, name, value)

    def says(self, condition: str) -> bool:
        """Tell whether a condition is True."""
        return any(one.type == condition and one.status == "True" for one in self.status.conditions)

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet reports that the Node is ready; True if there is no report."""
        return all(one.status == "True" for one in self.status.conditions if one.type == READY)

    @property
    def planned(self) -> str:
        """What the operator wrote about planned maintenance; empty = nothing, or others wrote it."""
        said = (one for one in self.status.conditions if one.type == MAINTENANCE_PLANNED)
        return next((one.message for one in said if one.status == "True" and one.reason == REASON), "")

    @property
    def mark(self) -> str | None:
        """The mark that says which work of ours cordoned it."""
        return self.metadata.annotations.get(CORDONED)


NODES: Final = Resource("", "v1", "Node", "nodes", Node, namespaced=False)
