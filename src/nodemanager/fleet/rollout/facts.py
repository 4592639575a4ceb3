"""What is known of the hosts of a ConfigSet while a change of it is rolled out."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from nodemanager.api.common import choosing, set_reports
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, is_held, is_silent
from nodemanager.api.common.rollout import RevisionRef, RolloutStatus


class Progress(StrEnum):
    """How a host is with the next revision."""

    ABSENT = "absent"
    """Silent, held, or without an agent: it neither proves anything nor fails."""
    UNPROVEN = "unproven"
    HEALTHY = "healthy"
    FAILED = "failed"


class RolloutHost(NamedTuple):
    """One host that takes part."""

    name: str
    position: int
    canary: bool
    progress: Progress
    has_refused: bool = False
    """It is alive, and reports the revision that was undone."""


def of_hosts(name: str, status: RolloutStatus, nodes: Iterable[ManagedNode]) -> list[RolloutHost]:
    """Return the hosts that take part in the rollout of a set, by what they report."""
    refs = (status.next, status.stable, status.refused)
    return [
        _host(name, status, node)
        for node in nodes
        if any(choosing.is_meant(one, node.metadata.labels) for one in refs)
        and choosing.takes_part(status, node.metadata)
    ]


def _host(name: str, status: RolloutStatus, node: ManagedNode) -> RolloutHost:
    meta, report = node.metadata, set_reports.report_of(node, name)
    gone = _is_absent(node)
    refused = status.refused is not None and report is not None and report.digest == status.refused.digest
    return RolloutHost(
        meta.name,
        choosing.position(meta.uid, status.next.digest) if status.next else 0,
        choosing.is_canary(status, meta.labels),
        Progress.ABSENT if gone else _progress(status.next, node, report),
        has_refused=refused and not gone,
    )


def _is_absent(node: ManagedNode) -> bool:
    status = node.status
    never = not (status.release or status.agent_version or status.configsets)
    return never or is_silent(node) or is_held(node)


def _progress(wanted: RevisionRef | None, node: ManagedNode, report: AppliedConfigSet | None) -> Progress:
    if wanted is None or not choosing.is_meant(wanted, node.metadata.labels):
        return Progress.HEALTHY if report is None else Progress.UNPROVEN  # it is to forget the set
    if report is None or report.digest != wanted.digest:
        return Progress.UNPROVEN
    if report.error or report.conflicts:
        return Progress.FAILED
    return Progress.UNPROVEN if report.waiting or report.held else Progress.HEALTHY
