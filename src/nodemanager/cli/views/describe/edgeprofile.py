"""An EdgeProfile in words: what sites of it are made of, and what can be done there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.edge import capabilities
from nodemanager.api.edge.edgeprofile import SIGNATURE, EdgeProfile, EdgeProfileSpec
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import ROWS_LIMIT
from nodemanager.kube import core


def render(profile: EdgeProfile, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a profile."""
    report = output.Report()
    spec = profile.spec
    describing.add_head(report, profile.metadata, now)
    report.field("For", output.one_line(spec.description) or "-")
    report.field("Version", spec.version)
    report.field("Signed", "yes" if SIGNATURE in profile.metadata.annotations else "no")
    nodes = spec.topology.nodes
    report.field("Nodes", f"{nodes.minimum} to {nodes.maximum}, joined by {spec.topology.links} links")
    report.field("Storage", f"{spec.storage.backend}, {spec.storage.mode}")
    report.field("Operating system", spec.os.provider)
    report.field("Virtualisation", spec.virtualisation)
    if spec.network is not None:
        report.field("Bond", spec.network.bond)
    report.table("Workflows", ["NAME", "POSSIBLE", "WHY NOT"], _workflows(spec))
    if seen := [*_observed(spec), *_looked_at(spec)]:
        report.table("Observed", ["WHAT", "WHERE"], seen, ROWS_LIMIT)
    describing.add_events(report, events, now)
    return report.text()


def _workflows(spec: EdgeProfileSpec) -> list[list[str]]:
    rows = []
    for name in capabilities.WORKFLOWS:
        faults = capabilities.faults([name], spec.choices)
        declared = "yes" if name in spec.workflows else "not declared"
        rows.append([name, "no" if faults else declared, output.one_line("; ".join(faults), 90)])
    return rows


def _observed(spec: EdgeProfileSpec) -> list[list[str]]:
    bridge = spec.bridge
    if bridge is None:
        return []
    space = bridge.namespace
    sets = [["DaemonSet", f"{space}/{bridge.daemon_set.name}"]] if bridge.daemon_set else []
    return [
        *sets,
        ["state", f"ConfigMap {space}/{bridge.state.config_map}, key {bridge.state.key}"],
        ["states", str(len(bridge.states))],
        ["heartbeats", f"ConfigMap {space}/{bridge.heartbeats.config_map}, {bridge.heartbeats.format}"],
    ]


def _looked_at(spec: EdgeProfileSpec) -> list[list[str]]:
    storage = spec.storage
    rows = [["storage", f"LINSTOR {storage.linstor.url}"]] if storage.linstor is not None else []
    rows += [["storage", f"LinstorCluster {storage.piraeus}"]] if storage.piraeus else []
    if storage.observe_volumes:
        rows.append(["storage", f"PersistentVolumes of {', '.join(storage.classes)}"])
    if spec.kubevirt is not None:
        rows.append(["virtual machines", f"namespaces {', '.join(spec.kubevirt.namespaces)}"])
    return rows
