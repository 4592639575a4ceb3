"""The entries of the kinds of edge sites in the registry of kinds."""

from __future__ import annotations

from typing import Final

from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES
from nodemanager.api.kind_parts import AGE, READ, WRITE, KindColumn, KindEntry, KindRight

_PROFILE: Final = KindEntry(
    resource=EDGE_PROFILES,
    short_names=("eprof",),
    columns=(
        KindColumn("Version", ".spec.version", "Version of the profile."),
        KindColumn("Storage", ".spec.storage.backend", "What keeps the volumes."),
        KindColumn("Mode", ".spec.storage.mode", "Whether they are replicated."),
        KindColumn("OS", ".spec.os.provider", "What nodes run."),
        AGE,
        KindColumn("Workflows", ".spec.workflows", "What may be done at such sites.", priority=1),
        KindColumn("Bridge", ".spec.bridge.daemonSet.name", "The DaemonSet that is observed.", priority=1),
    ),
    page="reference/edgeprofile.md",
    hosts=(),
    operator=(),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

_CLUSTER: Final = KindEntry(
    resource=EDGE_CLUSTERS,
    short_names=("ecl",),
    columns=(
        KindColumn("Phase", ".status.phase", "How the site is."),
        KindColumn("Nodes", ".status.nodesText", "How many nodes are alive, of how many."),
        KindColumn("State", ".status.observed.state", "What the DaemonSet does that is observed."),
        KindColumn("Reason", ".status.reason", "Why it is so."),
        KindColumn("Looked", ".status.observedAt", "Time since somebody looked.", "date"),
        AGE,
        KindColumn("Profile", ".spec.profile", "Its profile.", priority=1),
        KindColumn("Source", ".status.source", "Who is believed.", priority=1),
        KindColumn("Message", ".status.message", "What is wrong.", priority=1),
    ),
    page="reference/edgecluster.md",
    hosts=(),
    operator=(KindRight(("patch",), "status"),),
    viewers=(KindRight(READ),),
    editors=(KindRight(WRITE),),
)

KINDS: Final = (_CLUSTER, _PROFILE)
