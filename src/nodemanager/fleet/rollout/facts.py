"""What is known of the hosts of a ConfigSet while a change of it is rolled out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from nodemanager.api.common import choosing, enforcement, set_reports
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode
from nodemanager.api.common.rollout import FAIL, RevisionRef, RolloutStatus
from nodemanager.fleet.rollout import host_views, turns, visitors
from nodemanager.fleet.rollout.host_views import HostView
from nodemanager.fleet.rollout.turns import RolloutTurns
from nodemanager.fleet.rollout.witness import NOTHING, Witness
from nodemanager.kube import conditions, times
from nodemanager.kube.objects import ObjectMeta

UNAWARE: Final = "its agent does not know about stages"


class RolloutProgress(StrEnum):
    """How far a host is with the next revision; without one, with leaving the one that was undone."""

    ABSENT = "absent"
    """Silent, held, or with an agent that knows no stages: it proves nothing, and nothing waits for it."""
    LOST = "lost"
    """It fell silent after its turn began: the change may have killed it."""
    PUT_OFF = "put off"
    """It waits for its window or for a lock: it has not failed, and what it does then is not proven yet."""
    UNPROVEN = "unproven"
    HEALTHY = "healthy"
    FAILED = "failed"


class RolloutHost(NamedTuple):
    """One host that takes part in the rollout."""

    name: str
    position: int
    canary: bool
    progress: RolloutProgress
    why: str = ""
    """The reason, for hosts that are absent, lost, put off or troubled."""
    back: datetime | None = None
    """Since when it is heard again; for a lost host, since when it is silent."""
    turn: datetime | None = None
    """The latest time at which its turn can have begun."""
    away: str = ""
    """What else makes it unavailable; empty = no other work."""


class _Judged(NamedTuple):
    progress: RolloutProgress
    why: str = ""


class RolloutQuestion(NamedTuple):
    """What is needed to judge the hosts of a rollout."""

    name: str
    """The name of the ConfigSet."""
    status: RolloutStatus
    turns: RolloutTurns
    witness: Witness
    now: datetime | None
    on_silence: str
    began: datetime | None
    meant: Sequence[RevisionRef]
    """The contents that hosts have or should have, each with its own choice of hosts."""
    change: str
    """The change of the group that decides the order of hosts; empty = the revision decides."""


def asking(
    name: str,
    status: RolloutStatus,
    *,
    witness: Witness = NOTHING,
    now: datetime | None = None,
    on_silence: str = FAIL,
) -> RolloutQuestion:
    """Return what is needed to judge the hosts of a set's rollout."""
    refs = [one for one in (status.next, status.stable, status.refused) if one is not None]
    chosen: list[RevisionRef] = []
    for one in refs:
        if not any((one.labels, one.node_selector) == (each.labels, each.node_selector) for each in chosen):
            chosen.append(one)
    began = times.parse(status.started_at)
    change = status.group.id if status.next is not None and status.group is not None else ""
    return RolloutQuestion(name, status, turns.of(status), witness, now, on_silence, began, chosen, change)


def of_host(asked: RolloutQuestion, view: HostView, position: int | None = None) -> RolloutHost | None:
    """Return how one host is with the rollout of a set; None = it takes no part.

    `position` is its place in the order, if known: it is the same in sets that move together.
    """
    labels = view.node.metadata.labels
    late = view.made is not None and asked.began is not None and view.made > asked.began
    if late or not any(choosing.is_meant(one, labels) for one in asked.meant):
        return None
    return _host(asked, view, position)


def progress(asked: RolloutQuestion, node: ManagedNode) -> RolloutProgress:
    """Return how one host stands to the change of a set, by what is published and what it reports."""
    return _judged(asked, host_views.view_of(node)).progress


def is_concerned(status: RolloutStatus, node: ManagedNode) -> bool:
    """Tell whether a host has a set, or should have it, whenever it joined."""
    refs = (status.next, status.stable, status.refused)
    return any(choosing.is_meant(one, node.metadata.labels) for one in refs)


def had_by_all(config_set: ObjectMeta, digest: str, nodes: Iterable[ManagedNode]) -> bool:
    """Tell whether all hosts of a set that can answer have its present content, without any rollout.

    So it was before there were revisions. What hosts say of a set of that name that was deleted is no proof.
    """
    asked = [one for one in nodes if not host_views.gone(one)]
    return bool(asked) and all(
        _has(set_reports.report_of(one, config_set.name), config_set, digest) for one in asked
    )


def had_by_most(
    config_set: str, revisions: Sequence[RevisionRef], nodes: Iterable[ManagedNode]
) -> RevisionRef | None:
    """Return the revision that most hosts report, the older one if two are equal; None = none.

    This finds the stable revision again when its record was lost: hosts keep what they have until their turn.
    """
    reports = (set_reports.report_of(one, config_set) for one in nodes)
    have = Counter(one.digest for one in reports if one is not None and one.digest)
    known = [one for one in revisions if have[one.digest]]
    return max(known, key=lambda one: (have[one.digest], -one.revision), default=None)


def _has(report: AppliedConfigSet | None, config_set: ObjectMeta, digest: str) -> bool:
    if report is None or report.digest:
        return report is not None and report.digest == digest
    made, applied = times.parse(config_set.creation_timestamp), times.parse(report.last_applied)
    newer = made is None or (applied is not None and applied >= made)
    return report.observed_generation == config_set.generation and newer


def _host(asked: RolloutQuestion, view: HostView, position: int | None) -> RolloutHost:
    meta, status, since = view.node.metadata, asked.status, view.since
    if position is None:
        position = choosing.place(status, meta) if status.next else 0
    canary = choosing.is_canary(status, meta.labels)
    judged = _judged(asked, view)
    moved = status.next is not None and (canary or position < status.threshold)
    if moved and judged.why == host_views.SILENT and asked.on_silence == FAIL:
        turn = asked.turns.earliest(position, canary=canary)
        visited = view.away or visitors.is_claimed(view.node)
        # A host that was silent before the second of its turn is not lost because of the change.
        if since is not None and turn is not None and since > turn and not visited:
            judged = _Judged(RolloutProgress.LOST, host_views.SILENT)
    latest = asked.turns.latest(position, canary=canary)
    return RolloutHost(meta.name, position, canary, judged.progress, judged.why, since, latest, view.away)


def _judged(asked: RolloutQuestion, view: HostView) -> _Judged:
    status, report = asked.status, view.reports.get(asked.name)
    if view.gone:
        return _Judged(RolloutProgress.ABSENT, view.gone)
    if report is not None and _is_unaware(report, status.observed_generation):
        return _Judged(RolloutProgress.ABSENT, UNAWARE)
    wanted = status.next
    if wanted is None:
        undone = status.refused is not None and report is not None and report.digest == status.refused.digest
        if undone and report is not None:
            return _Judged(RolloutProgress.UNPROVEN, report.waiting or report.error)
        return _Judged(RolloutProgress.HEALTHY)
    if not choosing.is_meant(wanted, view.node.metadata.labels):
        return _Judged(
            RolloutProgress.HEALTHY if report is None else RolloutProgress.UNPROVEN
        )  # it is to forget the set
    if report is not None and (why := _put_off(report)):
        return _Judged(RolloutProgress.PUT_OFF, why)
    if report is None or report.digest != wanted.digest:
        return _Judged(RolloutProgress.UNPROVEN)
    if report.error or report.conflicts:
        return _Judged(RolloutProgress.FAILED)
    if why := _trouble(asked, view):
        return _Judged(RolloutProgress.UNPROVEN, why)
    return _Judged(RolloutProgress.UNPROVEN if report.waiting else RolloutProgress.HEALTHY)


def _is_unaware(report: AppliedConfigSet, generation: int) -> bool:
    """Tell whether an agent follows the newest spec by itself, or does not report which revision it has."""
    took = report.observed_generation in (0, generation)
    return took and not report.digest and not report.held


def _put_off(report: AppliedConfigSet) -> str:
    if report.held or report.waiting == enforcement.WAITS:
        return enforcement.WAITS
    # A host with a failure reports `cannot`. This is no failure: only another host has the lock.
    locks = report.error.count(f": {set_reports.NO_LOCK} ")
    return "waits for a lock" if 0 < locks == report.error.count("cannot ") else ""


def _trouble(asked: RolloutQuestion, view: HostView) -> str:
    """Return a trouble that began since a host has the change, though the set itself reports no fault."""
    name = view.node.metadata.name
    return next((why for why, one in view.troubles if _is_new(asked, name, one)), "")


def _is_new(asked: RolloutQuestion, name: str, condition: conditions.Condition) -> bool:
    """Tell whether a host had no such trouble before the change; its own clock is the last resort."""
    if asked.witness.whole or name in asked.witness.calm:
        return name in asked.witness.calm
    began, since = asked.turns.first, times.parse(condition.last_transition_time)
    return began is None or since is None or since >= began
