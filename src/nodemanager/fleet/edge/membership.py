"""The nodes of a site: what agents report about them, and whether they are the nodes that it should have.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.api.common import managednode, node_conditions
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import (
    AGENT,
    FRESH,
    MISSING,
    STALE,
    UNPROVEN,
    EdgeCluster,
    EdgeClusterStatus,
    EdgeInput,
    EdgeNode,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import decoding, findings
from nodemanager.fleet.edge.facts import AgentFacts
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.hosts import reports
from nodemanager.kube import conditions, times

AGENTS: Final = "Signs of life of agents"
"""The name of this source, for people."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of facts about nodes."""

    profile: EdgeProfile
    agents: AgentFacts
    before: EdgeClusterStatus
    """What the look before this one saw."""
    now: datetime


def judge(profile: EdgeProfile, cluster: EdgeCluster, nodes: Sequence[EdgeNode], said: Findings) -> None:
    """Judge whether all nodes live, and whether they are the nodes of the site."""
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
    """Return the nodes as agents report them, where there is no bridge."""
    found = []
    for name, host in sorted(sources.agents.hosts.items()):
        alive = conditions.get(host.status.conditions, node_conditions.ALIVE)
        life = {conditions.TRUE: FRESH, conditions.FALSE: STALE}.get(alive.status if alive else "", UNPROVEN)
        why = alive.message if alive and life != FRESH else ""
        digest, changed = _beat(name, host, sources)
        node = EdgeNode(
            name=name, source=AGENT, heartbeat=life, message=why[:1024], digest=digest, changed_at=changed
        )
        found.append(told(node, sources))
    return found


def _beat(name: str, host: ManagedNode, sources: Sources) -> tuple[str, str | None]:
    """Return the digest of a host's last heartbeat, and its time: never later than it really was.

    This is for people to read. Whether the host is alive is decided elsewhere, from its Lease.
    """
    text = sources.agents.beats.get(name, "")
    digest = decoding.digest(text) if text else ""
    if managednode.is_silent(host) and host.status.last_seen:
        return digest, host.status.last_seen
    before = next((one for one in sources.before.nodes if (one.name, one.source) == (name, AGENT)), None)
    if before is None or not before.digest or not digest:
        return digest, None
    looked = times.parse(sources.before.observed_at)
    if looked is None or sources.now < looked:  # it is unknown for how long no change was seen
        return digest, None
    return digest, before.changed_at if before.digest == digest else times.rfc3339(looked)


def told_input(nodes: Sequence[EdgeNode]) -> EdgeInput:
    """Return how fresh the reports of agents are, for sites where only agents report on nodes."""
    silent = [one.name for one in nodes if one.heartbeat != FRESH]
    state = MISSING if not nodes else STALE if silent else FRESH
    said = f"no sign of life of {', '.join(silent)}" if silent else "" if nodes else "there is no agent"
    newest = max((one.changed_at for one in nodes if one.changed_at), default=None)
    return EdgeInput(name=AGENTS, state=state, changed_at=newest, message=said[:1024])


def told(node: EdgeNode, sources: Sources) -> EdgeNode:
    """Return a node with the report of its agent."""
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
