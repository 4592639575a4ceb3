"""What is wrong between EdgeClusters and EdgeProfiles that lie side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS, REQUIRE, EdgeCluster
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import profile_trust
from nodemanager.fleet.edge.profile_trust import Untrusted
from nodemanager.plan.lint.findings import Finding, Severity


def findings(clusters: Mapping[str, EdgeCluster], profiles: Mapping[str, EdgeProfile]) -> Iterator[Finding]:
    """Yield profiles that nothing here declares, that are not signed as a site wants, or are too small."""
    for name, cluster in clusters.items():
        kind, spec = EDGE_CLUSTERS.kind, cluster.spec
        profile = profiles.get(spec.profile)
        if profile is None:
            said = f"nothing here declares EdgeProfile {spec.profile}; see nodemanager edge profiles"
            yield Finding("missing-reference", "warning", kind, name, ("spec", "profile"), said)
            continue
        most = profile.spec.topology.nodes.maximum
        if len(spec.nodes) > most:
            said = f"there are {len(spec.nodes)} nodes, and EdgeProfile {spec.profile} has {most} at most"
            yield Finding("site", "error", kind, name, ("spec", "nodes"), said)
        if spec.signature is not None:
            try:
                profile_trust.verify(profile, spec.signature.keys)
            except Untrusted as error:
                severity: Severity = "error" if spec.signature.policy == REQUIRE else "warning"
                said = f"EdgeProfile {spec.profile} would not be trusted: {error}"
                yield Finding("site", severity, kind, name, ("spec", "signature"), said)
