"""What the status shows of drifts that are not repaired at once: they wait for a turn, or for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from nodemanager.agent.report import status
from nodemanager.api.common import node_conditions
from nodemanager.api.common.declarations import ESCALATE, IN_TURN
from nodemanager.api.common.left_drifts import MAX_SETS, LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import ManagedNodeStatus
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition


def left(results: Iterable[Result], policy: str) -> list[Result]:
    """Return the drifts of one drift policy that are not put back."""
    return [
        one
        for one in results
        if one.drifted
        and one.policy == policy
        and one.outcome not in (ResourceOutcome.CHANGED, ResourceOutcome.UNCHANGED)
    ]


def of_results(
    old: ManagedNodeStatus, results: Sequence[Result], used: str, now: datetime, generation: int
) -> ManagedNodeStatus:
    """Return the status with what waits; `used` is the last turn that is over, as far as we know."""
    before, stamp = old.left_drifts or LeftDrifts(), times.rfc3339(now)
    calls = left(results, ESCALATE)
    found = LeftDrifts(
        asks=_by_set([one.turns for one in left(results, IN_TURN)], before.asks, stamp),
        used=used or before.used,
        escalated=_by_set([one.sources for one in calls], before.escalated, stamp),
    )
    new = msgspec.structs.replace(old, left_drifts=found if found != LeftDrifts() else None)
    known = conditions.get(old.conditions, node_conditions.ESCALATED) is not None
    return status.of_condition(new, _condition(calls), now, generation) if known or calls else new


def _by_set(named: Sequence[Sequence[str]], before: Sequence[LeftDrift], stamp: str) -> list[LeftDrift]:
    since = {one.configset: one.since for one in before}
    counts: dict[str, int] = {}
    for names in named:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return [
        LeftDrift(configset=name, since=since.get(name, stamp), resources=count)
        for name, count in sorted(counts.items())[:MAX_SETS]
    ]


def _condition(calls: Sequence[Result]) -> Condition:
    if not calls:
        return Condition(
            type=node_conditions.ESCALATED, status=conditions.FALSE, reason=node_conditions.NOTHING_ESCALATED
        )
    return Condition(
        type=node_conditions.ESCALATED, status=conditions.TRUE, reason=node_conditions.DRIFT_ESCALATED,
        message=status.joined(calls),
    )  # fmt: skip
