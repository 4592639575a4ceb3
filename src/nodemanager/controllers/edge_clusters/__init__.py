"""Reports the state of the site in every EdgeCluster. It only looks and changes nothing: see docs/edge.md.

Part of the operator only where somebody asks for it: `nodemanager operator --edge`.
"""

from __future__ import annotations

from typing import Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights.operator_rights import Right
from nodemanager.controllers.edge_clusters import reconciling
from nodemanager.controllers.registration import REPORTING, Registration, WatchedKind, nobody
from nodemanager.kube.core import LEASES

REGISTRATION: Final = Registration(
    name="edgecluster",
    kind=EDGE_CLUSTERS,
    watches=(
        WatchedKind(EDGE_CLUSTERS, reconciling.on_cluster),
        WatchedKind(EDGE_PROFILES, reconciling.on_profile),
        WatchedKind(MANAGED_NODES, nobody),  # every site is looked at again and again anyway
        WatchedKind(NODE_TASKS, nobody),
        WatchedKind(LEASES, nobody),  # the operator watches them anyway, to notice silent hosts
    ),
    build=reconciling.build,
    concurrency=4,  # a site whose storage does not answer must not delay the others
    rights=(Right(EDGE_CLUSTERS, ("patch",), "status"), REPORTING),
)
