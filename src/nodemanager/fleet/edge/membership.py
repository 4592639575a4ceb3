"""The nodes of a site: what agents report about them, and whether they are the nodes that it should have.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.edge.edgecluster import (
    AGENT,
    FRESH,
    MAX_NODES,
    MISSING,
    STALE,
    UNPROVEN,
    EdgeCluster,
    EdgeClusterStatus,
    EdgeInput,
    EdgeNode,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.api.edge.node_reports import NodeWork
from nodemanager.fleet.edge import findings, node_details, parts
from nodemanager.fleet.edge.facts import Sources
from nodemanager.fleet.edge.findings import Findings
from nodemanager.fleet.edge.hosts import agent_life, reports
from nodemanager.fleet.edge.hosts.agent_life import AgentLife
from nodemanager.kube import conditions

AGENTS: Final = "Signs of life of agents"
"""What is looked at, for people."""
_MUTE: Final = "its agent tells nothing of bonds, links and DRBD: it has no --edge"
_AGENT: Final = {FRESH: conditions.TRUE, STALE: conditions.FALSE, UNPROVEN: conditions.UNKNOWN}


def judge(
    profile: EdgeProfile, cluster: EdgeCluster, nodes: Sequence[EdgeNode], said: Findings, there: int = 0
) -> None:
    """Say whether all nodes live, and whether they are those of the site; `there` may be more than shown."""
    _lives(nodes, said)
    _expected(profile, cluster, nodes, max(there, len(nodes)), said)


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


def _expected(
    profile: EdgeProfile, cluster: EdgeCluster, nodes: Sequence[EdgeNode], there: int, said: Findings
) -> None:
    names = {one.name for one in nodes}
    wanted, counts = set(cluster.spec.nodes), profile.spec.topology.nodes
    if lacking := sorted(wanted - names):
        said.bad(findings.NODES_EXPECTED, "NodesMissing", f"nothing is seen of {', '.join(lacking)}")
    elif there > MAX_NODES:
        text = f"there are {there} nodes, and a status has room for {MAX_NODES}: of others nothing is known"
        said.bad(findings.NODES_EXPECTED, "TooManyNodes", text)
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


def shown(names: Iterable[str], expected: Collection[str], before: EdgeClusterStatus) -> list[str]:
    """Return the nodes that a status has room for: a flood hides none that shall be there, or was."""
    known = {one.name for one in before.nodes}
    first = sorted(set(names), key=lambda name: (name not in expected, name not in known, name))
    return sorted(first[:MAX_NODES])


def hosts(sources: Sources, expected: Collection[str] = ()) -> list[EdgeNode]:
    """Return the nodes as agents tell of them, where there is no bridge."""
    found = []
    for name in shown(sources.agents.hosts, expected, sources.before):
        host = sources.agents.hosts[name]
        life = agent_life.judge(host, sources)
        node = EdgeNode(
            name=name, source=AGENT, heartbeat=life.word, message=life.why[:1024], digest=life.digest,
            changed_at=life.changed_at,
        )  # fmt: skip
        found.append(_unmuted(_told(node, host, life, sources), sources.profile))
    return found


def _unmuted(node: EdgeNode, profile: EdgeProfile) -> EdgeNode:
    """Return a node that says so where its agent alone could tell of bonds and DRBD, and does not."""
    if node.heartbeat != FRESH or node.report is not None or not parts.required(profile.spec):
        return node
    return msgspec.structs.replace(node, message=_MUTE)


def told_input(nodes: Sequence[EdgeNode]) -> EdgeInput:
    """Return how fresh the reports of agents are, for sites where only agents report on nodes."""
    silent = [one.name for one in nodes if one.heartbeat != FRESH]
    state = MISSING if not nodes else STALE if silent else FRESH
    said = f"no sign of life of {', '.join(silent)}" if silent else "" if nodes else "there is no agent"
    newest = max((one.changed_at for one in nodes if one.changed_at), default=None)
    return EdgeInput(name=AGENTS, state=state, changed_at=newest, message=said[:1024])


def told(node: EdgeNode, sources: Sources) -> EdgeNode:
    """Return a node of which a DaemonSet tells with what its agent tells of it."""
    host = sources.agents.hosts.get(node.name)
    if host is None:
        return node
    life = agent_life.judge(host, sources)
    seen = msgspec.structs.replace(node, agent_digest=life.digest, agent_changed_at=life.changed_at)
    return _told(seen, host, life, sources)


def _told(node: EdgeNode, host: ManagedNode, life: AgentLife, sources: Sources) -> EdgeNode:
    agents, profile = sources.agents, sources.profile
    before = next((one.report for one in sources.before.nodes if one.name == node.name), None)
    work = agents.work.get(node.name)
    if work is not None and work.phase and life.word != FRESH:
        work = NodeWork(name=work.name, phase=node_details.UNKNOWN_PHASE)
    return msgspec.structs.replace(
        node,
        role=_role(profile, host),
        agent=_AGENT[life.word],
        agent_version=host.status.agent_version,
        kernel=host.status.release,
        tasks=agents.tasks.get(node.name, 0),
        work=work,
        report=reports.report(host, life.word, profile.spec, before, sources.now),
    )


def _role(profile: EdgeProfile, host: ManagedNode) -> str:
    for role in profile.spec.topology.roles:
        key, equals, value = role.label.partition("=")
        if key in host.metadata.labels and (not equals or host.metadata.labels[key] == value):
            return role.name
    return ""
