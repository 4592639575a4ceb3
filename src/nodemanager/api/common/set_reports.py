"""How a ConfigSet goes on the hosts that it is meant for, by what they report to the API."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from nodemanager.api.common import matching, node_conditions
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, is_held, is_silent
from nodemanager.kube import conditions

NO_LOCK: Final = "cannot take lock"
"""How a host says that another one has a lock that it needs."""


class SetProgress(StrEnum):
    """How it goes on one host, the worst first."""

    FAILED = "failed"
    CONFLICTED = "conflicted"
    SILENT = "silent"
    HELD = "held"
    APPLYING = "applying"
    APPLIED = "applied"


class SetOnHost(NamedTuple):
    """One host that a set is meant for."""

    host: str
    state: SetProgress
    reason: str
    since: str | None
    """When that began, as far as it is known."""


def report_of(node: ManagedNode, config_set: str) -> AppliedConfigSet | None:
    """Return what a host says of a set; None if it has not said anything yet."""
    for entry in node.status.configsets:  # asked for each host of a fleet, again and again
        if entry.name == config_set:
            return entry
    return None


def holds(report: AppliedConfigSet, generation: int) -> bool:
    """Tell whether all of this generation is in force; agents of the Go project do not say which one is."""
    current = report.observed_generation in (0, generation)
    return current and not (report.error or report.waiting or report.conflicts or report.held)


def on_hosts(config_set: ConfigSet, nodes: Iterable[ManagedNode]) -> list[SetOnHost]:
    """Return the hosts that a set is for; those that need a person come first."""
    found = [
        _on_host(config_set, node) for node in nodes if matching.matches(config_set, node.metadata.labels)
    ]
    order = list(SetProgress)
    return sorted(found, key=lambda one: (order.index(one.state), one.host))


def _on_host(config_set: ConfigSet, node: ManagedNode) -> SetOnHost:
    name, report = node.metadata.name, report_of(node, config_set.metadata.name)
    generation = config_set.metadata.generation
    if is_silent(node):
        return SetOnHost(name, SetProgress.SILENT, "no sign of life", _since(node, node_conditions.ALIVE))
    if is_held(node) and (report is None or not holds(report, generation)):
        held = conditions.get(node.status.conditions, node_conditions.HELD)
        since = held.last_transition_time if held else None
        return SetOnHost(name, SetProgress.HELD, "waits for the end of the hold", since)
    if report is None:
        return SetOnHost(name, SetProgress.APPLYING, "has not reported it yet", None)
    if report.error:
        began = _since(node, conditions.READY) or report.last_applied
        return SetOnHost(name, SetProgress.FAILED, report.error, began)
    if report.conflicts:
        more = f" and {len(report.conflicts) - 1} more" if report.conflicts[1:] else ""
        return SetOnHost(name, SetProgress.CONFLICTED, f"{report.conflicts[0]}{more}", report.last_applied)
    if report.waiting:
        return SetOnHost(name, SetProgress.APPLYING, report.waiting, report.last_applied)
    if not holds(report, generation):
        reason = f"has generation {report.observed_generation}, not {generation} yet"
        return SetOnHost(name, SetProgress.APPLYING, reason, report.last_applied)
    return SetOnHost(name, SetProgress.APPLIED, "", report.last_applied)


def _since(node: ManagedNode, kind: str) -> str | None:
    """Return since when a condition of a host is not true."""
    found = conditions.get(node.status.conditions, kind)
    return found.last_transition_time if found and found.status != conditions.TRUE else None
