"""The nodes of a site: what agents tell of them, and whether they are those that it shall have. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import (
    AGENT,
    FRESH,
    STALE,
    UNPROVEN,
    EdgeCluster,
    EdgeClusterStatus,
    EdgeNode,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import findings
from nodemanager.fleet.edge.facts import AgentFacts
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.hosts import reports
from nodemanager.kube import conditions


@dataclass(frozen=True, slots=True)
class Sources:
    """What nodes are told of with."""

    profile: EdgeProfile
    agents: AgentFacts
    before: EdgeClusterStatus
    """What the look before has seen."""
    now: datetime


def judge(profile: EdgeProfile, cluster: EdgeCluster, nodes: Sequence[EdgeNode], said: Findings) -> None:
    """Say whether all nodes live, and whether they are those of the site."""
    _lives(nodes, said)
    _expected(profile, cluster, nodes, said)


def _lives(nodes: Sequence[EdgeNode], said: Findings) -> None:
    bad = [one for one in nodes if one.heartbeat != FRESH]
    if bad:
        worst = min(bad, key=lambda one: (one.heartbeat == UNPROVEN, one.name))
        texts = "; ".join(f"{one.name}: {one.message or one.heartbeat}" for one in bad)
        said.bad(findings.HEARTBEATS_FRESH, f"Heartbeat{worst.heartbeat}", texts)
    elif not nodes:
        said.bad(findings.HEARTBEATS_FRESH, "NoNodes", "no node gives signs of life")
    elif silent := [one.name for one in nodes if one.agent and one.agent != conditions.TRUE]:
        said.bad(findings.HEARTBEATS_FRESH, "AgentSilent", f"agents are silent on {', '.join(silent)}")
    else:
        said.good(findings.HEARTBEATS_FRESH)


def _expected(profile: EdgeProfile, cluster: EdgeCluster, nodes: Sequence[EdgeNode], said: Findings) -> None:
    names = {one.name for one in nodes}
    wanted, counts = set(cluster.spec.nodes), profile.spec.topology.nodes
    if lacking := sorted(wanted - names):
        said.bad(findings.NODES_EXPECTED, "NodesMissing", f"nothing is seen of {', '.join(lacking)}")
    elif wanted and (others := sorted(names - wanted)):
        said.bad(findings.NODES_EXPECTED, "NodesUnexpected", f"spec.nodes does not name {', '.join(others)}")
    elif len(nodes) > counts.maximum:
        text = f"there are {len(nodes)} nodes, and the profile has {counts.maximum} at most"
        said.bad(findings.NODES_EXPECTED, "TooManyNodes", text)
    elif len(nodes) < counts.minimum:
        text = f"there are {len(nodes)} nodes, and the profile has {counts.minimum} at least"
        said.bad(findings.NODES_EXPECTED, "TooFewNodes", text)
    else:
        said.good(findings.NODES_EXPECTED)


def hosts(sources: Sources) -> list[EdgeNode]:
    """Return the nodes as agents tell of them, where there is no bridge."""
    found = []
    for name, host in sorted(sources.agents.hosts.items()):
        alive = conditions.get(host.status.conditions, node_conditions.ALIVE)
        life = {conditions.TRUE: FRESH, conditions.FALSE: STALE}.get(alive.status if alive else "", UNPROVEN)
        why = alive.message if alive and life != FRESH else ""
        node = EdgeNode(name=name, source=AGENT, heartbeat=life, message=why[:1024])
        found.append(told(node, sources))
    return found


def told(node: EdgeNode, sources: Sources) -> EdgeNode:
    """Return a node with what its agent tells of it."""
    agents, profile = sources.agents, sources.profile
    host = agents.hosts.get(node.name)
    if host is None:
        return node
    before = next((one.report for one in sources.before.nodes if one.name == node.name), None)
    alive = conditions.get(host.status.conditions, node_conditions.ALIVE)
    return msgspec.structs.replace(
        node,
        role=_role(profile, host),
        agent=alive.status if alive else conditions.UNKNOWN,
        agent_version=host.status.agent_version,
        kernel=host.status.release,
        tasks=agents.tasks.get(node.name, 0),
        work=agents.work.get(node.name),
        report=reports.report(host, profile.spec, before, sources.now),
    )


def _role(profile: EdgeProfile, host: ManagedNode) -> str:
    for role in profile.spec.topology.roles:
        key, equals, value = role.label.partition("=")
        if key in host.metadata.labels and (not equals or host.metadata.labels[key] == value):
            return role.name
    return ""
