"""An EdgeCluster in words: how the site is, why, and how old that is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nodemanager.api.edge import edgecluster
from nodemanager.api.edge.edgecluster import (
    NOT_OBSERVED,
    EdgeCluster,
    EdgeClusterStatus,
    EdgeInput,
    EdgeNode,
    PartHealth,
)
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import ROWS_LIMIT
from nodemanager.cli.views.edge import agent_tables, node_tables
from nodemanager.kube import core, times


def render(cluster: EdgeCluster, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a site."""
    report = output.Report()
    status = cluster.status
    describing.add_head(report, cluster.metadata, now)
    report.field("Profile", cluster.spec.profile)
    report.field("Phase", _phase(status, now))
    if status.reason:
        report.field("Why", output.one_line(f"{status.reason} {status.message}".strip(), 200))
    report.field("Looked at", age(status.observed_at, now))
    report.field("Believed", status.source or "-")
    if (seen := status.observed) is not None:
        said = seen.state or f"not known; its ConfigMap says {seen.raw_state or 'nothing'!r}"
        report.field("State", output.one_line(said, 100))
        if seen.lock_holder:
            report.field("Lock", output.one_line(seen.lock_holder, 100))
    for name, part in (("Storage", status.storage), ("Network", status.network),
                       ("Virtualisation", status.virtualisation)):  # fmt: skip
        report.field(name, part_words(part))
    describing.add_conditions(report, status.conditions, cluster.metadata.generation, now)
    report.table(
        "Nodes",
        ["NAME", "ROLE", "HEARTBEAT", "LAST", "AGENT", "TASKS", "MESSAGE"],
        [node_row(one, now) for one in status.nodes],
        ROWS_LIMIT,
    )
    if told := agent_tables.rows(status.nodes):
        report.table("Told by agents", agent_tables.COLUMNS, told, ROWS_LIMIT)
    if beside := node_tables.rows(status.nodes):
        report.table("Beside", node_tables.COLUMNS, beside, ROWS_LIMIT)
    report.table(
        "Looked at",
        ["WHAT", "HOW", "CHANGED", "MESSAGE"],
        [_input_row(one, now) for one in status.inputs],
    )
    report.table(
        "Warnings of the DaemonSet",
        ["LAST", "REASON", "MESSAGE"],
        [
            [age(one.at, now), output.one_line(one.reason, 40), output.one_line(one.message, 90)]
            for one in status.events
        ],
    )
    describing.add_events(report, events, now)
    return report.text()


def _phase(status: EdgeClusterStatus, now: datetime) -> str:
    if not status.phase:
        return "nobody looked yet: does an operator run with --edge?"
    if edgecluster.is_old(status, now):
        return f"not known: it was {status.phase} when somebody last looked, and so is all below"
    return status.phase


def _input_row(one: EdgeInput, now: datetime) -> list[str]:
    said = output.one_line(one.message, 70)
    return [output.one_line(one.name, 70), one.state, age(one.changed_at, now), said]


def node_row(node: EdgeNode, now: datetime) -> list[str]:
    """Return a node as a row of a table."""
    return [
        output.one_line(node.name, 63),
        node.role or "-",
        node.heartbeat,
        age(node.changed_at, now),
        output.one_line(node.agent_version, 20) or "-",
        str(node.tasks),
        output.one_line(node.message, 70),
    ]


def part_words(part: PartHealth | None) -> str:
    """Return how a part of a site is."""
    if part is None or (part.state == NOT_OBSERVED and not part.said):
        return "nobody tells"
    return f"{part.state} ({output.one_line(part.said, 60)})"


def age(moment: str | None, now: datetime) -> str:
    """Return how long ago something was."""
    found = times.parse(moment)
    return "-" if found is None else f"{times.human_duration((now - found).total_seconds())} ago"
