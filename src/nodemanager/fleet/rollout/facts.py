"""What is known of the hosts of a ConfigSet while a change of it is rolled out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from nodemanager.api.common import choosing, enforcement, node_conditions, set_reports
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, is_held, is_silent
from nodemanager.api.common.rollout import FAIL, RevisionRef, RolloutStatus
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.rollout import turns
from nodemanager.fleet.rollout.turns import Turns
from nodemanager.fleet.rollout.witness import NOTHING, Witness
from nodemanager.kube import conditions, times
from nodemanager.kube.objects import ObjectMeta

SILENT: Final = "silent"
UNAWARE: Final = "its agent does not know about stages"
TROUBLES: Final = {node_conditions.CONTESTED: "something is contested", node_conditions.DRIFTED: "drifted"}
"""Conditions that say so of a host, whatever it reports of a set."""


class Progress(StrEnum):
    """How a host is with the next revision; or, if there is none, with leaving the one that was undone."""

    ABSENT = "absent"
    """Silent, held, or without an agent that knows about stages: it proves nothing, nor is it waited for."""
    LOST = "lost"
    """It fell silent since its turn: the change may have killed it."""
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
    """Of those that are absent, lost, put off, or troubled: why."""
    back: datetime | None = None
    """Since when it is heard again; of one that is lost: since when it is not."""
    turn: datetime | None = None
    """Since when it has its turn, at the latest."""


class _Judged(NamedTuple):
    progress: Progress
    why: str = ""


class Asking(NamedTuple):
    """What is to be known of a rollout to judge its hosts."""

    name: str
    """Of the ConfigSet."""
    status: RolloutStatus
    turns: Turns
    witness: Witness
    now: datetime | None
    on_silence: str


def of_hosts(
    name: str,
    status: RolloutStatus,
    nodes: Iterable[ManagedNode],
    *,
    witness: Witness = NOTHING,
    now: datetime | None = None,
    on_silence: str = FAIL,
) -> list[RolloutHost]:
    """Return the hosts that take part in the rollout of a set, by what they report."""
    asking = Asking(name, status, turns.of(status), witness, now, on_silence)
    return [
        _host(asking, node)
        for node in nodes
        if is_concerned(status, node) and choosing.takes_part(status, node.metadata)
    ]


def calm(nodes: Iterable[ManagedNode]) -> list[str]:
    """Return the hosts that nothing troubles."""
    return [one.metadata.name for one in nodes if not any(_troubles(one))]


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


def had_by_most(
    config_set: str, revisions: Sequence[RevisionRef], nodes: Iterable[ManagedNode]
) -> RevisionRef | None:
    """Return the revision that most hosts say they have, the older of two; None = no host has any.

    So it is found out what is stable when nobody knows any more: hosts keep what they have until their turn.
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


def _host(asking: Asking, node: ManagedNode) -> RolloutHost:
    meta, status, report = node.metadata, asking.status, set_reports.report_of(node, asking.name)
    alive = conditions.get(node.status.conditions, node_conditions.ALIVE)
    since = times.parse(alive.last_transition_time) if alive else None
    position = choosing.position(meta.uid, status.next.digest) if status.next else 0
    canary = choosing.is_canary(status, meta.labels)
    judged = _judged(asking, node, report)
    moved = status.next is not None and (canary or position < status.threshold)
    if moved and judged.why == SILENT and asking.on_silence == FAIL:
        turn = asking.turns.earliest(position, canary=canary)
        # Whoever is called silent in the second of its turn fell silent before.
        if since is not None and turn is not None and since > turn and not _is_visited(node):
            judged = _Judged(Progress.LOST, SILENT)
    latest = asking.turns.latest(position, canary=canary)
    return RolloutHost(meta.name, position, canary, judged.progress, judged.why, since, latest)


def _is_visited(node: ManagedNode) -> bool:
    """Tell whether a maintenance or an upgrade works on a host, which may well restart it."""
    claim = claims.decode(node.metadata.annotations.get(ANNOTATION_VISIT))
    return claim is not None and claim.holds


def _judged(asking: Asking, node: ManagedNode, report: AppliedConfigSet | None) -> _Judged:
    status = asking.status
    if gone := _gone(node, asking.now):
        return _Judged(Progress.ABSENT, gone)
    if report is not None and _is_unaware(report, status.observed_generation):
        return _Judged(Progress.ABSENT, UNAWARE)
    wanted = status.next
    if wanted is None:
        undone = status.refused is not None and report is not None and report.digest == status.refused.digest
        if undone and report is not None:
            return _Judged(Progress.UNPROVEN, report.waiting or report.error)
        return _Judged(Progress.HEALTHY)
    if not choosing.is_meant(wanted, node.metadata.labels):
        return _Judged(Progress.HEALTHY if report is None else Progress.UNPROVEN)  # it is to forget the set
    if report is not None and (why := _put_off(report)):
        return _Judged(Progress.PUT_OFF, why)
    if report is None or report.digest != wanted.digest:
        return _Judged(Progress.UNPROVEN)
    if report.error or report.conflicts:
        return _Judged(Progress.FAILED)
    if why := _trouble(asking, node):
        return _Judged(Progress.UNPROVEN, why)
    return _Judged(Progress.UNPROVEN if report.waiting else Progress.HEALTHY)


def _gone(node: ManagedNode, now: datetime | None = None) -> str:
    """Return why a host cannot be asked; empty = it can."""
    status, silent = node.status, is_silent(node)
    if not (status.release or status.agent_version or status.configsets):
        return "has no agent"
    if is_held(node) or (silent and _is_to_be_held(node, now)):
        return "held"
    return SILENT if silent else ""


def _is_to_be_held(node: ManagedNode, now: datetime | None) -> bool:
    """Tell whether somebody holds a host, which cannot say so."""
    until = times.parse(node.spec.hold.until) if node.spec.hold is not None else None
    return until is not None and (now is None or until > now)


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


def _trouble(asking: Asking, node: ManagedNode) -> str:
    """Return what troubles a host since the rollout began, though the set itself has no fault."""
    found = _troubles(node)
    return next((why for why, one in found if _is_new(asking, node.metadata.name, one)), "")


def _troubles(node: ManagedNode) -> Iterator[tuple[str, conditions.Condition]]:
    found = node.status.conditions
    for kind, why in TROUBLES.items():
        one = conditions.get(found, kind)
        left_alone = one is not None and one.reason == node_conditions.OBSERVED
        if one is not None and one.status == conditions.TRUE and not left_alone:
            yield why, one
    ready = conditions.get(found, conditions.READY)
    if ready is None or ready.reason != node_conditions.APPLY_FAILED or ready.status != conditions.FALSE:
        return
    if not any(one.error or one.conflicts for one in node.status.configsets):
        yield "its last pass broke off", ready


def _is_new(asking: Asking, name: str, condition: conditions.Condition) -> bool:
    """Tell whether a host had no such trouble when the rollout began; its own clock is asked last."""
    if asking.witness.whole or name in asking.witness.calm:
        return name in asking.witness.calm
    began, since = asking.turns.began, times.parse(condition.last_transition_time)
    return began is None or since is None or since >= began
