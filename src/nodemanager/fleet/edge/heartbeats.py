"""Which nodes live: by when the operator saw their heartbeats change, never by their clocks. Pure.

A heartbeat that was never seen to change proves nothing. A change counts from the look before it, because
it may have come right after that look. So no heartbeat counts as younger than it is, however long nobody
looked. When our own clock was set back, older looks do not count. What a look saw is in the status that
it writes, and another operator goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.edge.bridge_parts import Bridge, HeartbeatSource
from nodemanager.api.edge.edgecluster import (
    BRIDGE,
    FRESH,
    FUTURE,
    GONE,
    MAX_NODES,
    MISSING,
    STALE,
    UNPROVEN,
    UNREADABLE,
    EdgeClusterStatus,
    EdgeNode,
)
from nodemanager.api.edge.profile_parts import Thresholds
from nodemanager.fleet.edge import decoding
from nodemanager.fleet.edge.decoding import UnreadableText
from nodemanager.fleet.edge.facts import Read
from nodemanager.kube import times
from nodemanager.kube.go import durations

AGE: Final = "90s"
SKEW: Final = "30s"
FORGET: Final = "1h"


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of a profile, with defaults for what it does not declare."""

    age: timedelta
    skew: timedelta
    forget: timedelta

    @staticmethod
    def of(given: Thresholds | None) -> Limits:
        """Return those of a profile."""
        found = given or Thresholds()
        spans = (found.heartbeat_age or AGE, found.clock_skew or SKEW, found.forget_nodes or FORGET)
        return Limits(*(timedelta(seconds=durations.parse(one)) for one in spans))


def nodes(
    bridge: Bridge, read: Read, before: EdgeClusterStatus, limits: Limits, now: datetime
) -> list[EdgeNode]:
    """Return the nodes that sent heartbeats, and those that did so before and are gone."""
    if read.answer not in (FRESH, MISSING):
        return unseen(before, "its signs of life could not be read")
    known = {one.name: one for one in before.nodes if one.source == BRIDGE}
    looked, data, prefix = times.parse(before.observed_at), read.data, bridge.heartbeats.key_prefix
    there = names(bridge, read)
    mark = _mark(bridge)
    # Very many new names must not hide nodes that were there before.
    shown = sorted(sorted(there, key=lambda name: (name not in known, name))[:MAX_NODES])
    found = [
        _node(bridge.heartbeats, mark, name, data[prefix + name], known.get(name), limits, looked, now)
        for name in shown
    ]
    gone = [_gone(one, now) for name, one in known.items() if name not in there]
    return [*found, *gone][:MAX_NODES]


def names(bridge: Bridge, read: Read) -> set[str]:
    """Return who leaves signs of life."""
    prefix = bridge.heartbeats.key_prefix
    return {key.removeprefix(prefix) for key in read.data if key.startswith(prefix)} - {""}


def unseen(before: EdgeClusterStatus, why: str) -> list[EdgeNode]:
    """Return the known nodes as Unproven, without the memory that later heartbeats are compared with."""
    return [
        EdgeNode(name=one.name, source=BRIDGE, heartbeat=UNPROVEN, message=why, gone_since=one.gone_since)
        for one in before.nodes
        if one.source == BRIDGE
    ]


def _mark(bridge: Bridge) -> str:
    """Return an id of the place of the heartbeats: another text from another place is no change."""
    where = bridge.namespace.encode() + b"/" + msgspec.json.encode(bridge.heartbeats)
    return decoding.digest(where.decode())


def _node(
    source: HeartbeatSource,
    mark: str,
    name: str,
    text: str,
    before: EdgeNode | None,
    limits: Limits,
    looked: datetime | None,
    now: datetime,
) -> EdgeNode:
    try:
        beat = decoding.beat(source, text)
    except UnreadableText as error:
        return EdgeNode(name=name, source=BRIDGE, heartbeat=UNREADABLE, message=str(error))
    digest = f"{mark}{beat.digest}"
    set_back = looked is not None and now < looked  # it is unknown for how long no change was seen
    if before is None or not before.digest.startswith(mark) or set_back:
        changed = None
    elif before.digest != digest:
        changed = looked  # it changed at some time since then, so it may be as old as that
    else:
        changed = times.parse(before.changed_at)
    judged, why = _judged(changed, limits, now)
    if beat.at is not None and beat.at > now + limits.skew:
        judged, why = FUTURE, f"its clock is ahead: it says {times.rfc3339(beat.at)}"
    return EdgeNode(
        name=name, source=BRIDGE, heartbeat=judged, digest=digest, message=why,
        changed_at=times.rfc3339(changed) if changed else None,
    )  # fmt: skip


def _judged(changed: datetime | None, limits: Limits, now: datetime) -> tuple[str, str]:
    if changed is None:
        return UNPROVEN, "no new sign of life was seen yet"
    if not timedelta(0) <= now - changed <= limits.age:
        return STALE, f"no new sign of life since {times.rfc3339(changed)}"
    return FRESH, ""


def _gone(node: EdgeNode, now: datetime) -> EdgeNode:
    gone = times.parse(node.gone_since)
    since = times.rfc3339(min(gone, now) if gone else now)  # a clock that was set back has it begin anew
    return EdgeNode(
        name=node.name, source=BRIDGE, heartbeat=GONE, gone_since=since, changed_at=node.changed_at,
        message=f"it leaves no signs of life any more since {since}",
    )  # fmt: skip


def forgotten(node: EdgeNode, limits: Limits, now: datetime) -> bool:
    """Tell whether a node is gone for so long that it is no longer shown."""
    since = times.parse(node.gone_since)
    return since is not None and now - since > limits.forget
