"""What a host reports, read once for all of its sets in a rollout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, is_held, is_silent
from nodemanager.fleet.rollout import visitors
from nodemanager.kube import conditions, times

SILENT: Final = "silent"
TROUBLES: Final = {node_conditions.CONTESTED: "something is contested", node_conditions.DRIFTED: "drifted"}
"""Conditions that mark a host as troubled, whatever it reports about a set."""


class HostView(NamedTuple):
    """One host."""

    node: ManagedNode
    made: datetime | None
    since: datetime | None
    """Since when the host is heard, or is silent."""
    gone: str
    """Why it cannot answer; empty = it can."""
    away: str
    """What else makes it unavailable; empty = no other work."""
    troubles: Sequence[tuple[str, conditions.Condition]]
    reports: Mapping[str, AppliedConfigSet]

    @property
    def lasts(self) -> bool:
        """Whether conclusions from this view stay true until the next report of the host.

        They do not for a silent host, which depends on time, nor for a troubled one: earlier views decide.
        """
        return not self.troubles and not is_silent(self.node)


def view_of(node: ManagedNode, now: datetime | None = None) -> HostView:
    """Return the view of a host."""
    alive = conditions.get(node.status.conditions, node_conditions.ALIVE)
    since = times.parse(alive.last_transition_time) if alive else None
    return HostView(
        node,
        times.parse(node.metadata.creation_timestamp),
        since,
        gone(node, now),
        visitors.of(node, since, now),
        tuple(_troubles(node)),
        {one.name: one for one in reversed(node.status.configsets)},  # of two with one name, the first counts
    )


def calm(nodes: Iterable[ManagedNode]) -> list[str]:
    """Return the hosts without troubles."""
    return [one.metadata.name for one in nodes if not any(_troubles(one))]


def gone(node: ManagedNode, now: datetime | None = None) -> str:
    """Return why a host cannot answer; empty = it can."""
    status, silent = node.status, is_silent(node)
    if not (status.release or status.agent_version or status.configsets):
        return "has no agent"
    if is_held(node) or (silent and _is_to_be_held(node, now)):
        return "held"
    return SILENT if silent else ""


def _is_to_be_held(node: ManagedNode, now: datetime | None) -> bool:
    """Tell whether a person holds a host that cannot report it."""
    until = times.parse(node.spec.hold.until) if node.spec.hold is not None else None
    return until is not None and (now is None or until > now)


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
