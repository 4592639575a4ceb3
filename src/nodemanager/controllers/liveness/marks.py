"""What a ManagedNode reports about the life of its host. Pure: a judgement changes a status.

| judgement | Alive   | Ready                           | lastSeen             |
|-----------|---------|---------------------------------|----------------------|
| alive     | True    | as the agent says               | removed              |
| silent    | False   | Unknown, until the agent speaks | when it was seen     |
| never     | Unknown | as the agent says               | stays                |
| untold    | stays   | stays                           | stays                |
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from nodemanager.api.common import managednode, node_conditions
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.controllers.liveness.heartbeats import Life, LivenessJudgement
from nodemanager.kube import conditions, times
from nodemanager.kube.conditions import Condition

_NO_LEASE = "its agent has sent no sign of life yet; agents of the Go project send none"


def marked(node: ManagedNode, judgement: LivenessJudgement, now: datetime) -> ManagedNodeStatus:
    """Return the status of a host after a judgement; the same object if it does not change."""
    status = node.status
    match judgement.life:
        case Life.UNTOLD:
            return status
        case Life.ALIVE:
            alive = Condition(
                type=node_conditions.ALIVE, status=conditions.TRUE, reason=node_conditions.LEASE_RENEWED
            )
            return _with(status, [alive], now, last_seen=None)
        case Life.NEVER:
            never = Condition(
                type=node_conditions.ALIVE,
                status=conditions.UNKNOWN,
                reason=node_conditions.NO_LEASE,
                message=_NO_LEASE,
            )
            return _with(status, [never], now, last_seen=status.last_seen)
        case Life.SILENT:
            return _silenced(node, judgement, now)


def _silenced(node: ManagedNode, judgement: LivenessJudgement, now: datetime) -> ManagedNodeStatus:
    if managednode.is_silent(node):
        return node.status  # reported already; only the agent itself may report again
    seen = times.rfc3339(now - timedelta(seconds=judgement.silent_for))
    silent = Condition(
        type=node_conditions.ALIVE,
        status=conditions.FALSE,
        reason=node_conditions.LEASE_EXPIRED,
        message=f"no sign of life since {seen}: the host is down, cut off, or its agent does not run",
    )
    before = conditions.get(node.status.conditions, conditions.READY)
    ready = Condition(
        type=conditions.READY,
        status=conditions.UNKNOWN,
        reason=node_conditions.AGENT_SILENT,
        message=f"no sign of life since {seen}; before that it was {_in_words(before)}",
        observed_generation=before.observed_generation if before else 0,
    )
    return _with(node.status, [silent, ready], now, last_seen=seen)


def _in_words(ready: Condition | None) -> str:
    if ready is None:
        return "not reported on"
    return f"Ready={ready.status} ({ready.reason})" if ready.reason else f"Ready={ready.status}"


def _with(
    status: ManagedNodeStatus, news: Sequence[Condition], now: datetime, *, last_seen: str | None
) -> ManagedNodeStatus:
    found = list(status.conditions)
    for one in news:
        found = conditions.set_condition(found, one, times.rfc3339(now))
    return msgspec.structs.replace(status, conditions=found, last_seen=last_seen)
