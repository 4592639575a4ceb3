"""The hosts of a rollout, as a look sees them that remembers nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.fleet.rollout import facts, host_views
from nodemanager.fleet.rollout.facts import RolloutHost


def of_hosts(
    name: str, status: RolloutStatus, nodes: Iterable[ManagedNode], **asking: Any
) -> list[RolloutHost]:
    """Return the hosts that take part in the rollout of a set, by what they report."""
    asked = facts.asking(name, status, **asking)
    found = (facts.of_host(asked, host_views.view_of(node, asked.now)) for node in nodes)
    return [one for one in found if one is not None]
