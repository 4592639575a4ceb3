"""A NodeSeries in words: which hosts, in which order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from nodemanager.api.maintenance.nodeseries import NodeSeries
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.describing import ROWS_LIMIT
from nodemanager.kube import core, selectors
from nodemanager.kube.selectors import LabelSelector
from nodemanager.kube.wording import listed, plural

MAX_NAMED: Final = 20


def render(series: NodeSeries, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a series."""
    report = output.Report()
    spec, status = series.spec, series.status
    describing.add_head(report, series.metadata, now)
    report.field("Hosts", _chosen(series))
    for title, selector in (("Not", spec.exclude), ("First", spec.canaries), ("Last", spec.last)):
        if selector is not None:
            report.field(title, f"those with {_text(selector)}")
    if spec.group_by:
        report.field("Groups by", spec.group_by)
    report.field("Counted", f"{status.hosts}, {status.silent} of them silent")
    if status.without_agent:
        named = listed(status.first_without_agent, MAX_NAMED, status.without_agent)
        report.field("No agent", f"{plural(status.without_agent, 'Kubernetes Node')}: {named}")
    if status.without_node:
        report.field("No Node", plural(status.without_node, "host"))
    if status.not_found:
        report.field("Not found", *status.not_found)
    describing.add_conditions(report, status.conditions, series.metadata.generation, now)
    report.table(
        "Order",
        ["GROUP", "HOSTS"],
        [[group.name or "-", str(group.hosts)] for group in status.groups],
        ROWS_LIMIT,
    )
    if status.first:
        report.field("In this order", listed(status.first, MAX_NAMED, status.hosts))
    describing.add_events(report, events, now)
    return report.text()


def _chosen(series: NodeSeries) -> str:
    spec = series.spec
    said = f"{len(spec.names)} by name" if spec.names else "all of the namespace"
    if spec.selector is not None:
        said = f"{said} with {_text(spec.selector)}"
    if spec.node_selector is not None:
        said = f"{said}, whose Kubernetes Node has {_text(spec.node_selector)}"
    return said


def _text(selector: LabelSelector) -> str:
    try:
        return selectors.format_selector(selector) or "any labels"
    except ValueError as error:
        return str(error)
