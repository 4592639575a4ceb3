"""What is known of the hosts of a ConfigSet while a change of it is rolled out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from nodemanager.api.common import choosing, enforcement, node_conditions, set_reports
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, is_held, is_silent
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.kube import conditions, times
from nodemanager.kube.objects import ObjectMeta

UNAWARE: Final = "its agent does not know about stages"
TROUBLES: Final = {node_conditions.CONTESTED: "something is contested", node_conditions.DRIFTED: "drifted"}
"""Conditions that say so of a host, whatever it reports of a set."""


class Progress(StrEnum):
    """How a host is with the next revision; or, if there is none, with leaving the one that was undone."""

    ABSENT = "absent"
    """Silent, held, or without an agent that knows about stages: it proves nothing, nor is it waited for."""
    PUT_OFF = "put off"
    """It waits for its window or for a lock: it has not failed, and what it does then is not proven yet."""
    UNPROVEN = "unproven"
    HEALTHY = "healthy"
    FAILED = "failed"


class RolloutHost(NamedTuple):
    """One host that takes part."""

    name: str
    position: int
    canary: bool
    progress: Progress
    why: str = ""
    """Of those that are absent, put off, or troubled: why."""
    back: datetime | None = None
    """Since when it is heard again."""
    told: datetime | None = None
    """When it said what it says of the next revision, by its own clock."""


class _Judged(NamedTuple):
    progress: Progress
    why: str = ""


def of_hosts(name: str, status: RolloutStatus, nodes: Iterable[ManagedNode]) -> list[RolloutHost]:
    """Return the hosts that take part in the rollout of a set, by what they report."""
    return [
        _host(name, status, node)
        for node in nodes
        if is_concerned(status, node) and choosing.takes_part(status, node.metadata)
    ]


def is_concerned(status: RolloutStatus, node: ManagedNode) -> bool:
    """Tell whether a host has a set, or is to have it, whenever it joined."""
    refs = (status.next, status.stable, status.refused)
    return any(choosing.is_meant(one, node.metadata.labels) for one in refs)


def had_by_all(config_set: ObjectMeta, digest: str, nodes: Iterable[ManagedNode]) -> bool:
    """Tell whether all hosts of a set that can be asked have it as it is now, without any rollout.

    So it was before there were revisions. What hosts say of a set of that name that was deleted is no proof.
    """
    asked = [one for one in nodes if not _gone(one)]
    return bool(asked) and all(
        _has(set_reports.report_of(one, config_set.name), config_set, digest) for one in asked
    )


def _has(report: AppliedConfigSet | None, config_set: ObjectMeta, digest: str) -> bool:
    if report is None or report.digest:
        return report is not None and report.digest == digest
    made, applied = times.parse(config_set.creation_timestamp), times.parse(report.last_applied)
    newer = made is None or (applied is not None and applied >= made)
    return report.observed_generation == config_set.generation and newer


def _host(name: str, status: RolloutStatus, node: ManagedNode) -> RolloutHost:
    meta, report = node.metadata, set_reports.report_of(node, name)
    alive = conditions.get(node.status.conditions, node_conditions.ALIVE)
    judged = _judged(status, node, report)
    on_it = report is not None and status.next is not None and report.digest == status.next.digest
    return RolloutHost(
        meta.name,
        choosing.position(meta.uid, status.next.digest) if status.next else 0,
        choosing.is_canary(status, meta.labels),
        judged.progress,
        judged.why,
        times.parse(alive.last_transition_time) if alive else None,
        times.parse(report.last_applied) if report and on_it else None,
    )


def _judged(status: RolloutStatus, node: ManagedNode, report: AppliedConfigSet | None) -> _Judged:
    if gone := _gone(node):
        return _Judged(Progress.ABSENT, gone)
    if report is not None and _is_unaware(report, status.observed_generation):
        return _Judged(Progress.ABSENT, UNAWARE)
    wanted = status.next
    if wanted is None:
        undone = status.refused is not None and report is not None and report.digest == status.refused.digest
        return _Judged(Progress.UNPROVEN if undone else Progress.HEALTHY)
    if not choosing.is_meant(wanted, node.metadata.labels):
        return _Judged(Progress.HEALTHY if report is None else Progress.UNPROVEN)  # it is to forget the set
    if report is not None and (why := _put_off(report)):
        return _Judged(Progress.PUT_OFF, why)
    if report is None or report.digest != wanted.digest:
        return _Judged(Progress.UNPROVEN)
    if report.error or report.conflicts:
        return _Judged(Progress.FAILED)
    if why := _trouble(status, node):
        return _Judged(Progress.UNPROVEN, why)
    return _Judged(Progress.UNPROVEN if report.waiting else Progress.HEALTHY)


def _gone(node: ManagedNode) -> str:
    """Return why a host cannot be asked; empty = it can."""
    status = node.status
    if not (status.release or status.agent_version or status.configsets):
        return "has no agent"
    if is_silent(node):
        return "silent"
    return "held" if is_held(node) else ""


def _is_unaware(report: AppliedConfigSet, generation: int) -> bool:
    """Tell whether an agent has taken the newest spec by itself, or does not even say which one it has."""
    took = report.observed_generation in (0, generation)
    return took and not report.digest and not report.held


def _put_off(report: AppliedConfigSet) -> str:
    if report.held or report.waiting == enforcement.WAITS:
        return enforcement.WAITS
    # Whoever reports a failure says `cannot`: nothing failed but that another host has the lock.
    locks = report.error.count(f": {set_reports.NO_LOCK} ")
    return "waits for a lock" if 0 < locks == report.error.count("cannot ") else ""


def _trouble(status: RolloutStatus, node: ManagedNode) -> str:
    """Return what troubles a host since the rollout began, though the set itself has no fault."""
    found = node.status.conditions
    for kind, why in (
        (node_conditions.CONTESTED, "something is contested"),
        (node_conditions.DRIFTED, "drifted"),
    ):
        one = conditions.get(found, kind)
        left_alone = one is not None and one.reason == node_conditions.OBSERVED
        if one is not None and one.status == conditions.TRUE and not left_alone and _is_new(status, one):
            return why
    ready = conditions.get(found, conditions.READY)
    if ready is None or ready.reason != node_conditions.APPLY_FAILED or ready.status != conditions.FALSE:
        return ""
    explained = any(one.error or one.conflicts for one in node.status.configsets)
    return "" if explained or not _is_new(status, ready) else "its last pass broke off"


def _is_new(status: RolloutStatus, condition: conditions.Condition) -> bool:
    began, since = times.parse(status.started_at), times.parse(condition.last_transition_time)
    return began is None or since is None or since >= began
