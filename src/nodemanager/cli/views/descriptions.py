"""How `describe` shows each of our kinds. One that is missing here is an error when this is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nodemanager.api import kinds
from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rolloutpolicy import ROLLOUT_POLICIES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.cli.views.describe import (
    audit,
    configset,
    configsetpreview,
    configsetrevision,
    edgecluster,
    edgeprofile,
    maintenanceapproval,
    maintenancewindow,
    node,
    nodemaintenance,
    nodeoperationtemplate,
    nodeseries,
    nodetask,
    rolloutpolicy,
)
from nodemanager.kube.objects import Resource

FILE: Final = "src/nodemanager/cli/views/descriptions.py"
PART: Final = "renderer for describe"

RENDERERS: Final[dict[str, Callable[..., str]]] = {
    MANAGED_NODES.qualified_name: node.render,
    CONFIG_SETS.qualified_name: configset.render,
    CONFIG_SET_REVISIONS.qualified_name: configsetrevision.render,
    CONFIG_SET_PREVIEWS.qualified_name: configsetpreview.render,
    ROLLOUT_POLICIES.qualified_name: rolloutpolicy.render,
    NODE_MAINTENANCES.qualified_name: nodemaintenance.render,
    MAINTENANCE_WINDOWS.qualified_name: maintenancewindow.render,
    NODE_SERIES.qualified_name: nodeseries.render,
    NODE_TASKS.qualified_name: nodetask.render,
    NODE_OPERATION_TEMPLATES.qualified_name: nodeoperationtemplate.render,
    MAINTENANCE_APPROVALS.qualified_name: maintenanceapproval.render,
    EDGE_CLUSTERS.qualified_name: edgecluster.render,
    EDGE_PROFILES.qualified_name: edgeprofile.render,
    AUDIT_CHECKPOINTS.qualified_name: audit.checkpoint,
    AUDIT_SEGMENTS.qualified_name: audit.segment,
}
"""By qualified name: an object, the events about it and the time, in words."""

RELATED: Final[dict[str, tuple[str, Resource[Any]]]] = {
    CONFIG_SETS.qualified_name: ("nodes", MANAGED_NODES),
}
"""Objects of the same namespace that a renderer wants besides: as this argument, None if unreadable."""

kinds.require(PART, RENDERERS, FILE)
